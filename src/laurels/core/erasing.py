"""Erasing a person: the member is removed from all boards. In data that has to stay, such as sealed
periods and payouts, a token replaces the member.

The record `Erase` removes the member from the boards, and puts it on the list of erasures that are
not complete. Then the archive, the payouts and the audit log are rewritten; if that is interrupted,
it is repeated later. The record `Erased` completes the erasure. The token is random, so the member
cannot be computed from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from laurels.model.answer import Answer
from laurels.model.labels import ALL

from .board_state import BoardState
from .index import Index
from .scope_scan import ScopeScan

BOARDS = 500
"""The number of boards that are searched in a share."""
IDS = 20_000
"""The number of event ids that are searched in a share."""


class Remaining(Answer, frozen=True):
    """A place that may still name an erased member: `log`, `snapshots`, `memory`, `changes`,
    `sinks` or `backups`. `until` says what has to happen before it no longer names the member, and
    `until_ms` when this happens, if the time is known. `names` has the boards, the sinks, or the
    files of snapshots that were set aside."""

    place: str
    until: str
    until_ms: int | None = None
    names: list[str] = field(default_factory=list)


class Erasure(Answer, frozen=True):
    """The result of erasing a member. `token` now stands in the places of the member. `boards` is
    the number of boards that had the member. `periods`, `payouts` and `audit_entries` are how many
    of each name the token now; each revision of a sealed period counts as one of `periods`.
    `remains` has the places that may still name the member."""

    token: str
    at_ms: int
    boards: int
    periods: int
    payouts: int
    audit_entries: int
    remains: list[Remaining]


def merged_erasure(erasures: Sequence[Erasure]) -> Erasure:
    """Return the erasures of a member from several stores as one."""
    first = erasures[0]
    return Erasure(
        first.token,
        max([each.at_ms for each in erasures]),
        sum([each.boards for each in erasures]),
        sum([each.periods for each in erasures]),
        sum([each.payouts for each in erasures]),
        sum([each.audit_entries for each in erasures]),
        [place for each in erasures for place in each.remains],
    )


class Traces(Struct, frozen=True):
    """Where a board has a member: the scopes in which it is ranked, and its event ids."""

    scopes: list[str]
    ids: list[bytes]


class SearchedBoards(Protocol):
    """The boards that are searched for a member."""

    @property
    def index(self) -> Index: ...

    @property
    def boards(self) -> Mapping[str, BoardState]: ...


class ErasureScan:
    """A search, in shares, for the boards that have a member; `found` has those found so far, by
    number. Nothing may be written between the shares."""

    def __init__(self, member: bytes) -> None:
        self.found: dict[int, Traces] = {}
        self._member = member
        self._search: Iterator[None] | None = None

    def search_share(self, boards: SearchedBoards) -> bool:
        """Search the next share; return whether it was the last one."""
        if self._search is None:
            self._search = self._shares(boards)
        return next(self._search, True) is True

    def _shares(self, boards: SearchedBoards) -> Iterator[None]:
        for at, state in enumerate(list(boards.boards.values())):
            if at and not at % BOARDS:
                yield
            scan = ScopeScan(state.number, self._member)
            while not scan.search_share(boards.index):
                yield
            index, number, member = boards.index, state.number, self._member
            scopes = index.scopes_with_member(number, member, (ALL,)) + scan.scopes
            ids: list[bytes] = []
            place: int | None = 0
            while place is not None:
                some, place = index.ids_of(number, member, place, IDS)
                ids += some
                if place is not None:
                    yield
            if scopes or ids or self._is_named(boards.index, state):
                self.found[number] = Traces(scopes, ids)

    def _is_named(self, index: Index, state: BoardState) -> bool:
        """Return whether a board has data of the member, hides it, or hid it when a period was
        closed."""
        return (
            index.data(state.number, [self._member.decode()]) != [None]
            or state.hidden.stored(self._member) is not None
            or any(
                self._member in sealed.hidden
                for closing in state.closing.values()
                for sealed in closing.sealed.values()
            )
        )
