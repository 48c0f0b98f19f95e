"""The writes that remove a member and change its data."""

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.fold import Fold
from laurels.core.scope_scan import ScopeScan
from laurels.errors import DataMoved
from laurels.model.validation import quoted

from .tags import new_tag
from .writes import Single


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
        (removed,) = self._records
        assert isinstance(removed, record.Remove)
        state = fold.by_number(removed.board)
        fold.move_time(state, removed.now_ms)
        state.changes += 1
        self.settle(fold.remove(removed, self._scan.scopes))


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
