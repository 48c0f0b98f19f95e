"""The rejects file of an import: every line that was not counted, with its number and the reason.

The file is CSV, with the fields board, source, line number, code, message, and the original line
(bytes that are not UTF-8 are written as \\xNN). An import that starts over first removes its
earlier rejects. An import that continues keeps its rejects for the lines that it skips. Rejects of
other imports in the same file are kept. A file without rejects is removed.
"""

import csv
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from laurels.cli.errors import OutputFailed
from laurels.stores.local.files.private_files import APPEND, open_output

from .reading import Reject

_HEADER = ["board", "source", "line", "code", "message", "text"]
_FIELD_LIMIT = 1 << 28

_Line = tuple[str, str, int, str, str, str]


class RejectsFile:
    """The rejects file of one source; `source` is None if that source has no name. The caller has
    to close the file."""

    def __init__(self, path: Path, board: str, source: str | None) -> None:
        self.path = path
        self._board = board
        self._source = source
        self._file: TextIO | None = None

    def keep_to(self, line: int) -> None:
        """Remove the rejects that an earlier run of this import wrote for lines after `line`.

        Raises OutputFailed if the file cannot be written, even before there is any reject to write.
        Also raises it for a file that is not a rejects file, and leaves that file unchanged.
        """
        with _writable(self.path):
            if self.path.is_file():
                self._rewrite(
                    [record for record in self._stored_records() if self._stays(record, line)]
                )
            elif self.path.exists():
                self._file = self._opened()
            else:
                target = self.path.resolve()
                target.open("x").close()
                target.unlink()

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append rejects and pass them to the operating system."""
        lines: list[_Line] = [
            (
                *(self._board, self._source or "", reject.line, reject.code, reject.message),
                _text(reject.raw),
            )
            for reject in rejects
        ]
        if not lines:
            return
        with _writable(self.path):
            if self._file is None:
                self._file = self._opened()
            _write(self._file, lines)
            self._file.flush()

    def close(self) -> None:
        """Close the file. Errors are not raised here: an error of writing was already raised by
        `write`."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _stays(self, record: _Line, line: int) -> bool:
        board, source, number, *_ = record
        return number <= line or self._source is None or (board, source) != self._owner()

    def _owner(self) -> tuple[str, str]:
        return self._board, self._source or ""

    def _rewrite(self, lines: list[_Line]) -> None:
        """Replace the lines of the file, or remove the file if there are none."""
        target = self.path.resolve()
        if not lines:
            target.unlink()
            return
        partial = target.with_name(f".laurels-{secrets.token_hex(8)}")
        try:
            with partial.open("x", encoding="utf-8", newline="") as file:
                _write(file, [_HEADER, *lines])
                file.flush()
                os.fsync(file.fileno())
            partial.chmod(target.stat().st_mode & 0o777)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def _opened(self) -> TextIO:
        fresh = not self.path.exists()
        file = os.fdopen(open_output(self.path, APPEND), "a", encoding="utf-8", newline="")
        if fresh:
            _write(file, [_HEADER])
        return file

    def _stored_records(self) -> list[_Line]:
        """Return the records of the file, without a line cut off by a kill."""
        with self.path.open(encoding="utf-8", errors="replace", newline="") as file:
            content = file.read()
        rows = _parsed(content)
        if content and rows[:1] != [_HEADER]:
            raise OutputFailed(
                f"expected a rejects file at {self.path}, got another file: choose another path "
                "with --rejects"
            )
        return [
            (row[0], row[1], int(row[2]), row[3], row[4], row[5])
            for row in rows[1:]
            if len(row) == len(_HEADER) and row[2].isdecimal()
        ]


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace").removesuffix("\n").removesuffix("\r")


def _write(file: TextIO, lines: Iterable[Iterable[str | int]]) -> None:
    """Write records with every text in quotes, so that line ends in texts can be read back."""
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(lines)


def _parsed(content: str) -> list[list[str]]:
    """Return the records of a CSV text before the first malformed one."""
    before = csv.field_size_limit(_FIELD_LIMIT)
    rows: list[list[str]] = []
    try:
        with suppress(csv.Error):
            for row in csv.reader(io.StringIO(content, newline=""), strict=True):
                rows.append(row)
        return rows
    finally:
        csv.field_size_limit(before)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # circular links raise RuntimeError
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputFailed(
            f"the rejects file {path} cannot be written: {reason}: choose another with --rejects"
        ) from error
