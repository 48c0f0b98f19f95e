"""The kinds of writes, and the steps of a write between its acceptance and its result.

The caller's thread makes a write and validates its form. The commit determines the time `now`, and
turns the write into records of the log. The records are folded once they are durable.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.fold import Fold


class FoldedWrite(Protocol):
    """A write in a commit. The commit calls these methods in the order in which they are listed.

    A write is folded piece by piece. Here, a piece is the part that was accepted at one time `now`,
    such as a batch of events; `piece` is its index in `pieces()`. Pieces of different writes with
    the same `now` are folded together: first `before` is called for all of them, then `fold`, then
    `after`.
    """

    @property
    def weight(self) -> int: ...

    @property
    def exclusive(self) -> bool: ...

    @property
    def board(self) -> BoardState | None:
        """The board of the write; None if it is not known before the commit."""

    @property
    def kind(self) -> object:
        """A key shared by writes that may be joined; None for a write that must not be joined."""

    @property
    def moves(self) -> tuple[int, str] | None:
        """The number of the board and the name of the source whose position the write commits; None
        if the write commits no position."""

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        """Plan the write, and return the records to log. If the write is refused, raise the error
        and change nothing."""

    def prepare(self, fold: Fold, limit: int) -> bool:
        """Do a share of the work that can be done before the write is folded, for about `limit`
        members. Return whether all of it is done. Readers may run between the shares, but nothing
        is written."""

    def pieces(self) -> list[int]:
        """Return the time `now`, in ms, of each piece of this write."""

    def before(self, fold: Fold, piece: int) -> None:
        """Called before this piece is folded, to read data for the result from the state."""

    def fold(self, fold: Fold, piece: int) -> None:
        """Apply the records of a piece. They are durable by now."""

    def after(self, fold: Fold, piece: int) -> None:
        """Called after this piece was folded, to read data for the result from the state."""

    def results(self, offset: int) -> Sequence[Any]:
        """Return the result for each caller, after the whole commit was folded at `offset`. May
        raise an error for all of them."""


class RecordsWrite:
    """The steps of a write with one record for each piece; the method `records` of a subclass makes
    the records. By default the write needs no preparation, and has one caller, whose result is
    None."""

    exclusive = True
    weight = 1
    board: BoardState | None = None
    kind = None
    moves = None

    _records: Sequence[record.Record] = ()

    def prepare(self, fold: Fold, limit: int) -> bool:
        return True

    def pieces(self) -> list[int]:
        return [each.now_ms for each in self._records]

    def before(self, fold: Fold, piece: int) -> None:
        pass

    def fold(self, fold: Fold, piece: int) -> None:
        fold.apply(self._records[piece])

    def after(self, fold: Fold, piece: int) -> None:
        pass

    def results(self, offset: int) -> Sequence[Any]:
        return [None]


class Task(RecordsWrite):
    """Work that is done between commits. It is queued like a write, but has no records."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._done: Any = None

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._done = self._work()
        return []

    def results(self, offset: int) -> Sequence[Any]:
        return [self._done]


class Single(RecordsWrite):
    """A write of one record, which `propose` makes from the state of the boards during the commit.

    An `exclusive` write has a commit of its own, since later writes are validated against its
    effect. The result of the write is the result of folding the record.
    """

    def __init__(
        self, propose: Callable[[Boards, int], record.Record | None], *, exclusive: bool = False
    ) -> None:
        self.exclusive = exclusive
        self._propose = propose
        self._done = False

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        proposed = self._propose(boards, now_ms)
        self._records = () if proposed is None else (proposed,)
        return list(self._records)

    def fold(self, fold: Fold, piece: int) -> None:
        self.settle(fold.apply(self._records[piece]))

    def settle(self, done: bool) -> None:
        """Store the result of folding the record."""
        self._done = done

    def results(self, offset: int) -> Sequence[Any]:
        return [self._done]


class Several(RecordsWrite):
    """A write of several records, which `propose` makes from the state of the boards during the
    commit. Writes that do not change what others are validated against need not be `exclusive`."""

    def __init__(
        self,
        propose: Callable[[Boards, int], list[record.Record]],
        *,
        exclusive: bool = True,
    ) -> None:
        self.exclusive = exclusive
        self._propose = propose

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        proposed = self._propose(boards, now_ms)
        self._records = proposed
        return proposed
