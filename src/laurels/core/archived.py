"""The archive as users see it: which periods it has, and whether their standings are those that
were sealed."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import field

from laurels.errors import InvalidLimit, InvalidOffset
from laurels.model.answer import Answer
from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period

from .closing import SealedPeriod
from .index import Offset
from .named_windows import window_named
from .query import Query
from .query_context import QueryContext
from .read_plan import MAX_LIMIT, ReadPlan
from .requests import ReadResult

MAX_MERGED = 10_000
"""The greatest offset in the periods of several windows, whose ends have to be compared."""
_COST = 20
"""What it costs to tell of one period, compared with an entry of a list."""


class SealedInfo(Answer, frozen=True):
    """A period in the archive, from `start_ms` up to, not including, `end_ms`. The ranking that a
    rolling window showed at a boundary is a period that ends there.

    `entries` are those of all scopes, and `digest` is the SHA-256 of their salted hashes, in
    hexadecimal. `revision` counts the corrections after the period was closed.
    """

    window: str
    period: str
    start_ms: int
    end_ms: int
    sealed_ms: int
    revision: int
    entries: int
    digest: str


class ErasedPlace(Answer, frozen=True):
    """A place of a sealed period whose member was erased: its position, counted from 1, in the
    scope of `labels`, and the token that stands there. The hash of the entry stays the one from
    before the erasure."""

    token: str
    position: int
    labels: dict[str, str]


class VerifiedPeriod(Answer, frozen=True):
    """The result of verifying a sealed period: its digest when it was sealed, and the digests
    computed now from the archive and from the log. `log` is None if the log no longer reaches back
    to the period, or if the period was corrected later. `verified` is whether all these digests are
    equal. `erased` has the places whose members were erased; the digest includes their entries."""

    window: str
    period: str
    revision: int
    entries: int
    digest: str
    archive: str
    log: str | None
    verified: bool
    erased: list[ErasedPlace] = field(default_factory=list)


class Archived(Query[list[SealedInfo]], frozen=True, kw_only=True):
    """The periods of a board that are in the archive, of all windows or of one, newest first."""

    verb = "archived"
    path = "archive"
    returns = list[SealedInfo]

    window: str | None = None
    limit: int = 1_000
    offset: int = 0

    def __post_init__(self) -> None:
        self._ensure("limit", 0, MAX_LIMIT, InvalidLimit)
        self._ensure("offset", 0, None, InvalidOffset)

    @property
    def is_past(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self.offset + _COST * self.limit

    def plan(self, now: QueryContext) -> ReadPlan[list[SealedInfo]]:
        """Return the plan. Each window contributes only as many periods as are needed, in the order
        of their instances, which is also the order of their ends. `finish` computes their labels,
        after the store has released its lock."""
        rules, closings = now.state.rules, now.state.closing
        windows = list(rules.windows.values())
        if self.window is not None:
            windows = [window_named(rules, self.window)]
        windows = [each for each in windows if each.name in closings]
        if len(windows) > 1 and self.offset > MAX_MERGED:
            raise InvalidOffset(
                f"expected an offset of at most {MAX_MERGED:,} in the periods of all windows, got "
                f"{self.offset}; name a window"
            )
        skipped = self.offset if len(windows) == 1 else 0
        newest = [
            (window, _newest(closings[window.name].sealed, skipped, self.offset + self.limit))
            for window in windows
        ]

        def finish(_: Sequence[ReadResult], __: Offset) -> list[SealedInfo]:
            merged = heapq.merge(*[_periods(*each) for each in newest], key=_end, reverse=True)
            shown = islice(merged, self.offset - skipped, self.offset - skipped + self.limit)
            return [_info(*each) for each in shown]

        return ReadPlan((), finish)


_Sealed = tuple[Window, Period, SealedPeriod]


def _newest(
    sealed: Mapping[int, SealedPeriod], start: int, stop: int
) -> list[tuple[int, SealedPeriod]]:
    """Return the periods at the positions `start` to `stop` (exclusive), newest first."""
    return [(each, sealed[each]) for each in sorted(sealed, reverse=True)[start:stop]]


def _periods(window: Window, newest: Sequence[tuple[int, SealedPeriod]]) -> Iterator[_Sealed]:
    for instance, seal in newest:
        yield window, window.period_of(instance), seal


def _end(sealed: _Sealed) -> int:
    return sealed[1].end_ms


def _info(window: Window, period: Period, seal: SealedPeriod) -> SealedInfo:
    return SealedInfo(
        window.name,
        period.label,
        window.counts_from(period),
        period.end_ms,
        seal.sealed_ms,
        seal.revision,
        seal.entries,
        seal.digest.hex(),
    )
