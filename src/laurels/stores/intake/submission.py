"""A submission: a batch of events for one board, from its acceptance to its receipts."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter

import msgspec

from laurels.core import record
from laurels.core.board_state import Boards, BoardState
from laurels.core.event_columns import events_of
from laurels.core.fold import Fold, Folded
from laurels.core.index import Offset
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.receipt_segment import Ranks, ReceiptSegment
from laurels.core.requests import ReadRequest, listed_by
from laurels.core.splitting import split_points
from laurels.core.stream_time import judged_at
from laurels.core.zeros import zeros_of
from laurels.engine.batch.intake import MISSING, Columns
from laurels.engine.batch.packing import bounds, split_texts
from laurels.errors import AtInFuture, AtRequired, BatchRefused, LaurelsError, PositionMoved
from laurels.model.batch import Batch, batch_of
from laurels.model.event import AHEAD_MS
from laurels.model.labels import is_by
from laurels.model.rules import RankingSpec
from laurels.model.validation import quoted

from .tags import new_tag

EventErrors = dict[int, tuple[str | None, LaurelsError]]


class Submission:
    """A batch of events for one board."""

    exclusive = False
    _batches: list[Batch]
    _position_record: record.Position | None
    _plans: list[Plan]
    _parts: list[ReceiptSegment]
    _ranks_before: list[list[int]]
    _folded: list[Folded]

    def __init__(
        self,
        state: BoardState,
        columns: Columns,
        errors: EventErrors,
        *,
        watched: RankingSpec,
        ranks: bool,
        event_time: bool,
        absolute: bool = False,
        atomic: bool = False,
        position: tuple[str, str] | None = None,
        follows: str | None = None,
        behind: bool = False,
        arrived_ms: int | None = None,
    ) -> None:
        self.board = state
        self._watched = watched
        self._ranks = ranks
        self._event_time = event_time
        self._position = position
        self._follows = follows
        self.behind = behind
        self._arrived_ms = arrived_ms
        self._errors = errors
        self._size = columns.n + len(errors)
        self._columns = columns
        self._absolute = absolute
        self._atomic = atomic
        self.weight = columns.n
        is_whole = event_time or position is not None or errors or absolute or atomic
        has_times = columns.ats is not None
        self.kind = None if is_whole or has_times else (state.number, watched, ranks)
        """A key shared by submissions that may be joined into one batch. None means that this
        submission must not be joined, since it is validated, divided or answered as a whole."""
        self.moves = None if position is None else (state.number, position[0])
        """The board and the source whose position the submission commits; None if it commits no
        position."""

    def accept(self, boards: Boards, now_ms: int) -> None:
        """Accept the events at `now_ms`, in batches. Raise BatchRefused if an event of an
        all-or-nothing batch is refused."""
        self.board = state = boards.current(self.board)
        self._position_record, self._plans, self._parts = None, [], []
        self._ranks_before, self._folded = [], []
        if self._event_time:
            now_ms = boards.accepts_at(state, now_ms)
        batches = self._in_event_time(now_ms) if self._event_time else self._at_now(now_ms)
        if self._atomic and self._errors:
            raise self._refuse_all(boards.offset)
        self._batches = list(filter(attrgetter("size"), batches))
        if weighings := state.rules.weighings:
            self._batches = [batch.weighed(weighings) for batch in self._batches]
        if state.rules.changes_ms:
            self._batches = [msgspec.structs.replace(b, tag=new_tag()) for b in self._batches]
        if self._position is None:
            return
        if self._batches:
            self._batches[-1] = msgspec.structs.replace(
                self._batches[-1],
                position=self._position,
                follows=self._follows,
                behind=self.behind,
            )
        else:
            self._position_record = record.Position(
                state.number, state.version, now_ms, self._position, new_tag()
            )

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        if self._position is not None and self._follows is not None:
            source, _ = self._position
            stored = boards.current(self.board).positions.get(source)
            ensure_follows(source, stored, self._follows)
        self.accept(boards, now_ms)
        if self._position_record is not None:
            return [self._position_record]
        self._place = self.board.rules.specs.index(self._watched)
        drafted: list[record.Record] = []
        for batch in self._batches:
            self._plans.append(boards.plan(batch))
            drafted.append(events_of(batch, self.board.version))
        return drafted

    @property
    def batches(self) -> Sequence[Batch]:
        """The accepted events in batches. All events of one batch are accepted at one instant."""
        return self._batches

    @property
    def position_record(self) -> record.Position | None:
        """The record that stores the position. It is None if the submission has no position, or if
        the position is stored with its last batch of events."""
        return self._position_record

    @property
    def follows(self) -> str | None:
        """The position that must be stored before this write. "" means that no position may be
        stored, None that any position is allowed."""
        return self._follows

    @property
    def watched(self) -> tuple[RankingSpec, bool]:
        """The ranking whose scores the receipts show, and whether the receipts show ranks."""
        return self._watched, self._ranks

    def add_result(self, folded: Folded, ranks: Ranks | None, places: Sequence[int]) -> None:
        """Add the result of folding some accepted events. `places` has the indexes of these events
        in the submission."""
        self._parts.append(ReceiptSegment(folded, ranks, places))

    def prepare(self, fold: Fold, limit: int) -> bool:
        scopes: set[str] = set()
        if self.board.rules.scoped:
            scopes = {scope for plan in self._plans for scope in plan.scopes}
        return fold.advance_number(self.board.number, scopes, limit)

    def pieces(self) -> list[int]:
        nows = [batch.now_ms for batch in self._batches]
        return nows if self._position_record is None else [self._position_record.now_ms]

    def before(self, fold: Fold, piece: int) -> None:
        if self._position_record is not None or not self._ranks:
            return
        fold.advance_to(self.board, self._batches[piece].now_ms)
        if self.board.rules.scoped:
            fold.advance_scopes(self.board, self._plans[piece].scopes)
        self._ranks_before.append(self._ranks_now(fold, piece))

    def fold(self, fold: Fold, piece: int) -> None:
        if self._position_record is not None:
            fold.apply(self._position_record)
            return
        self._folded.append(fold.count(self._batches[piece], self._plans[piece], self._place))

    def after(self, fold: Fold, piece: int) -> None:
        if self._position_record is not None:
            return
        ranks = None
        if self._ranks:
            ranks = Ranks(self._ranks_before[piece], self._ranks_now(fold, piece))
        self._parts.append(ReceiptSegment(self._folded[piece], ranks))

    def results(self, offset: Offset) -> Sequence[Receipts]:
        receipts = self._receipts(offset)
        if self._atomic and receipts.refused:
            raise BatchRefused("no event was counted", receipts)
        return [receipts]

    def _refuse_all(self, offset: int) -> BatchRefused:
        """Refuse all events of an all-or-nothing batch, since some were refused before counting
        began. Return the error to raise."""
        error = BatchRefused("no event was counted", self._receipts(offset))
        for i, member in zip(self._origin, self.members(), strict=True):
            self._errors.setdefault(i, (member.decode(), error))
        return error

    def _receipts(self, offset: Offset) -> Receipts:
        return Receipts(
            self.board.rules,
            self._watched,
            self._size,
            offset,
            self._parts,
            self._errors,
        )

    def _ranks_now(self, fold: Fold, piece: int) -> list[int]:
        """Return the ranks of a batch's members in the watched ranking; -1 for a member that is not
        ranked."""
        batch, plan = self._batches[piece], self._plans[piece]
        place, members = self._place, batch.member_list()
        if isinstance(plan.routes[place], int) and (target := plan.ranking(place, 0)) is not None:
            return self._ranks_in(fold, target.key, members, batch.now_ms)
        ranks = [-1] * batch.size
        by_ranking: dict[RankingKey, list[int]] = {}
        for j in range(batch.size):
            if (target := plan.ranking(place, j)) is not None:
                by_ranking.setdefault(target.key, []).append(j)
        for key, events in by_ranking.items():
            event_ranks = self._ranks_in(fold, key, [members[j] for j in events], batch.now_ms)
            for j, rank in zip(events, event_ranks, strict=True):
                ranks[j] = rank
        return ranks

    def _ranks_in(
        self, fold: Fold, key: RankingKey, members: Sequence[bytes], now_ms: int
    ) -> list[int]:
        """Return the ranks of members in a ranking at an instant."""
        board = self.board
        if not (board.rules.hide_zero or board.hidden.own or board.hidden.shared):
            return fold.index.ranks(key, members)
        zeros = zeros_of(board.rules, key.window, now_ms)
        hidden = None if is_by(key.scope) else board.hidden_at(now_ms)
        if zeros is None and hidden is None:
            return fold.index.ranks(key, members)
        request = ReadRequest(key, zeros=zeros, hidden=hidden)
        return listed_by(fold.index, request).ranks(key, members)

    def _refuse(self, errors: Mapping[int, LaurelsError]) -> None:
        """Refuse the events at these positions."""
        if not errors:
            return
        members, origin = self.members(), self._origin
        for i, error in errors.items():
            self._errors[origin[i]] = (members[i].decode(), error)

    def _at_now(self, now_ms: int) -> list[Batch]:
        """Return the events as a batch accepted at `now_ms`. An `at` a little ahead of the clock is
        replaced by `now_ms`, and an event with a later `at` is refused. For events of a stream, the
        batch may have an earlier time `judged_ms`, which then decides whether events are late."""
        batch = self._batch(now_ms)
        if self._arrived_ms is not None:
            wait_ms = self.board.rules.close_wait_ms
            judged_ms = judged_at(self._arrived_ms, self._follows, now_ms, wait_ms)
            if judged_ms < now_ms:
                batch = msgspec.structs.replace(batch, judged_ms=judged_ms)
        ats = batch.ats
        if not ats:
            return [batch]
        least, most = bounds(ats)
        if least > MISSING and most <= now_ms:
            return [batch]
        self._refuse(
            {
                i: AtInFuture(f"`at` is {at - now_ms} ms ahead of the clock")
                for i, at in enumerate(ats)
                if at > now_ms + AHEAD_MS
            }
        )
        stamped = array("q", [now_ms if at == MISSING else min(at, now_ms) for at in ats])
        return [self._without_refused(msgspec.structs.replace(batch, ats=stamped))]

    def _in_event_time(self, now_ms: int) -> list[Batch]:
        """Return the events divided into batches. Each batch is accepted at the latest `at` among
        its own events and all earlier ones. The events of an all-or-nothing batch are not divided,
        but accepted at the latest `at` of all of them."""
        ats = self._columns.ats or array("q", [MISSING]) * self._columns.n
        missing = AtRequired("expected `at` in every event, since the store uses event time")
        self._refuse({i: missing for i, at in enumerate(ats) if at == MISSING})
        if self._atomic and self._errors:
            return []
        batch = self._without_refused(msgspec.structs.replace(self._batch(now_ms), ats=ats))
        if not batch.ats:
            return []
        nows = array("q", accumulate(batch.ats[1:], max, initial=max(now_ms, batch.ats[0])))
        if self._atomic:
            return [msgspec.structs.replace(batch, now_ms=nows[-1])]
        ends = split_points(self.board.rules, batch.ats, nows, evenly=self._ranks)
        return batch.split(ends, nows)

    def _batch(self, now_ms: int) -> Batch:
        """Return all events of valid form as one batch accepted at `now_ms`."""
        columns, number = self._columns, self.board.number
        return batch_of(columns, number, now_ms, absolute=self._absolute, atomic=self._atomic)

    @property
    def _origin(self) -> Sequence[int]:
        """The position, in the submitted batch, of each event of valid form."""
        return self._columns.kept or range(self._columns.n)

    def members(self) -> list[bytes]:
        """Return the members of the events of valid form."""
        return split_texts(self._columns.arena, self._columns.lengths)

    def _without_refused(self, batch: Batch) -> Batch:
        origin = self._origin
        kept = [i for i in range(batch.size) if origin[i] not in self._errors]
        return batch if len(kept) == batch.size else batch.take(kept)


def ensure_follows(source: str, stored: str | None, follows: str) -> None:
    """Raise PositionMoved unless `stored`, the stored position of a source, equals `follows`. An
    empty position means that none is stored."""
    if (stored or "") != follows:
        raise PositionMoved(
            f"expected the position {quoted(follows)} of {quoted(source)} before this batch, "
            f"got {quoted(stored)}"
        )
