"""The protocol of a log: the durable, ordered record of everything that may change an answer."""

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
        """Why the log's end could not be verified when it was opened; None where it was."""

    def append(self, body: bytes) -> int:
        """Make an entry durable and return its offset; StorageFailed when that failed."""

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Return the entries after an offset, in order; LogDamaged at the first that is not
        whole."""

    def trim(self, until: int) -> bool:
        """Forget some of the entries up to and including an offset, as many as take little time;
        return whether there are more. The newest entry always stays."""

    def note(self, key: str) -> str | None:
        """Return a small fact stored beside the entries, such as the clock they were written by."""

    def set_note(self, key: str, value: str) -> None: ...

    def nbytes(self) -> int:
        """Return the size of the log on its medium, in bytes."""

    def close(self) -> None: ...


class RewritableLog(Log, Protocol):
    """A log whose entries can be rewritten while nobody uses it."""

    def rewrite(self, change: Callable[[bytes], bytes | None], *, dry_run: bool) -> int:
        """Replace every entry for which `change` returns another, all of them or none; return how
        many those are. With `dry_run` they are only counted. StorageFailed, LogDamaged."""
