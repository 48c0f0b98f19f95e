"""The kinds of writes, and the steps of a write between its acceptance and its result.

The caller's thread makes a write and validates its form. The commit determines the time `now`, and
turns the write into records of the log. The records are folded once they are durable.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.fold import Fold
from laurels.core.scope_scan import ScopeScan
from laurels.errors import BoardExists, BoardInvalid, DataMoved, PeriodsUnsealed, UnsafeChange
from laurels.errors.payouts import (
    InvalidReference,
    PayoutConfirmed,
    PayoutNotDue,
    PayoutsOpen,
    UnknownPayout,
)
from laurels.model.board import Board
from laurels.model.board_change import ensure_end_to_come, named_as, safe_change
from laurels.model.board_times import instant_text
from laurels.model.validation import is_unicode, quoted, safe_repr

from .tags import new_tag, new_uid

MAX_TEXT = 500
"""The maximum length of a reference or a reason, in characters."""


class FoldedWrite(Protocol):
    """A write in a commit. The commit calls these methods in the order in which they are listed.

    A write is folded piece by piece. Here, a piece is what was accepted at one time `now`, such as
    a batch of events; `piece` is its index in `pieces()`. Pieces of different writes with the same
    `now` are folded together: first `before` is called for all of them, then `fold`, then `after`.
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
        """Record what the result needs to know of the state before this piece is folded."""

    def fold(self, fold: Fold, piece: int) -> None:
        """Apply the records of a piece. They are durable by now."""

    def after(self, fold: Fold, piece: int) -> None:
        """Record what the result needs to know of the state after this piece was folded."""

    def results(self, offset: int) -> Sequence[Any]:
        """Return the result for each caller, after the whole commit was folded at `offset`. May
        raise an error for all of them."""


class Task:
    """Work that is done between commits. It is queued like a write, but has no records."""

    exclusive = True
    weight = 1
    board = None
    kind = None
    moves = None

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._done: Any = None

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._done = self._work()
        return []

    def prepare(self, fold: Fold, limit: int) -> bool:
        return True

    def pieces(self) -> list[int]:
        return []

    def before(self, fold: Fold, piece: int) -> None:
        pass

    def fold(self, fold: Fold, piece: int) -> None:
        pass

    def after(self, fold: Fold, piece: int) -> None:
        pass

    def results(self, offset: int) -> Sequence[Any]:
        return [self._done]


class Single:
    """A write of one record, which `propose` makes from the state of the boards during the commit.

    An `exclusive` write has a commit of its own, since later writes are validated against its
    effect. The result of the write is the result of folding the record.
    """

    weight = 1
    board = None
    kind = None
    moves = None

    def __init__(
        self, propose: Callable[[Boards, int], record.Record | None], *, exclusive: bool = False
    ) -> None:
        self.exclusive = exclusive
        self._propose = propose
        self._record: record.Record | None = None
        self._done = False

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._record = self._propose(boards, now_ms)
        return [] if self._record is None else [self._record]

    def prepare(self, fold: Fold, limit: int) -> bool:
        return True

    def pieces(self) -> list[int]:
        return [] if self._record is None else [self._record.now_ms]

    def before(self, fold: Fold, piece: int) -> None:
        pass

    def fold(self, fold: Fold, piece: int) -> None:
        if self._record is not None:
            self.settle(fold.apply(self._record))

    def settle(self, done: bool) -> None:
        """Store the result of folding the record."""
        self._done = done

    def after(self, fold: Fold, piece: int) -> None:
        pass

    def results(self, offset: int) -> Sequence[bool]:
        return [self._done]


class Several:
    """A write of several records, which `propose` makes from the state of the boards during the
    commit."""

    exclusive = True
    board = None
    scopes = ()
    kind = None
    moves = None
    weight = 1

    def __init__(self, propose: Callable[[Boards, int], list[record.Record]]) -> None:
        self._propose = propose
        self._records: list[record.Record] = []

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._records = self._propose(boards, now_ms)
        return self._records

    def plan(self, boards: Boards) -> None:
        pass

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

    def results(self, offset: int) -> Sequence[None]:
        return [None]


class Removal(Single):
    """A write that removes a member. It first searches for the scopes with the member, in shares.
    On a board with scopes it has a commit of its own, since otherwise earlier writes of the same
    commit could add the member to a scope after the search."""

    def __init__(
        self,
        propose: Callable[[Boards, int], record.Record | None],
        board: BoardState,
        member: bytes,
    ) -> None:
        super().__init__(propose, exclusive=board.rules.scoped)
        self._scan = ScopeScan(board.number, member)

    def prepare(self, fold: Fold, limit: int) -> bool:
        return self._scan.search_share(fold.index)

    def fold(self, fold: Fold, piece: int) -> None:
        assert isinstance(self._record, record.Remove)
        state = fold.by_number(self._record.board)
        fold.move_time(state, self._record.now_ms)
        state.changes += 1
        self.settle(fold.remove(self._record, self._scan.scopes))


def creation(board: Board, *, exist_ok: bool) -> Single:
    """Return a write that creates a board. With `exist_ok` an equal board may already exist."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        if (existing := boards.boards.get(board.name)) is not None:
            is_equal = existing.board == named_as(board, existing.board)
            if exist_ok and is_equal:
                return None
            differs = "" if is_equal else " with another definition"
            raise BoardExists(f"there is a board {quoted(board.name)} already{differs}")
        if not boards.event_time and board.rules().is_gone(now_ms):
            raise BoardInvalid(
                f"the board would be removed at once: {board.retain} after {board.ends} is before "
                f"now, {instant_text(now_ms)}"
            )
        return record.Create(boards.next_number, 1, now_ms, board.to_json(), new_uid(), new_tag())

    return Single(propose, exclusive=True)


def change(name: str, changes: Mapping[str, Any]) -> Single:
    """Return a write that changes the definition of a board. Changes that would alter the meaning
    of earlier answers are refused."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        changed = safe_change(state.board, changes)
        if changed == state.board:
            return None
        at_ms = boards.accepts_at(state, now_ms)
        ensure_end_to_come(state.board, changed, at_ms)
        ensure_end_open(state, changed)
        return record.Redefine(
            state.number,
            state.version + 1,
            at_ms,
            changed.to_json(),
            new_tag(),
        )

    return Single(propose, exclusive=True)


def ensure_end_open(state: BoardState, changed: Board) -> None:
    """Raise UnsafeChange if the end of a board would change after a period that ends there was
    closed."""
    ends_ms = state.rules.ends_ms
    if changed.rules().ends_ms == ends_ms:
        return
    for name, closing in state.closing.items():
        window = state.rules.windows[name]
        closed = (*closing.closed, *closing.sealed)
        if any(window.period_of(instance).end_ms == ends_ms for instance in closed):
            raise UnsafeChange(
                f"ends cannot change: the window {quoted(name)} was closed at the end of the board"
            )


def deletion(name: str, *, is_moved: bool = False) -> Single:
    """Return a write that deletes a board with all its data. With `is_moved` the board continues in
    another store, so no change records the deletion."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        if isinstance(boards, Fold) and not boards.closings.is_settled(
            state, boards.time_of(state)
        ):
            raise PeriodsUnsealed(f"closed periods of {quoted(name)} are not in the archive yet")
        if boards.payouts is not None and boards.payouts.is_open(state.uid):
            raise PayoutsOpen(f"the board {quoted(name)} has payouts that are not confirmed")
        tag = 0 if is_moved else new_tag()
        return record.Delete(state.number, state.version, boards.accepts_at(state, now_ms), tag)

    return Single(propose, exclusive=True)


def confirmation(name: str, payout: str, reference: str) -> Single:
    """Return a write that records that a payout of a board was paid. The board may be deleted by
    now."""
    ensure_short_text(reference, "reference")

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        row = None
        if boards.payouts is not None and isinstance(payout, str) and is_unicode(payout):
            row = boards.payouts.find(payout)
        if row is None or row.board != name:
            boards.named(name)
            raise UnknownPayout(f"the board {quoted(name)} has no payout {safe_repr(payout)}")
        if row.reference == reference:
            return None
        if row.reference is not None:
            raise PayoutConfirmed(
                f"the payout {payout} was confirmed with the reference {quoted(row.reference)}, "
                f"got {quoted(reference)}"
            )
        state = boards.boards.get(name)
        if state is not None and state.uid != row.uid:
            state = None
        at_ms = now_ms if state is None else boards.accepts_at(state, now_ms)
        if (status := row.state(at_ms)) != "due":
            raise PayoutNotDue(f"the payout {payout} is {status}")
        number, version = (0, 0) if state is None else (state.number, state.version)
        return record.Confirm(
            number, version, at_ms, payout, reference, row.member.encode(), new_tag()
        )

    return Single(propose, exclusive=True)


def ensure_short_text(value: object, name: str) -> None:
    """Raise InvalidReference for anything but text of 1 to 500 characters."""
    if not (isinstance(value, str) and 1 <= len(value) <= MAX_TEXT and is_unicode(value)):
        raise InvalidReference(
            f"expected text of 1 to {MAX_TEXT} characters for {name}, got {safe_repr(value)}"
        )


def removal(board: BoardState, member: bytes) -> Single:
    """Return a write that removes a member from a board. The result of the write is whether the
    member was ranked."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(board.board.name)
        return record.Remove(
            state.number, state.version, boards.accepts_at(state, now_ms), member, new_tag()
        )

    return Removal(propose, board, member)


class DataChange(Single):
    """A write that sets or removes the JSON data of a member. With `before` the write has a commit
    of its own, and raises DataMoved if the stored data differs from `before`. For boards on an
    index server, the server makes this comparison."""

    def __init__(
        self,
        board: BoardState,
        member: bytes,
        data: bytes | None,
        before: bytes | UnsetType | None,
    ) -> None:
        def propose(boards: Boards, now_ms: int) -> record.Record | None:
            state = boards.named(board.board.name)
            if before is not UNSET and isinstance(boards, Fold):
                (now,) = boards.index.data(state.number, [member.decode()])
                if now != before:
                    raise data_moved(member)
            at_ms = boards.accepts_at(state, now_ms)
            return record.MemberData(state.number, state.version, at_ms, member, data, new_tag())

        super().__init__(propose, exclusive=before is not UNSET)
        self.expected = before


def data_moved(member: bytes) -> DataMoved:
    """Return the error for member data that is not equal to `before`."""
    return DataMoved(f"the data of {quoted(member.decode())} is not equal to `before`")
