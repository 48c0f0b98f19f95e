"""The mark of a log: its newest offset, in a separate file.

If the end of SQLite's write-ahead file is damaged, SQLite treats it as an unfinished transaction
and discards it. The mark detects this. It is written after each commit and not flushed, so it costs
little. It is never ahead of the log on the disk, so a log that ends before its mark has lost
entries. A mark has a checksum. If the mark is damaged or missing, the end of the log cannot be
verified. This is logged and shown in the store's statistics. Earlier versions wrote 20 digits
without a checksum.
"""

import logging
import os
import zlib
from contextlib import suppress
from pathlib import Path

from laurels.errors import LogDamaged
from laurels.stores.local.files.private_files import create_file

_DIGITS = 20
_LENGTH = 30
_log = logging.getLogger("laurels")


def _encode(offset: int) -> bytes:
    digits = b"%020d" % offset
    return b"%s %08x\n" % (digits, zlib.crc32(digits))


def _decode(content: bytes) -> int | None:
    """Return the offset in a mark; None if the mark is damaged."""
    digits = content[:_DIGITS]
    if not digits.isdigit():
        return None
    offset = int(digits)
    return offset if content in (digits, _encode(offset)) else None


class Mark:
    """The mark beside a log. `doubt` is the reason why the end of the log could not be verified
    when the log was opened; None if it was verified."""

    def __init__(self, path: Path, log: Path, offset: int) -> None:
        """Read the mark of a log that ends at `offset`. Raises LogDamaged if the mark is
        greater."""
        missing = not path.exists()
        self._file = create_file(path)
        self.doubt: str | None = None
        try:
            marked = _decode(os.pread(self._file, _LENGTH + 1, 0))
            if marked is not None and marked > offset:
                raise LogDamaged(
                    f"{log} ends at entry {offset}, but {path} says that {marked} were written: "
                    "the log has lost its end; to continue without the missing entries, remove "
                    f"{path}"
                )
        except BaseException:
            self.close()
            raise
        if marked is None and not (missing and offset == 0):
            what = "is missing" if missing else "is damaged"
            self.doubt = (
                f"{path} {what}: it cannot be verified that the log has no entries after {offset}"
            )
            _log.warning("%s; compare with a backup, or with the senders of the events", self.doubt)
            with suppress(OSError):
                os.ftruncate(self._file, _LENGTH)
        if marked is None:
            self.set(offset)

    def set(self, offset: int) -> None:
        """Write the newest offset. If this fails, the newest entry is still acknowledged, since it
        is on the disk. But the mark then keeps an older offset until the next call, and a loss of
        entries after that offset is not detected."""
        with suppress(OSError):
            os.pwrite(self._file, _encode(offset), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
