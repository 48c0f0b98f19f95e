"""Receipts: what became of each event, built when somebody looks at them."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, overload

from msgspec import Struct

from .errors import (
    BatchRefused,
    DedupeFull,
    LaurelsError,
    TooLate,
    TotalOutOfRange,
)
from .fold import Folded
from .index.base import Offset, Outcome, Scores
from .rules import Rules
from .scale import scale_of
from .score import Score
from .standing import public_rank, range_text

Status = Literal["applied", "unchanged", "duplicate", "refused"]

_STATUS: dict[Outcome, Status] = {
    Outcome.APPLIED: "applied",
    Outcome.UNCHANGED: "unchanged",
    Outcome.DUPLICATE: "duplicate",
}


class Receipt(Struct, frozen=True):
    """What became of one event.

    `status` is `applied`, `unchanged` (counted, but the member stands as before), `duplicate`
    (its id was counted already) or `refused`, then with the code of the error as `reason`.
    Scores are those before and after this event, ranks those before and after its commit, in
    `window` and the period the event fell in (of a rolling window, the step that ran); None where
    the member was not ranked, where that window refused the event, and ranks also where nobody
    asked for them. In event time a commit's events count as many commits, one for each
    `now`. Where scores fade, both are as shown at the `now` of the commit.
    """

    member: str | None
    status: Status
    window: str
    offset: Offset
    period: str | None = None
    previous_score: Score | None = None
    score: Score | None = None
    previous_rank: int | None = None
    rank: int | None = None
    refused_windows: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None


class Ranks(Struct, frozen=True):
    """Ranks of a batch's members before and after its commit, from 0, -1 where not ranked."""

    before: Sequence[int]
    after: Sequence[int]


class Part:
    """A folded batch of the events handed in, and the ranks that were asked for; `places` says
    which of the accepted events they are, None: those that follow the part before."""

    def __init__(
        self, folded: Folded, ranks: Ranks | None, places: Sequence[int] | None = None
    ) -> None:
        self.folded = folded
        self.ranks = ranks
        self.places = places

    @cached_property
    def members(self) -> list[str]:
        return [member.decode() for member in self.folded.batch.member_list()]


class Receipts(Sequence[Receipt]):
    """The receipts of a batch, in the order the events were given.

    A sequence that builds a receipt when it is looked at; the counts cost nothing. `offset` is
    where the log holds the batch, or the newest offset when nothing of it was accepted; `window`
    the one whose scores and ranks the receipts tell.
    """

    def __init__(
        self,
        rules: Rules,
        window: str,
        size: int,
        offset: Offset,
        parts: Sequence[Part],
        refusals: dict[int, tuple[str | None, LaurelsError]],
        first: int = 0,
    ) -> None:
        self._rules = rules
        self.window = window
        self._place = list(rules.windows).index(window)
        self._size = size
        self.offset = offset
        self._parts = parts
        self._refusals = refusals
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + part.folded.batch.size)
        self._order = _order_of(parts)
        self._first = first
        self._is_share = first > 0 or (not refusals and size < self._starts[-1])
        self._kept: list[int] | None = None
        if refusals:
            kept = iter(range(size))
            self._kept = [-1 if i in refusals else next(kept) for i in range(size)]

    def share(self, first: int, size: int) -> "Receipts":
        """Those of `size` events from `first` on, for whoever handed just these in: of receipts of
        one part, without refusals of their own."""
        return Receipts(
            self._rules, self.window, size, self.offset, self._parts, {}, self._first + first
        )

    @property
    def applied(self) -> int:
        return self._count(Outcome.APPLIED)

    @property
    def unchanged(self) -> int:
        return self._count(Outcome.UNCHANGED)

    @property
    def duplicates(self) -> int:
        return self._count(Outcome.DUPLICATE)

    @property
    def refused(self) -> int:
        if self._is_share:
            return self._size - self.applied - self.unchanged - self.duplicates
        return len(self._refusals) + sum(part.folded.outcomes.refused for part in self._parts)

    @property
    def late(self) -> dict[str, int]:
        """How many events each window refused as too late, by the window's name."""
        counts: dict[str, int] = {}
        if self._is_share:
            return Counter(name for i in range(self._size) for name in self[i].refused_windows)
        for part in self._parts:
            for name, refused in part.folded.plan.late_by_window(part.folded.batch.size):
                counts[name] = counts.get(name, 0) + refused
        return counts

    def _count(self, outcome: Outcome) -> int:
        if self._is_share:
            codes = b"".join([bytes(part.folded.outcomes.codes) for part in self._parts])
            if self._order is not None:
                codes = bytes([codes[at] for at in self._order])
            return codes[self._first : self._first + self._size].count(outcome)
        return sum(part.folded.outcomes.codes.count(outcome) for part in self._parts)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, i: int) -> Receipt: ...
    @overload
    def __getitem__(self, i: slice) -> list[Receipt]: ...
    def __getitem__(self, i: int | slice) -> Receipt | list[Receipt]:
        if isinstance(i, slice):
            return [self._receipt(j) for j in range(*i.indices(self._size))]
        if not -self._size <= i < self._size:
            raise IndexError(f"receipt {i} of {self._size}")
        return self._receipt(i % self._size)

    def __iter__(self) -> Iterator[Receipt]:
        return map(self._receipt, range(self._size))

    def __repr__(self) -> str:
        return (
            f"<{self._size} receipts at offset {self.offset}: {self.applied} applied, "
            f"{self.unchanged} unchanged, {self.duplicates} duplicates, {self.refused} refused>"
        )

    def error(self, i: int) -> LaurelsError | None:
        """The error that the refusal of event i stands for, None when it was not refused."""
        if i in self._refusals:
            return self._refusals[i][1]
        return self._refusal(*self._locate(i))

    def _locate(self, i: int) -> tuple[Part, int]:
        kept = self._first + i if self._kept is None else self._kept[i]
        if self._order is not None:
            kept = self._order[kept]
        at = bisect_right(self._starts, kept) - 1
        return self._parts[at], kept - self._starts[at]

    def _receipt(self, i: int) -> Receipt:
        if i in self._refusals:
            member, error = self._refusals[i]
            return Receipt(
                member=member,
                status="refused",
                window=self.window,
                offset=self.offset,
                reason=error.code,
                message=str(error),
            )
        return self._built(*self._locate(i))

    def _built(self, part: Part, j: int) -> Receipt:
        folded = part.folded
        target = folded.plan.ranking(self._place, j)
        error = self._refusal(part, j)
        return Receipt(
            member=part.members[j],
            status=_STATUS.get(Outcome(folded.outcomes.codes[j]), "refused"),
            window=self.window,
            offset=self.offset,
            period=None if target is None else target.period.label or None,
            previous_score=self._score(folded, folded.outcomes.before, j),
            score=self._score(folded, folded.outcomes.after, j),
            previous_rank=None if part.ranks is None else _ranked(part.ranks.before[j]),
            rank=None if part.ranks is None else _ranked(part.ranks.after[j]),
            refused_windows=folded.plan.refused_by(j),
            reason=None if error is None else error.code,
            message=None if error is None else str(error),
        )

    def _score(self, folded: Folded, scores: Scores | None, j: int) -> Score | None:
        """A score as it was shown when the batch was counted."""
        words = None if scores is None else scores.at(j)
        if words is None:
            return None
        return scale_of(self._rules, self.window, folded.batch.now_ms).score(words)

    def _refusal(self, part: Part, j: int) -> LaurelsError | None:
        member = part.members[j]
        match Outcome(part.folded.outcomes.codes[j]):
            case Outcome.OUT_OF_RANGE:
                windows = ", ".join(self._rules.windows)
                ranges = ", ".join(map(range_text, self._rules.columns))
                return TotalOutOfRange(
                    f"a total of {member!r} in one of the windows {windows} would leave {ranges}"
                )
            case Outcome.TOO_LATE:
                at = part.folded.batch.at(j)
                return TooLate(f"the event of {member!r} at {at} ms came too late")
            case Outcome.DEDUPE_FULL:
                return DedupeFull(f"the id for {member!r} is new, and no more ids fit")
            case Outcome.ROLLED_BACK:
                return BatchRefused(f"{member!r} shares its batch with a refused event", self)
            case _:
                return None


def _order_of(parts: Sequence[Part]) -> list[int] | None:
    """For each accepted event, its place in the parts; None where they are in its order."""
    if all(part.places is None for part in parts):
        return None
    places: list[int] = []
    for part in parts:
        following = range(len(places), len(places) + part.folded.batch.size)
        places += following if part.places is None else part.places
    return sorted(range(len(places)), key=places.__getitem__)


def _ranked(rank: int) -> int | None:
    return None if rank < 0 else public_rank(rank)
