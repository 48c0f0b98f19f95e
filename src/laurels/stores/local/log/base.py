"""The protocol of a log: the durable, ordered record of everything that may change an answer."""

from collections.abc import Callable, Iterator
from typing import Protocol

ERASED_UNTIL = "erased_until"
"""The note with the offset up to which entries may name members who were erased. Such entries are
overwritten when they are trimmed."""


class Log(Protocol):
    """Entries with consecutive offsets that begin with 1. There may be one writer at a time, and
    readers at any time."""

    @property
    def offset(self) -> int:
        """The offset of the newest entry, 0 if there is none."""

    @property
    def first(self) -> int:
        """The offset of the oldest entry that was not trimmed. For an empty log, the offset that
        its first entry will have."""

    @property
    def doubt(self) -> str | None:
        """The reason why the end of the log could not be verified when the log was opened; None if
        it was verified."""

    def append(self, body: bytes) -> int:
        """Append an entry durably and return its offset. Raises StorageFailed."""

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the entries after an offset, in order. Raises LogDamaged at the first damaged
        entry."""

    def trim(self, until: int) -> bool:
        """Remove entries up to and including an offset. One call removes only a limited number of
        them; return whether more are left to remove. The newest entry is never removed."""

    def note(self, key: str) -> str | None:
        """Return a note: a small text stored beside the entries, such as the name of the clock."""

    def set_note(self, key: str, value: str) -> None: ...

    def nbytes(self) -> int:
        """Return the size of the log on its medium, in bytes."""

    def close(self) -> None: ...


class RewritableLog(Log, Protocol):
    """A log whose entries can be rewritten while it is not in use."""

    def rewrite(self, change: Callable[[bytes], bytes | None], *, dry_run: bool) -> int:
        """Replace every entry for which `change` returns a new entry, in one transaction. Return
        the number of replaced entries. With `dry_run` replace nothing, and return how many entries
        would be replaced. Raises StorageFailed, LogDamaged."""
