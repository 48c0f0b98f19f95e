"""Queries about members of a ranking."""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from laurels.errors import InvalidRadius, InvalidRank
from laurels.errors.ledger import InvalidEntry
from laurels.errors.service import MemberNotRanked
from laurels.model.labels import LabelPairs
from laurels.model.validation import quoted, safe_repr

from .index import Offset
from .mending import StoredEntry, stored_entry
from .query import ListQuery, Query, RankingQuery, ScopedQuery
from .query_context import QueryContext
from .query_members import checked_members, ensure_member
from .rank import Rank
from .read_plan import MAX_RADIUS, ReadPlan, final
from .requests import ReadRequest, ReadResult
from .standing import Needed, Page, Standing, decode_data, words_at

T = TypeVar("T")


class _OfMember(ListQuery[T], frozen=True, kw_only=True):
    absent = MemberNotRanked

    member: str

    def __post_init__(self) -> None:
        ensure_member(self.member)

    def to_answer(self, result: T) -> Any:
        return _ranked(result, self.member)


class Around(_OfMember[Page | None], frozen=True, kw_only=True):
    """A member and its neighbours."""

    verb = "around"
    path = "around"
    returns = Page
    cacheable = True

    radius: int = 5

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure("radius", 0, MAX_RADIUS, InvalidRadius)

    @property
    def size(self) -> int:
        return self.radius

    def plan(self, now: QueryContext) -> ReadPlan[Page | None]:
        return self._view(now).around(self.member, self.radius, self.with_data)


class StandingOf(_OfMember[Standing | None], frozen=True, kw_only=True):
    """A member's rank, score, neighbours and gaps."""

    verb = "standing"
    path = "standing"
    returns = Standing
    cacheable = True

    to_rank: int | None = None

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("to_rank")

    def plan(self, now: QueryContext) -> ReadPlan[Standing | None]:
        view = self._view(now)
        return view.standing(self.member, self.to_rank, self.with_data, now.now_ms)


class RankAnswer(Struct, frozen=True):
    """A member's rank; below the head of a board it may be between two bounds."""

    rank: Rank


class RankOf(RankingQuery[Rank | None], frozen=True, kw_only=True):
    """A member's rank alone; faster than `standing`. Below the head of a board the rank may be
    estimated, with the bounds between which it lies."""

    verb = "rank"
    path = "rank"
    returns = RankAnswer
    cacheable = True
    absent = MemberNotRanked

    member: str

    def __post_init__(self) -> None:
        ensure_member(self.member)

    def plan(self, now: QueryContext) -> ReadPlan[Rank | None]:
        return self._view(now).rank(self.member)

    def to_answer(self, result: Rank | None) -> RankAnswer:
        rank: Rank = _ranked(result, self.member)
        return RankAnswer(rank)

    def from_answer(self, answer: RankAnswer) -> Rank | None:
        return answer.rank


class RanksAnswer(Struct, frozen=True):
    """Ranks in the order of the members; null for each member that is not ranked."""

    ranks: Sequence[Rank | None]


class RanksOf(RankingQuery[Sequence[Rank | None]], frozen=True, kw_only=True):
    """The ranks of several members, all from one state.

    The body has the members (an array, or `{"members": […]}`), and the ranks are in the order of
    the body. Below the head of a board a rank may be estimated.
    """

    verb = "ranks"
    path = "ranks"
    returns = RanksAnswer
    body = "members"

    members: Sequence[str]

    def __post_init__(self) -> None:
        force_setattr(self, "members", checked_members(self.members))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[Sequence[Rank | None]]:
        return self._view(now).ranks(self.members)

    def to_answer(self, result: Sequence[Rank | None]) -> RanksAnswer:
        return RanksAnswer(result)

    def from_answer(self, answer: RanksAnswer) -> Sequence[Rank | None]:
        return answer.ranks


class CardAnswer(Struct, frozen=True):
    """A member's standing in every window, all from one state; null for a window in which the
    member is not ranked.
    """

    member: str
    windows: dict[str, Standing | None]


class Card(ScopedQuery[dict[str, Standing | None]], frozen=True, kw_only=True):
    """A member's standing in the running period of every window, all from one state. It is null for
    each window in which the member is not ranked."""

    verb = "card"
    path = "card"
    returns = CardAnswer
    cacheable = True

    member: str
    to_rank: int | None = None
    with_data: bool = False

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("to_rank")

    def plan(self, now: QueryContext) -> ReadPlan[dict[str, Standing | None]]:
        windows = now.state.rules.windows
        plans = [
            now.view(window, None, labels=self.labels, by=self.by).standing(
                self.member, self.to_rank, self.with_data, now.now_ms
            )
            for window in windows
        ]
        requests = tuple(dict.fromkeys(request for plan in plans for request in plan.requests))

        def finish(results: Sequence[ReadResult], offset: Offset) -> dict[str, Standing | None]:
            by_request = dict(zip(requests, results, strict=True))
            return {
                window: final(
                    plan.finish([by_request[request] for request in plan.requests], offset)
                )
                for window, plan in zip(windows, plans, strict=True)
            }

        return ReadPlan(requests, finish)

    def to_answer(self, result: dict[str, Standing | None]) -> CardAnswer:
        return CardAnswer(self.member, result)

    def from_answer(self, answer: CardAnswer) -> dict[str, Standing | None]:
        return answer.windows


class NeededAnswer(Struct, frozen=True):
    """The value that one event needs; null if the member is at the position already."""

    needed: Needed | None


class NeededFor(Query[Needed | None], frozen=True, kw_only=True):
    """The value of one event that, counted now and alone, moves a member to a position or better:
    for a sum the smallest amount, for a last or best column the value that is easiest to reach.
    Other columns stay as they are. The member need not be ranked. On a board with a head the
    position is by default the last of the head."""

    verb = "needed"
    path = "needed"
    returns = NeededAnswer
    cacheable = True

    member: str
    rank: int | None = None
    window: str | None = None
    column: str | None = None
    labels: LabelPairs = ()

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("rank")

    def plan(self, now: QueryContext) -> ReadPlan[Needed | None]:
        view = now.view(self.window, None, labels=self.labels)
        rank = self.rank or now.state.rules.head
        if not rank:
            raise InvalidRank("expected a rank: the board has no head")
        return view.needed(self.member, rank, self.column, now.now_ms)

    def to_answer(self, result: Needed | None) -> NeededAnswer:
        return NeededAnswer(result)

    def from_answer(self, answer: NeededAnswer) -> Needed | None:
        return answer.needed


class StandingsOf(ListQuery[Page], frozen=True, kw_only=True):
    """The entries of some members, such as a player's friends.

    The body has the members (an array, or `{"members": […]}`). Each entry also has the member's
    rank among the requested ones. Members that are not ranked are left out.
    """

    verb = "standings"
    path = "standings"
    returns = Page
    body = "members"

    members: Sequence[str]

    def __post_init__(self) -> None:
        force_setattr(self, "members", list(dict.fromkeys(checked_members(self.members))))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[Page]:
        return self._view(now).standings(self.members, self.with_data)


class EntriesOf(RankingQuery[list[StoredEntry]], frozen=True, kw_only=True):
    """The entries of some members as they are stored, with the times that decide between equal
    scores. The body has the members. A member that is not ranked has an entry without a score, but
    with its data."""

    verb = "entries"
    path = "entries"
    returns = list[StoredEntry]
    body = "members"

    members: Sequence[str]
    with_data: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "members", checked_members(self.members))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[list[StoredEntry]]:
        view = self._view(now)
        if view.rules.windows[view.key.window].weighing is not None:
            raise InvalidEntry(
                f"the entries of the window {quoted(view.key.window)} change with time"
            )
        if not self.members:
            return ReadPlan((), lambda *_: [])
        request = ReadRequest(
            view.key,
            members=tuple(self.members),
            whole=True,
            data=self.with_data,
            revision=self.revision,
        )

        def finish(results: Sequence[ReadResult], _: Offset) -> list[StoredEntry]:
            located = results[0].located
            assert located is not None
            entries = [
                StoredEntry(member)
                if position < 0
                else stored_entry(member, words_at(located.words, i), view.rules)
                for i, (member, position) in enumerate(
                    zip(self.members, located.positions, strict=True)
                )
            ]
            if results[0].data is None:
                return entries
            data = decode_data(results[0].data[-1])
            return [replace(entry, data=each) for entry, each in zip(entries, data, strict=True)]

        return ReadPlan((request,), finish)


def _ranked(result: Any, member: str) -> Any:
    """Return the result for a member. Raises MemberNotRanked if the result is None."""
    if result is None:
        raise MemberNotRanked(f"{safe_repr(member)} is not ranked there")
    return result
