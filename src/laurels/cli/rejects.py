"""The rejects of an import: every line that was not counted, with its number and the reason.

The file is CSV: line number, code, message, the line as it stood (bytes that are not UTF-8 shown
as \\xNN). It is written as the import goes on and is in step with it: an import begun anew
begins the file anew, and one that goes on keeps what was written up to the place where it goes
on. It exists only where there is something in it.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from .failures import OutputFailed
from .reading import Reject

_HEADER = ["line", "code", "message", "text"]
_FIELD_LIMIT = 1 << 24


class RejectsFile:
    """The rejects of one source; a context that closes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def keep_to(self, line: int) -> None:
        """Drops what an earlier run wrote about lines after `line`.

        A file of this name that is not a rejects file is left alone and refused.
        """
        if not self.path.is_file():
            return
        kept = [row for row in self._rows() if int(row[0]) <= line]
        with _writable(self.path):
            self.path.unlink()
        if kept:
            self._append(kept)

    def write(self, rejects: Iterable[Reject]) -> None:
        """Appends rejects and hands them to the system."""
        rows = [
            [
                str(reject.line),
                reject.code,
                reject.message,
                reject.raw.decode(errors="backslashreplace").rstrip("\r\n"),
            ]
            for reject in rejects
        ]
        if rows:
            self._append(rows)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, rows: Iterable[list[str]]) -> None:
        with _writable(self.path):
            if self._file is None:
                self._file = self._opened()
            csv.writer(self._file, lineterminator="\n").writerows(rows)
            self._file.flush()

    def _opened(self) -> TextIO:
        fresh = not self.path.exists()
        file = self.path.open("a", encoding="utf-8", newline="")
        if fresh:
            csv.writer(file, lineterminator="\n").writerow(_HEADER)
        return file

    def _rows(self) -> list[list[str]]:
        """The rows of an earlier run; one that was cut off by a kill is left out."""
        with _writable(self.path):
            content = self.path.read_text(encoding="utf-8", errors="replace")
        rows = _parsed(content)
        if content and rows[:1] != [_HEADER]:
            raise OutputFailed(f"{self.path} is there and is no rejects file: give --rejects")
        return [row for row in rows[1:] if len(row) == len(_HEADER) and row[0].isdigit()]


def _parsed(content: str) -> list[list[str]]:
    before = csv.field_size_limit(_FIELD_LIMIT)
    try:
        return list(csv.reader(io.StringIO(content)))
    except csv.Error:
        return []
    finally:
        csv.field_size_limit(before)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputFailed(f"{path} cannot be written: {error.strerror}") from error
