"""The archive as users see it: which periods it has, and whether their standings are those that
were sealed."""

from collections.abc import Sequence

from laurels.errors import InvalidLimit, InvalidOffset
from laurels.model.answer import Answer

from .index import Offset
from .named_windows import window_named
from .query import Query
from .query_context import QueryContext
from .read_plan import MAX_LIMIT, ReadPlan
from .requests import ReadResult


class SealedInfo(Answer, frozen=True):
    """A period in the archive, from `start_ms` up to, not including, `end_ms`. What a rolling
    window showed is a period that ends at the boundary.

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


class VerifiedPeriod(Answer, frozen=True):
    """A sealed period, verified: its digest when it was sealed, and that of its entries as they are
    read now from the archive and from the log. `log` is None if the log no longer reaches back to
    the period, or if the period was corrected later. `verified` is whether all of them agree."""

    window: str
    period: str
    revision: int
    entries: int
    digest: str
    archive: str
    log: str | None
    verified: bool


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
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[list[SealedInfo]]:
        rules, closings = now.state.rules, now.state.closing
        windows = list(rules.windows.values())
        if self.window is not None:
            windows = [window_named(rules, self.window)]
        sealed = [
            (window.period_of(instance), window, seal)
            for window in windows
            if (closing := closings.get(window.name)) is not None
            for instance, seal in closing.sealed.items()
        ]
        sealed.sort(key=lambda each: each[0].end_ms, reverse=True)
        shown = [
            SealedInfo(
                window.name,
                period.label,
                window.counts_from(period),
                period.end_ms,
                seal.sealed_ms,
                seal.revision,
                seal.entries,
                seal.digest.hex(),
            )
            for period, window, seal in sealed[self.offset : self.offset + self.limit]
        ]

        def finish(_: Sequence[ReadResult], __: Offset) -> list[SealedInfo]:
            return shown

        return ReadPlan((), finish)
