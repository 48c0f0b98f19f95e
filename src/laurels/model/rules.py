"""Rules: a board's definition with everything resolved to integers, ready for counting."""

from functools import cached_property
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from laurels.model.windows.closing import Closing
from laurels.model.windows.kinds import Window
from laurels.model.windows.rolling import Rolling
from laurels.model.windows.weighing import WORDS, Weighing
from laurels.timeline.instants import MAX_MS, MIN_MS

Op = Literal["sum", "last", "best"]
ADDING: frozenset[Op] = frozenset({"sum"})
"""The operators that add values up."""
RankStyle = Literal["ordinal", "competition", "dense"]


class ColumnRule(Struct, frozen=True):
    """One column. `low` and `high` are the range of its values, or of its totals if the column is a
    sum, in units of 10^-scale.

    `sign` is -1 where more is better and +1 where less is better, so values times `sign` are in
    ascending order, the best first. `measures` has the measures that events may report in place of
    a value: their names, and their weights in units of 10^-15.
    """

    name: str
    op: Op
    sign: Literal[1, -1]
    scale: int
    low: int
    high: int
    measures: tuple[tuple[str, int], ...] = ()

    @property
    def adds_up(self) -> bool:
        """Whether a total is the sum of the counted values. If so, events add to it, and a step
        that leaves a rolling window is subtracted. Other operators keep one of the values."""
        return self.op in ADDING


class RankingSpec(NamedTuple):
    """One of the rankings in which a board counts an event: a window, and the label names of a
    scope or, with `by`, the label whose values are ranked."""

    window: str
    labels: tuple[str, ...] = ()
    by: str = ""

    @property
    def name(self) -> str:
        """The text that names this kind of scope: the label names, such as `room,team`, or `@room`
        for a ranking by a label."""
        return f"@{self.by}" if self.by else ",".join(self.labels)


class Rules(Struct, frozen=True, dict=True):
    """How a board counts and ranks.

    - `tie`: 1 if the earlier of equal scores ranks higher, -1 if the later does, 0 if the member id
      alone decides.
    - `windows`: by name, in the order of the definition; the first is the default of queries.
    - `scopes`: tuples of label names, each sorted; an event is counted in every scope for which it
      has all labels.
    - `rank_by`: the labels whose values are ranked as well.
    - `ignores_labels`: whether an event with a label that is neither in `scopes` nor in `rank_by`
      is counted without that label, instead of being refused.
    - `shards`: the number of shards into which an index server divides the members.
    - `changes_ms`, `changes_max`: how long changes are kept (0: none are), and at most how many of
      them.
    - `head`: only this many of the first positions are listed (0: all).
    - `hide_zero`: whether members whose score is 0 are left out of rankings.
    - `close_wait_ms`: how long the end of a period waits, at most, for sources that lag.
    - `starts_ms`, `ends_ms`: only events from `starts_ms` to just before `ends_ms` are counted.
    - `gone_ms`: when the board is removed.
    - `max_age_ms`: for how long an answer of an index server may be repeated.
    - `closing`: by name, the windows whose periods are closed and archived.
    """

    columns: tuple[ColumnRule, ...]
    tie: Literal[1, -1, 0]
    resolution_ms: int
    rank: RankStyle
    windows: dict[str, Window]
    grace_ms: int
    dedupe_ms: int
    dedupe_max: int
    shards: int = 1
    scopes: tuple[tuple[str, ...], ...] = ((),)
    rank_by: tuple[str, ...] = ()
    ignores_labels: bool = False
    changes_ms: int = 0
    changes_max: int = 0
    head: int = 0
    hide_zero: bool = False
    close_wait_ms: int = 0
    starts_ms: int = MIN_MS
    ends_ms: int = MAX_MS
    gone_ms: int = MAX_MS
    max_age_ms: int = 0
    closing: dict[str, Closing] = {}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of all labels in `scopes` and `rank_by`, sorted."""
        return tuple(
            sorted({label for labels in self.scopes for label in labels} | {*self.rank_by})
        )

    @cached_property
    def specs(self) -> tuple[RankingSpec, ...]:
        """The rankings in which an event may be counted: each scope in each window, then the
        rankings by a label."""
        scoped = [RankingSpec(window, labels) for labels in self.scopes for window in self.windows]
        return (
            *scoped,
            *[RankingSpec(window, (), by) for by in self.rank_by for window in self.windows],
        )

    @cached_property
    def all_window(self) -> int:
        """The index in `specs` of the window `all` in the scope of all events, -1 without such a
        window."""
        for i, spec in enumerate(self.specs):
            if not spec.name and self.windows[spec.window].holds_totals:
                return i
        return -1

    @cached_property
    def totals(self) -> tuple[str, int] | None:
        """The name of the window `all` and the number of its only period, whose totals `set` reads
        in the scope of all events; None without such a window."""
        if self.all_window < 0:
            return None
        window = self.windows[self.specs[self.all_window].window]
        return window.name, window.instance_of(window.period_at(0))

    @cached_property
    def recorded(self) -> tuple[int, ...]:
        """The indexes in `specs` of the rankings that are listed in changes: those in which scores
        change only by events and not with time, without the rankings by a label."""
        windows = [self.windows[spec.window] for spec in self.specs]
        return tuple(
            [
                index
                for index, (spec, window) in enumerate(zip(self.specs, windows, strict=True))
                if not spec.by and not window.steps and window.weighing is None
            ]
        )

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the end of the board has passed."""
        return now_ms >= self.ends_ms

    def is_gone(self, now_ms: int) -> bool:
        """Return whether the time for which the board is retained is over."""
        return self.gone_ms <= now_ms < MAX_MS

    @cached_property
    def scoped(self) -> bool:
        """Whether events are counted by their labels."""
        return self.scopes != ((),) or bool(self.rank_by)

    @property
    def has_label_replica(self) -> bool:
        """Whether an index server keeps the rankings by a label separately, and updates them from
        the shards."""
        return self.shards > 1 and bool(self.rank_by)

    @cached_property
    def by_label(self) -> "Rules":
        """The rules of the board's label replica: it has only the rankings by a label, in one
        shard."""
        return replace(self, shards=1, scopes=())

    @cached_property
    def entry_words(self) -> int:
        """The number of words of an entry in a window without decay.

        The words are the columns, the tie stamp, and the exact time if `last` columns need it
        besides the stamp.
        """
        return len(self.columns) + (self.tie != 0) + self.is_stamped

    @cached_property
    def has_sum(self) -> bool:
        """Whether any column adds up the values of events."""
        return any(column.adds_up for column in self.columns)

    @property
    def can_set(self) -> bool:
        """Whether scores can be set. On a board with `sum` columns this requires the window `all`
        in the scope of all events, since it has the total that a new score replaces."""
        return self.all_window >= 0 or not self.has_sum

    @cached_property
    def has_last(self) -> bool:
        """Whether any column keeps the last value."""
        return any(column.op == "last" for column in self.columns)

    @cached_property
    def is_stamped(self) -> bool:
        """Whether entries have an extra word that does not affect their order: the exact event
        time. `last` columns need this time to find the later of two events, if the tie stamp does
        not already have it."""
        return self.has_last and (self.tie == 0 or self.resolution_ms != 1)

    @property
    def best(self) -> bool:
        """Whether the board keeps the better of two scores, comparing all their columns. A
        definition has `best` for all columns or for none."""
        return self.columns[0].op == "best"

    def weighing(self, window: str) -> Weighing | None:
        """Return how events are weighted in a window; None if each event counts in full."""
        window_definition = self.windows.get(window)
        return None if window_definition is None else window_definition.weighing

    @cached_property
    def rolling(self) -> tuple[str, ...]:
        """The names of the windows that count by steps."""
        return tuple([name for name, window in self.windows.items() if window.steps])

    @cached_property
    def refreshed(self) -> dict[str, Rolling]:
        """The windows whose rankings are refreshed, by name."""
        return {
            name: window
            for name, window in self.windows.items()
            if isinstance(window, Rolling) and window.interval_ms
        }

    @cached_property
    def weighings(self) -> tuple[Weighing, ...]:
        """The distinct weighings of the windows with decay."""
        weighings = [window.weighing for window in self.windows.values()]
        return tuple(dict.fromkeys([weighing for weighing in weighings if weighing is not None]))

    def score_words(self, window: str) -> int:
        """Return how many words of an entry are its score.

        There is one for each column, or the words of a decayed total. They decide which members
        share a rank.
        """
        return len(self.columns) if self.weighing(window) is None else WORDS

    def order_words(self, window: str) -> int:
        """Return how many words of an entry decide the order.

        Entries with equal words are ordered by member.
        """
        return self.score_words(window) + (self.tie != 0)
