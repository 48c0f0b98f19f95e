"""What a log is: the durable, ordered record of everything that may change an answer."""

from collections.abc import Callable, Iterator
from typing import Protocol


class Log(Protocol):
    """Entries under consecutive offsets from 1. One writer at a time; readers at any time."""

    @property
    def offset(self) -> int:
        """The offset of the newest entry, 0 when there is none."""

    @property
    def first(self) -> int:
        """The offset of the oldest entry still there; one past the newest when there is none."""

    @property
    def doubt(self) -> str | None:
        """Why nothing vouched for the log's end when it was opened; None where something did."""

    def append(self, body: bytes) -> int:
        """Make an entry durable and answer its offset; StorageFailed when it could not."""

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Return the entries after an offset, in order; LogDamaged at the first that is not
        whole."""

    def trim(self, until: int) -> bool:
        """Forget some of the entries up to and including an offset, as many as take little time;
        return whether there are more. The newest entry always stays."""

    def note(self, key: str) -> str | None:
        """A small fact kept beside the entries, such as which clock they were written by."""

    def set_note(self, key: str, value: str) -> None: ...

    def nbytes(self) -> int:
        """What the log takes on its medium, in bytes."""

    def close(self) -> None: ...


class RewritableLog(Log, Protocol):
    """A log whose entries can be put right while nobody uses it."""

    def rewrite(self, change: Callable[[bytes], bytes | None], *, dry_run: bool) -> int:
        """Replace every entry for which `change` returns another, all of them or none; how many
        those are. With `dry_run` they are only counted. StorageFailed, LogDamaged."""
