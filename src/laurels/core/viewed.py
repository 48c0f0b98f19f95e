"""One ranking of a board at one time, and the requests and plans that read it."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self, TypeVar

from laurels.errors import InvalidCursor, InvalidOffset, PeriodExpired
from laurels.model.labels import LabelPairs, labels_of, scope_named
from laurels.model.scale import Scale, Whole, decayed_scale
from laurels.model.score import Score
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MAX_MS, MIN_MS

from . import cursor as cursors
from .board_state import BoardState
from .closing import WindowClosing, ensure_sealed, is_archived
from .index import Offset
from .named_windows import readable, window_named
from .ranking_key import ranking_key
from .read_plan import FAR, ReadPlan
from .requests import Anchor, AtBound, ReadRequest, ReadResult, Span, Walk
from .standing import AsOf, Entry, decode_data, entries
from .zeros import zeros_in

T = TypeVar("T")


class ViewedRanking:
    """One ranking at one time."""

    def __init__(
        self,
        state: BoardState,
        now_ms: int,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: LabelPairs = (),
        by: str | None = None,
    ) -> None:
        scope = scope_named(state.rules, dict(labels), by)
        chosen = window_named(state.rules, window)
        floor_ms = state.floors.get(chosen.name, MIN_MS)
        self._after = (
            None if after is None else cursors.decode(after, state.number, chosen.name, scope)
        )
        if self._after is not None and period is None:
            period = _label_of(chosen, self._after.key.instance, state.closing.get(chosen.name))
        self._window = chosen.name
        self._revision: int | None = None
        self._refreshed = state.as_refreshed(chosen, scope)
        seen_ms, closing = state.seen_ms(chosen, now_ms, scope), state.closing.get(chosen.name)
        self.period = readable(chosen, floor_ms, seen_ms, period, closing)
        self.key = ranking_key(state.number, chosen, self.period, scope)
        self._labels = labels_of(scope) if state.rules.scoped else None
        self._by = by
        if self._after is not None and chosen.steps:
            _ensure_running(self._after.key.instance, self.key.instance)
        self._now_ms = min(now_ms, state.rules.ends_ms)
        self._state = state
        self._decayed = decayed_scale(state.rules, chosen.name, now_ms)
        self._scale: Scale = Whole(state.rules) if self._decayed is None else self._decayed
        self._head = state.rules.head
        self._zeros = zeros_in(state, chosen.name, self.key.instance, now_ms)
        self._hidden = state.hidden_in(self.key, now_ms)
        self._lists_all = self._zeros is None and self._hidden is None
        """Whether the lists have all entries of the ranking."""
        steady = self._decayed is None and self._refreshed is None and self._lists_all
        if closing is not None and is_archived(state, chosen, self.key.instance, now_ms):
            steady = False  # the period is read from the archive
        self._width = state.rules.order_words(chosen.name)
        """The number of words that decide the order: the columns, and the tie stamp if there is
        one."""
        until_ms = MAX_MS if state.rules.has_ended(now_ms) else self.period.end_ms
        self.rules, self.until_ms = state.rules, until_ms if steady else now_ms
        """While the board has these `rules`, and until `until_ms`, this view shows the running
        period."""

    def with_all_members(self) -> Self:
        """Return a view that also lists hidden members, and the members whose score is 0."""
        view = copy(self)
        view._zeros, view._hidden, view._lists_all = None, None, True
        return view

    def of_revision(self, revision: int) -> Self:
        """Return a view of a revision of this period. Raises NotSealed, UnknownRevision."""
        ensure_sealed(self._state, self.rules.windows[self._window], self.key.instance, revision)
        view = copy(self)
        view._revision = revision
        return view

    def walk(self, after: str, limit: int) -> ReadRequest:
        """Return a request that reads members in any order, with their data."""
        return ReadRequest(self.key, data=True, walk=Walk(after, limit, self._width))

    def walked(self, result: ReadResult, offset: Offset) -> tuple[AsOf, Sequence[Score], list[Any]]:
        """Return the scores and the data of the members that a walk (`walk`) has read."""
        assert result.data is not None
        scores = self._scale.scores(result.slices[0].words)
        return self.as_of(offset), scores, decode_data(result.data[0])

    def _plan(
        self,
        finish: Callable[[ReadResult, Offset], "T | ReadPlan[T]"],
        *,
        anchors: tuple[Anchor, ...] = (),
        spans: tuple[Span, ...] = (),
        members: tuple[str, ...] = (),
        data: bool = False,
    ) -> ReadPlan[T]:
        """Return a plan that reads this ranking."""
        request = self._request(anchors, spans, members, data=data)
        return ReadPlan((request,), lambda result, offset: finish(result[0], offset))

    def _request(
        self,
        anchors: tuple[Anchor, ...],
        spans: tuple[Span, ...],
        members: tuple[str, ...] = (),
        *,
        data: bool = False,
    ) -> ReadRequest:
        """Return a request for this ranking."""
        return ReadRequest(
            self.key,
            anchors,
            spans,
            members,
            data,
            head=self._head,
            zeros=self._zeros,
            hidden=self._hidden,
            revision=self._revision,
        )

    @property
    def request(self) -> ReadRequest:
        """A request for this ranking, without anchors and spans."""
        return self._request((), ())

    def as_of(self, offset: Offset) -> AsOf:
        """Return the state that an answer from this ranking shows."""
        if self._refreshed is not None:
            offset = self._refreshed.offset
        now_ms = None if self._decayed is None else self._now_ms
        label = self.period.label or None
        return AsOf(offset, self._window, label, now_ms, self._labels, self._by)

    def _entries(self, result: ReadResult) -> list[Entry]:
        data_of_members = None if result.data is None else decode_data(result.data[0])
        return entries(result.slices[0], self._scale, data_of_members)

    def _offset(self, offset: int) -> int:
        """Return how many entries to skip. Raises InvalidOffset if there is a cursor, too."""
        if offset and self._after is not None:
            raise InvalidOffset("expected an offset or a cursor, got both")
        return min(offset, FAR)

    def _place(self, cursor: cursors.Cursor, reverse: bool) -> AtBound:
        """Return the anchor at the entry that a cursor was made from: after the entry or, if the
        list is in reverse order, before it. Raises InvalidCursor if the cursor is not from a list
        of this ranking in the same direction."""
        if (cursor.key, cursor.reverse, len(cursor.words)) != (self.key, reverse, self._width):
            raise InvalidCursor("the cursor was made for another period or direction")
        return AtBound(cursor.words, cursor.member, right=not reverse)


def _label_of(window: Window, instance: int, closing: WindowClosing | None) -> str | None:
    """Return the label of the period in which a list was begun; None if it continues in the running
    period. The ranking that a rolling window showed at a boundary counts as a period with a
    label."""
    if window.steps and closing is not None and closing.has(instance):
        return window.period_of(instance).label
    return window.cursor_label(instance)


def _ensure_running(step: int, running: int) -> None:
    """Raise PeriodExpired for a list that began in an earlier step. A list in a rolling window can
    be continued only within its step."""
    if step < running:
        raise PeriodExpired("the step of the window in which the list was begun has ended")
