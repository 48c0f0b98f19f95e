"""Receipts: the outcomes of events. A receipt is built when it is accessed."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal, overload

from laurels.errors import (
    BatchRefused,
    BoardEnded,
    BoardNotStarted,
    DedupeFull,
    LaurelsError,
    TooLate,
    TotalOutOfRange,
)
from laurels.model.answer import Answer, Plain, plain
from laurels.model.board_times import instant_text
from laurels.model.labels import labels_of
from laurels.model.rules import RankingSpec, Rules
from laurels.model.score import Score
from laurels.model.validation import quoted

from .index import Offset, Outcome
from .plan import Plan
from .rank import Rank
from .receipt_segment import ReceiptSegment
from .standing import range_text

Status = Literal["applied", "unchanged", "duplicate", "refused"]

_STATUS: dict[int, Status] = {
    Outcome.APPLIED: "applied",
    Outcome.UNCHANGED: "unchanged",
    Outcome.DUPLICATE: "duplicate",
}


class Receipt(Answer, frozen=True):
    """The outcome of one event.

    `status` is `applied`, `unchanged` (counted, but the member's score is as before), `duplicate`
    (its id was counted already) or `refused`. A refused event has the code of the error as
    `reason`. The scores are from before and after this event, the ranks from before and after its
    commit. Scores and ranks are those in `window`: in the period of the event or, for a rolling
    window, in the running step. They are None if the member was not ranked, or if that window
    refused the event. Ranks are also None if they were not requested. Below the head of a board a
    rank may be an `Estimate`. In event time a commit is counted in parts, divided where a period, a
    step or a grace ends; the ranks are then from before and after the part that has this event.
    With decay, both scores are as shown at the time at which the event was accepted. On a board
    with scopes, scores and ranks are of the scope with these `labels`; they are None if the event
    lacks the labels.
    """

    member: str | None
    status: Status
    window: str
    offset: Offset
    period: str | None = None
    previous_score: Score | None = None
    score: Score | None = None
    previous_rank: Rank | None = None
    rank: Rank | None = None
    refused_windows: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None
    labels: dict[str, str] | None = None


class Receipts(Plain, Sequence[Receipt]):
    """The receipts of a batch, in the order of its events.

    This sequence builds a receipt when it is accessed. The counts are made without building
    receipts. `offset` is the batch's offset in the log, or the newest offset if no event was
    accepted. `window` is the window whose scores and ranks are in the receipts.
    """

    def __init__(
        self,
        rules: Rules,
        watched: RankingSpec,
        size: int,
        offset: Offset,
        parts: Sequence[ReceiptSegment],
        errors: dict[int, tuple[str | None, LaurelsError]],
    ) -> None:
        self._rules = rules
        self.window = watched.window
        self._place = rules.specs.index(watched)
        self._size = size
        self.offset = offset
        self._parts = parts
        self._errors = errors
        self._starts, consecutive = [0], True
        for part in parts:
            self._starts.append(self._starts[-1] + part.folded.batch.size)
            consecutive &= part.places is None
        self._order = None if consecutive else _order_of(parts, self._starts)
        self._accepted: list[int] | None = None
        if errors:
            accepted = iter(range(size))
            self._accepted = [-1 if i in errors else next(accepted) for i in range(size)]

    def share(self, first: int, size: int) -> "Receipts":
        """Return the receipts of `size` events from `first` on, for the caller that submitted these
        events. The batch must not have events that were refused before counting."""
        return ReceiptSlice(self, first, size)

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
        return len(self._errors) + sum(part.folded.outcomes.refused for part in self._parts)

    @property
    def late(self) -> dict[str, int]:
        """The number of events that each window refused as too late, by the window's name."""
        counts: dict[str, int] = {}
        for name, refused in chain.from_iterable(part.late.items() for part in self._parts):
            counts[name] = counts.get(name, 0) + refused
        return counts

    def _count(self, outcome: Outcome) -> int:
        return sum(part.folded.outcomes.codes.count(outcome) for part in self._parts)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, i: int) -> Receipt: ...
    @overload
    def __getitem__(self, i: slice) -> list[Receipt]: ...
    @overload
    def __getitem__(self, i: str) -> Any: ...
    def __getitem__(self, i: int | slice | str) -> Any:
        if isinstance(i, str):
            return self.to_dict()[i]
        if isinstance(i, slice):
            return [self._receipt(j) for j in range(*i.indices(self._size))]
        if not -self._size <= i < self._size:
            raise IndexError(f"there is no receipt {i}: the batch has {self._size}")
        return self._receipt(i % self._size)

    def __iter__(self) -> Iterator[Receipt]:
        return map(self._receipt, range(self._size))

    def __repr__(self) -> str:
        return (
            f"<{self._size} receipts at offset {self.offset}: {self.applied} applied, "
            f"{self.unchanged} unchanged, {self.duplicates} duplicates, {self.refused} refused>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and all receipts as plain values; see `answer.Plain`."""
        counts = {
            "offset": self.offset,
            "window": self.window,
            "applied": self.applied,
            "unchanged": self.unchanged,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "late": self.late,
        }
        return {**plain(counts), "receipts": plain(list(self))}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        described = Receipt.__get_pydantic_json_schema__(schema, handler)
        return {
            "title": cls.__name__,
            "type": "object",
            "properties": {"receipts": {"type": "array", "items": described}},
        }

    def error(self, i: int) -> LaurelsError | None:
        """Return the error with which event i was refused; None if the event was not refused."""
        if i in self._errors:
            return self._errors[i][1]
        part, j = self._locate(i)
        return None if part.folded.outcomes.codes[j] in _STATUS else self._error(part, j)

    @cached_property
    def _codes(self) -> bytes:
        """The codes of the accepted events' outcomes, in the order of the events."""
        codes = b"".join([bytes(part.folded.outcomes.codes) for part in self._parts])
        return codes if self._order is None else bytes([codes[at] for at in self._order])

    def _locate(self, i: int) -> tuple[ReceiptSegment, int]:
        accepted = i if self._accepted is None else self._accepted[i]
        if self._order is not None:
            accepted = self._order[accepted]
        at = bisect_right(self._starts, accepted) - 1
        return self._parts[at], accepted - self._starts[at]

    def _receipt(self, i: int, *, strict: bool = False) -> Receipt:
        """Return the receipt of event i; if `strict`, raise the error with which it was refused."""
        if i in self._errors:
            member, error = self._errors[i]
            if strict:
                raise error
            return Receipt(
                member=member,
                status="refused",
                window=self.window,
                offset=self.offset,
                reason=error.code,
                message=str(error),
            )
        return self._build_receipt(*self._locate(i), strict=strict)

    def _build_receipt(self, part: ReceiptSegment, j: int, *, strict: bool) -> Receipt:
        plan = part.folded.plan
        target = plan.ranking(self._place, j)
        status = _STATUS.get(part.folded.outcomes.codes[j], "refused")
        error = self._error(part, j) if status == "refused" else None
        if error is not None and strict:
            raise error
        member, score_before, score, rank_before, rank = part.rows(self._rules, self.window)[j]
        return Receipt(
            member=member,
            status=status,
            window=self.window,
            offset=self.offset,
            period=None if target is None else target.period.label or None,
            previous_score=score_before,
            score=score,
            previous_rank=rank_before,
            rank=rank,
            refused_windows=plan.refused_by(j) if plan.has_late else (),
            reason=None if error is None else error.code,
            message=None if error is None else str(error),
            labels=None
            if target is None or not self._rules.scoped
            else labels_of(target.key.scope),
        )

    def _error(self, part: ReceiptSegment, j: int) -> LaurelsError | None:
        member = part.rows(self._rules, self.window)[j][0]
        match Outcome(part.folded.outcomes.codes[j]):
            case Outcome.OUT_OF_RANGE:
                windows = ", ".join(self._rules.windows)
                ranges = ", ".join(map(range_text, self._rules.columns))
                return TotalOutOfRange(
                    f"a total of {quoted(member)} in one of the windows ({windows}) would be "
                    f"outside the range {ranges}"
                )
            case Outcome.TOO_LATE:
                at = part.folded.batch.at(j)
                return _outside_error(part.folded.plan, j, member, at) or TooLate(
                    f"the event of {quoted(member)} at {at} ms came too late"
                )
            case Outcome.DEDUPE_FULL:
                return DedupeFull(
                    f"the event of {quoted(member)} has a new id, and no more ids can be stored"
                )
            case Outcome.ROLLED_BACK:
                return BatchRefused(
                    f"the event of {quoted(member)} is in a batch with a refused event", self
                )
            case _:
                return None


def _outside_error(plan: Plan, event: int, member: str | None, at_ms: int) -> LaurelsError | None:
    """Return the error of an event that is before the start or after the end of its board; None for
    any other event.
    """
    if event not in plan.outside:
        return None
    got = f"got {instant_text(at_ms)}"
    if at_ms < plan.starts_ms:
        starts = instant_text(plan.starts_ms)
        return BoardNotStarted(
            f"expected a time of {starts} or later for the event of {quoted(member)}, {got}"
        )
    ends = instant_text(plan.ends_ms)
    return BoardEnded(f"expected a time before {ends} for the event of {quoted(member)}, {got}")


class ReceiptSlice(Receipts):
    """The receipts of some successive events of a commit, for the caller that submitted these
    events."""

    def __init__(self, receipts: Receipts, first: int, size: int) -> None:
        self._receipts = receipts
        self._first = first
        self._size = size
        self.window = receipts.window
        self.offset = receipts.offset

    def share(self, first: int, size: int) -> Receipts:
        return ReceiptSlice(self._receipts, self._first + first, size)

    @property
    def refused(self) -> int:
        return self._size - self.applied - self.unchanged - self.duplicates

    @property
    def late(self) -> dict[str, int]:
        if not self._receipts.late:
            return {}
        events = map(self._receipts._locate, range(self._first, self._first + self._size))
        return Counter(name for part, j in events for name in part.folded.plan.refused_by(j))

    def error(self, i: int) -> LaurelsError | None:
        return self._receipts.error(self._first + i)

    def _count(self, outcome: Outcome) -> int:
        return self._receipts._codes[self._first : self._first + self._size].count(outcome)

    def _receipt(self, i: int, *, strict: bool = False) -> Receipt:
        return self._receipts._receipt(self._first + i, strict=strict)


def receipt_at(receipts: Receipts, place: int) -> Receipt:
    """Return the receipt of an event. If the event was refused, raise its error."""
    return receipts._receipt(place, strict=True)


def _order_of(parts: Sequence[ReceiptSegment], starts: Sequence[int]) -> list[int] | None:
    """Return where each accepted event is in the `parts`: its index in the concatenation of their
    events. Return None if the parts have the events in order, so that each index is the position of
    the event itself. `starts` has the index of the first event of each part and, as the last item,
    the number of all events."""
    following = [range(start, end) for start, end in pairwise(starts)]
    places = [
        own if part.places is None else part.places
        for part, own in zip(parts, following, strict=True)
    ]
    if places == following:
        return None
    order = [0] * starts[-1]
    for at, place in enumerate(chain.from_iterable(places)):
        order[place] = at
    return order
