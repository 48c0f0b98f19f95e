"""The writes that erase a member from all boards."""

from collections.abc import Sequence
from typing import Any

from laurels.core import record
from laurels.core.board_state import Boards
from laurels.core.commands import EraseMember
from laurels.core.erasing import ErasureScan
from laurels.core.fold import Fold
from laurels.core.hiding import EVERYWHERE
from laurels.errors import PeriodsUnsealed
from laurels.errors.payouts import PayoutsOpen
from laurels.model.event import member_bytes
from laurels.model.validation import quoted

from .tags import new_tag
from .writes import RecordsWrite, Single


class ErasingWrite(RecordsWrite):
    """A write that removes a member from all boards, after all closed periods were sealed.
    `archived` has the numbers of the boards with the member in their sealed periods. Boards with
    the member in memory are found by a search in shares. The result is the numbers of all boards
    that had the member, or whose changes name it as hidden."""

    def __init__(self, command: EraseMember, archived: Sequence[int]) -> None:
        self._member = member_bytes(command.member)
        self._command = command
        self._archived = [*archived]
        self._scan = ErasureScan(self._member)
        self._erased: list[record.Erase] = []
        self._boards: list[int] = []

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        assert isinstance(boards, Fold), "members are erased from local stores only"
        if boards.closings.unsettled(boards.boards.values()):
            raise PeriodsUnsealed("closed periods are not in the archive yet")
        ensure_paid(boards, self._command.member)
        self._erased = [
            record.Erase(
                EVERYWHERE,
                0,
                now_ms,
                self._member,
                self._command.token,
                self._command.reason,
                self._archived + self._hidden_in_changes(boards),
                new_tag(),
            )
        ]
        self._records = self._erased
        return [*self._erased]

    def _hidden_in_changes(self, boards: Boards) -> list[int]:
        """If the member is hidden on all boards, return the numbers of those whose changes say
        so."""
        if boards.everywhere.stored(self._member) is None:
            return []
        return [state.number for state in boards.boards.values() if state.rules.changes_ms]

    def prepare(self, fold: Fold, limit: int) -> bool:
        return self._scan.search_share(fold)

    def fold(self, fold: Fold, piece: int) -> None:
        self._boards = fold.erase(self._erased[piece], self._scan.found)

    def results(self, offset: int) -> Sequence[Any]:
        return [self._boards]


def ensure_paid(boards: Boards, member: str) -> None:
    """Raise PayoutsOpen if a member has payouts that are not confirmed. With the member gone,
    nobody could be paid, and a program that pays by the ids of payouts might pay twice."""
    if boards.payouts is None or not (count := boards.payouts.open_of(member)):
        return
    raise PayoutsOpen(
        f"{quoted(member)} has payouts that are not confirmed: {count}; to waive one, "
        "confirm it with a reference that says so"
    )


def completion(member: bytes) -> Single:
    """Return the write that completes the erasure of a member."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        assert isinstance(boards, Fold), "members are erased from local stores only"
        if member not in boards.erasing:
            return None
        return record.Erased(EVERYWHERE, 0, now_ms, member)

    return Single(propose, exclusive=True)
