"""The semantics of laurels in the plainest Python: lists of events, sorting, integers.

The oracle is written from the design, not from the code, and imports no laurels module. It keeps
every event that a window counted, and reads all of them again for each answer. The terms are those
of the design.

An `Oracle` is a deployment with a clock, an `OracleBoard` is one of its boards, and an
`OracleWindow` is one window of a board: `all`, a calendar window or a rolling one. A refused
operation raises `Refusal` with the stable error code.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.definitions import (
    Accepted,
    Changed,
    Counted,
    Definition,
    Refusal,
    Report,
    Row,
    Scope,
    Verdict,
)
from tests.oracle_board import OracleBoard
from tests.oracle_forms import (
    at_of,
    ensure_label_texts,
    ensure_numbers,
    labels_of,
    text_of,
    values_of,
)
from tests.oracle_moderation import OracleModeration
from tests.oracle_window import OracleWindow

AHEAD_MS = 5_000
MAX_BATCH = 100_000

WindowScope = tuple[OracleWindow, tuple[str, ...]]
"""A window and the names of labels. Verdicts have the scores and ranks of this window, in the
scopes with these label names."""


class Oracle(OracleModeration):
    """A deployment: boards and a clock. If it has no clock, the time of each board is that of its
    latest event."""

    def __init__(self, clock: Callable[[], int] | None) -> None:
        super().__init__(clock)
        self.written = False
        self.created = 0

    # Boards and members

    def create(self, definition: Definition) -> None:
        """Create a board. This does not advance the time: it may be meant for older events."""
        self.drop_gone()
        self.remove_paid()
        self.free_name(definition.name)
        if definition.name in self.boards:
            raise Refusal("board_exists")
        self.created += 1
        board = self.boards[definition.name] = OracleBoard(definition, self.created)
        board.hidden_everywhere = self.hidden_everywhere
        board.note_hidings(self.now_ms())
        self.refresh()

    def change(self, definition: Definition) -> None:
        """Replace the definition of a board. Raise an error if its end cannot be changed so. Tests
        request no other unsafe changes."""
        board = self.board(definition.name)
        if board.definition != definition:
            board.change(definition, self.time(board))
            self.latest_ms = self.now_ms()
            self.refresh()

    def delete(self, name: str) -> None:
        board = self.board(name)
        self.settle(board)
        self.latest_ms = self.now_ms()
        self.keep_removed(self.boards.pop(name))
        self.refresh()

    def undelete(self, name: str, new: str) -> None:
        """Restore the board that was removed last among those of a name, under a new name. It has
        its sealed periods, its payouts and its hidden members, and no other members."""
        self.drop_gone()
        self.remove_paid()
        is_there = self.store_of(name) == self.store_of(new)
        for each in dict.fromkeys((name, new) if is_there else (new,)):
            self.free_name(each)
        board = next((each for each in self.removed[::-1] if each.definition.name == name), None)
        if board is None or not is_there:
            raise Refusal("not_restorable")
        if new in self.boards:
            raise Refusal("board_exists")
        self.latest_ms = self.removed_ms = now_ms = self.now_ms()
        self.removed.remove(board)
        restored = replace(board.definition, name=new)
        board.restore(replace(restored, retain="") if restored.is_gone(now_ms) else restored)
        board.hidden_everywhere = self.hidden_everywhere
        self.boards[new] = board
        for payout in self.payouts:
            if payout.place.uid == board.uid:
                payout.place = payout.place._replace(board=new)
        board.note_hidings(now_ms)
        self.refresh()

    def set_data(self, name: str, member: str, profile: object) -> None:
        board = self.board(name)
        self.latest_ms = self.now_ms()
        if profile is None:
            board.profiles.pop(member, None)
        else:
            board.profiles[member] = profile
        board.changes.append(Changed("data", member, self.latest_ms, data=profile))
        self.refresh()

    # Events

    def submit(
        self,
        name: str,
        report: Report,
        window: str | None = None,
        scope: Sequence[str] | None = None,
    ) -> Verdict:
        """Submit one event. Raise an error if it is refused."""
        verdict = self.submit_many(name, [report], window=window, ranks=True, scope=scope)[0]
        if verdict.status == "refused":
            raise Refusal(str(verdict.reason), (verdict,))
        return verdict

    def submit_many(
        self,
        name: str,
        reports: Sequence[Report],
        *,
        window: str | None = None,
        ranks: bool = False,
        all_or_nothing: bool = False,
        scope: Sequence[str] | None = None,
    ) -> list[Verdict]:
        """Submit a batch and return the verdicts. Raise an error if the batch is all-or-nothing and
        one of its events is refused. The verdicts show scores and ranks of one window. The verdict
        of an event is about the scope with the label names `scope` in which that event counts."""
        board = self.board(name)
        watched = board.definition.scopes[0] if scope is None else tuple(sorted(scope))
        if watched not in board.definition.scopes:
            raise Refusal("unknown_scope")
        requested = board.window(window), watched
        if len(reports) > MAX_BATCH:
            raise Refusal("batch_too_large")
        saved = copy.deepcopy(board) if all_or_nothing else board
        verdicts = self._judge(
            board, reports, requested, ranks or len(reports) == 1, all_or_nothing
        )
        refused = all_or_nothing and any(verdict.status == "refused" for verdict in verdicts)
        if refused:
            saved.latest_ms = board.latest_ms
            saved.hidden_everywhere = self.hidden_everywhere
            self.boards[name] = saved
        if self.written:
            self.refresh()
        if refused:
            raise Refusal("batch_refused", tuple(map(rolled_back, verdicts)))
        return verdicts

    def _judge(
        self,
        board: OracleBoard,
        reports: Sequence[Report],
        requested: WindowScope,
        ranks: bool,
        whole: bool,
    ) -> list[Verdict]:
        now_ms = self.time(board)
        verdicts: dict[int, Verdict] = {}
        accepted: dict[int, Accepted] = {}
        for i, report in enumerate(reports):
            try:
                accepted[i] = self.accept(board.definition, report, now_ms)
            except Refusal as refusal:
                verdicts[i] = Verdict(report.member, "refused", refusal.code)
        if whole and verdicts:
            verdicts.update({i: Verdict(event.member, "applied") for i, event in accepted.items()})
            accepted = {}
        self.written = bool(accepted)
        for record in self.records(board, accepted, whole):
            verdicts.update(self.commit(board, record, requested, ranks))
        return [verdicts[i] for i in range(len(reports))]

    def accept(self, definition: Definition, report: Report, now_ms: int) -> Accepted:
        """Make all checks of an event that do not depend on other events, and return the event with
        its score in exact units. Raise Refusal if a check fails."""
        member = text_of(report.member, "member")
        ensure_numbers(report.value)
        at_ms = at_of(report.at)
        id = None if report.id is None else text_of(report.id, "id")
        ensure_label_texts(report.labels)
        values = values_of(report.value, definition.columns)
        labels = labels_of(report.labels, definition.labels)
        if not definition.scopes_of(labels):
            raise Refusal("no_scope")
        if report.absolute and not self._can_set(definition):
            raise Refusal("no_all_window")
        sums = any(column.op == "sum" for column in definition.columns)
        if report.absolute and sums and at_ms is not None and self.clock is not None:
            raise Refusal("set_with_time")
        if self.clock is None and at_ms is None:
            raise Refusal("at_required")
        at_ms = now_ms if at_ms is None else at_ms
        if self.clock is not None and at_ms > now_ms + AHEAD_MS:
            raise Refusal("at_in_future")
        at_ms = at_ms if self.clock is None else min(at_ms, now_ms)
        return Accepted(member, values, at_ms, id, report.absolute, labels)

    def _can_set(self, definition: Definition) -> bool:
        sums = any(column.op == "sum" for column in definition.columns)
        every = () in definition.scopes and any(w.unit == "all" for w in definition.windows)
        return not sums or every

    def records(
        self, board: OracleBoard, accepted: dict[int, Accepted], whole: bool
    ) -> list[dict[int, tuple[int, Accepted]]]:
        """Return the log records of a batch. A record is a dict from the index of an event in the
        batch to the event and the time at which it is judged.

        With a clock there is one record. In event time, an event is judged at the latest `at` so
        far, its own included. The time at which the previous event was judged may be earlier. An
        event begins a new record if, since that time, some window has begun another period or step,
        or has stopped taking events of an earlier period or step. An all-or-nothing batch is one
        record, judged at the latest `at` of the whole batch.
        """
        now_ms = max(self.time(board), board.latest_ms)
        if self.clock is not None:
            return [{i: (now_ms, event) for i, event in accepted.items()}] if accepted else []
        if whole:
            now_ms = max([now_ms, *[event.at_ms for event in accepted.values()]])
            return [{i: (now_ms, event) for i, event in accepted.items()}] if accepted else []
        records: list[dict[int, tuple[int, Accepted]]] = []
        for i, event in accepted.items():
            before_ms, now_ms = now_ms, max(now_ms, event.at_ms)
            crossed = any(
                window.section(before_ms) != window.section(now_ms)
                for window in board.windows.values()
            )
            record = {} if not records or crossed else records.pop()
            records.append({**record, i: (now_ms, event)})
        return records

    def commit(
        self,
        board: OracleBoard,
        timed: dict[int, tuple[int, Accepted]],
        requested: WindowScope,
        ranks: bool,
    ) -> dict[int, Verdict]:
        """Fold one record and return its verdicts. The scores of a verdict are those before and
        after its event. Its ranks are those before and after the whole record. If the requested
        window refuses the event, or the event lacks a label of the requested scope, the verdict has
        neither scores nor ranks."""
        record = {i: event for i, (_, event) in timed.items()}
        nows = {i: now_ms for i, (now_ms, _) in timed.items()}
        window, names = requested
        scopes = {i: labelled(names, event.labels) for i, event in record.items()}
        taken = {
            i: scope
            for i, scope in scopes.items()
            if scope is not None and window.takes(record[i].at_ms, nows[i])
        }

        def ranked(i: int) -> list[Counted]:
            return window.events(window.label(record[i].at_ms, nows[i]), nows[i])

        def row(i: int) -> Row | None:
            if i not in taken:
                return None
            return board.row(board.own(ranked(i), taken[i], record[i].member))

        last_ms = max(nows.values())

        def rank(i: int) -> int | None:
            if row(i) is None:
                return None
            counted = window.events(window.label(record[i].at_ms, nows[i]), last_ms)
            places = board.ranking(board.shown(counted, taken[i], last_ms))
            return next((place.rank for place in places if place.member == record[i].member), None)

        ranks_before = {i: rank(i) for i in record} if ranks else {}
        verdicts = {}
        for i, event in record.items():
            board.latest_ms = max(board.latest_ms, nows[i])
            self.latest_ms = max(self.latest_ms, nows[i])
            before, verdict, after = row(i), board.fold(event, nows[i]), row(i)
            verdicts[i] = replace(
                verdict,
                period=window.label(event.at_ms, nows[i]) if i in taken else None,
                previous_score=None if before is None else before.score,
                score=None if after is None else after.score,
                labels=dict(taken[i].labels) if i in taken and board.definition.labels else None,
            )
        for i, previous_rank in ranks_before.items():
            verdicts[i] = replace(verdicts[i], previous_rank=previous_rank, rank=rank(i))
        return verdicts

    def attains(
        self, name: str, report: Report, window: str | None, scope: Scope, rank: int
    ) -> bool:
        """Return whether an event, submitted now in a batch of its own, takes its member to this
        position or a better one. The oracle forgets the event afterwards."""
        board = copy.deepcopy(self.board(name))
        now_ms = max(self.time(board), board.latest_ms)
        try:
            event = self.accept(board.definition, replace(report, at=now_ms), now_ms)
        except Refusal:
            return False
        if board.fold(event, now_ms).status == "refused":
            return False
        queried = board.window(window)
        counted = queried.events(queried.resolve(None, now_ms), now_ms)
        return any(
            place.member == event.member and place.position <= rank
            for place in board.ranking(board.shown(counted, scope, now_ms))
        )


def labelled(names: Sequence[str], labels: Sequence[tuple[str, str]]) -> Scope | None:
    """Return the scope with these label names in which an event counts, or None if the event lacks
    one of the labels."""
    carried = dict(labels)
    if not all(name in carried for name in names):
        return None
    return Scope(tuple((name, carried[name]) for name in names))


def rolled_back(verdict: Verdict) -> Verdict:
    """Return the verdict of an event whose whole batch was refused."""
    if verdict.status in {"refused", "duplicate"}:
        return verdict
    return Verdict(verdict.member, "refused", "batch_refused")
