"""Applies a batch to the rankings of its board.

There are three steps. First, events with repeated ids and late events are sorted out. Then the
write rule in the engine (`engine.batch.fold`) counts the other events in all their windows. Last,
the ids of counted events are remembered. An all-or-nothing batch keeps a journal of its writes and
is undone if one of its events is refused.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from laurels.core.index import COUNTED, BatchTrace, Outcome, Outcomes, Scores
from laurels.core.lifecycle import RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import Target
from laurels.engine.batch import fold
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from laurels.engine.tree.rows import negated
from laurels.errors import CheckFailed
from laurels.model.batch import Batch
from laurels.model.labels import ALL
from laurels.model.score import stamps_of
from laurels.model.windows.weighing import Weighing

from .board_store import BoardStore, changed_structures
from .remembered import key_of

_Report = tuple[bytearray, list["array[int]"]]
"""The entries of the events' members in the ranking whose scores the caller asked for (`watch`):
for each event whether there is an entry, and the words of the entries, column by column."""


class BatchApplication:
    """Applies one batch to the rankings of its board."""

    def __init__(
        self, board_store: BoardStore, roster: Roster, batch: Batch, plan: Plan, watch: int | None
    ) -> None:
        rules = board_store.rules
        self._board_store = board_store
        self._batch = batch
        self._plan = plan
        self._watch = -1 if watch is None else watch
        self._rollings: list[RollingSet | None] = []
        self._stores: list[RankedSet | Tally] = []
        for target, roll in zip(plan.targets, plan.rolls, strict=True):
            if roll is None:
                self._rollings.append(None)
                self._stores.append(board_store.open_ranking(target.key, roster))
            else:
                rolling = self._roll(target, roll, roster)
                self._rollings.append(rolling)
                self._stores.append(rolling.open_tally(target.key.instance))
        self._members = roster.intern(batch.members, batch.lengths)
        self._counted: Any = self._members
        if rules.rank_by:
            self._counted = [
                self._members if not spec.by else _values_of(batch, spec.by, roster)
                for spec in plan.specs
            ]
        self._words = [
            column if rule.sign > 0 else negated(column)
            for rule, column in zip(rules.columns, batch.values, strict=True)
        ]
        self._decay_weights: Sequence[Any] = ()
        if rules.weighings:
            self._decay_weights = [
                _weights(rules.weighing(spec.window), batch) for spec in plan.specs
            ]
        self._ats = batch.now_ms if batch.ats is None else batch.ats
        self._stamps = stamps_of(self._ats, rules.resolution_ms)
        self._sets = self._set_totals() if batch.absolute else None
        self._codes = bytearray(batch.size)
        self._added: list[bytes] = []
        self._journal = fold.Journal() if batch.atomic else None
        self._watched: list[tuple[_Report, _Report]] = []
        self._trace = self._new_trace() if rules.changes_ms else None

    def _new_trace(self) -> BatchTrace:
        """Return an empty trace. After each event, the engine records in it the entries of the
        event's member."""
        rules, size = self._board_store.rules, self._batch.size

        def columns(count: int) -> "list[array[int]]":
            return [array("q", [0]) * size for _ in range(count)]

        added = columns(len(rules.columns)) if self._batch.absolute else None
        return BatchTrace([(spec, columns(rules.entry_words)) for spec in rules.recorded], added)

    def _set_totals(self) -> bytes:
        """Return, for each event of an absolute batch, whether the engine has to compute the
        differences to the totals in the window `all`. After the end of the board this window may
        take no event that another window takes. The differences of such events are computed here,
        since no event of the batch changes these totals."""
        rules, plan = self._board_store.rules, self._plan
        if rules.totals is None:
            return bytes(self._batch.size)
        taken = bytes([plan.index_of(plan.all_window, i) >= 0 for i in range(self._batch.size)])
        ranking = self._board_store.whole.rankings.get(rules.totals)
        if all(taken) or ranking is None:
            return taken
        present, totals = ranking.words(self._members)
        for column, rule in enumerate(rules.columns):
            if rule.adds_up:
                self._words[column] = array(
                    "q",
                    [
                        value if is_taken or not is_present else value - total
                        for value, total, is_taken, is_present in zip(
                            self._words[column], totals[column], taken, present, strict=True
                        )
                    ],
                )
        return taken

    def _roll(self, target: Target, roll: RollingState, roster: Roster) -> RollingSet:
        """Return the rolling window of a target. Raises CheckFailed if it was not advanced to the
        running step."""
        window = roll.ranking.key.window
        rolling = self._board_store.open_rolling(
            target.key.scope, window, roll.steps, roll.running, roster
        )
        if rolling.running != roll.running:
            raise CheckFailed(f"window {window!r} was not advanced to step {roll.running}")
        return rolling

    def run(self) -> Outcomes:
        for i in self._plan.late:
            self._codes[i] = Outcome.TOO_LATE
        if self._batch.ids is None:
            self._count(0, self._batch.size)
        else:
            self._count_once(self._batch.ids)
        before, after = _scores(self._watched)
        outcomes = Outcomes(self._codes, before, after, self._trace)
        if self._journal is not None and outcomes.refused:
            self._undo(self._journal)
            outcomes = Outcomes(self._codes)
        return outcomes

    def changes_by_scope(self) -> "Iterator[tuple[str, array[int], list[RankedSet | Tally]]]":
        """Yield, for each scope that may have changed, the members and the structures in it that
        may have changed."""
        structures: dict[str, list[RankedSet | Tally]] = {}
        best = self._board_store.rules.best
        for target, store, rolling in zip(
            self._plan.targets, self._stores, self._rollings, strict=True
        ):
            changed = structures.setdefault(target.key.scope, [])
            changed.append(store)
            if rolling is not None:
                changed += changed_structures(rolling, best=best)
        if not self._board_store.rules.scoped:
            yield ALL, self._members, structures.get(ALL, [])
            return
        for scope, ids in self._members_by_scope().items():
            yield scope, array("I", ids), structures[scope]

    def _members_by_scope(self) -> dict[str, list[int]]:
        """Return the members whose entries may have changed, by scope."""
        by_scope: dict[str, list[int]] = {}
        scopes = [target.key.scope for target in self._plan.targets]
        for spec in range(len(self._plan.specs)):
            members = self._counted[spec] if self._board_store.rules.rank_by else self._members
            for event in range(self._batch.size):
                if (index := self._plan.index_of(spec, event)) >= 0:
                    by_scope.setdefault(scopes[index], []).append(members[event])
        return by_scope

    def settle(self) -> None:
        """Drop structures that are empty after the batch. For each refreshed window, record whether
        the next refresh will have members in the batch's scopes."""
        for target, store, rolling in zip(
            self._plan.targets, self._stores, self._rollings, strict=True
        ):
            if rolling is not None and rolling.deferred:
                self._board_store.schedule(target.key.window, target.key.scope)
            live = rolling is not None and not rolling.deferred
            if not len(store) or (live and rolling is not None and not len(rolling.live)):
                self._board_store.drop_empty(target.key.scope)

    def _count(self, start: int, stop: int) -> None:
        """Count those events from `start` to `stop` that have no outcome yet (code 0)."""
        if start == stop:
            return
        watched = fold.apply(
            self._board_store.shape,
            self._stores,
            self._plan.routes,
            self._rollings,
            self._counted,
            self._words,
            self._stamps,
            self._ats,
            self._sets,
            self._plan.all_window,
            self._watch,
            start,
            stop,
            self._codes,
            self._journal,
            self._decay_weights,
            () if self._trace is None else self._trace.rankings,
            None if self._trace is None else self._trace.added,
        )
        if watched is not None:
            self._watched.append(watched)

    def _count_once(self, ids: list[bytes | None]) -> None:
        """Count events with ids. They are counted in groups of successive events, here called runs,
        none of which decides whether another event of its run is accepted.

        Whether an id is new depends on the outcomes of earlier events. So a run ends before the
        next event in three cases: the event's id is already in the run; its id would exceed the
        limit on ids if all events of the run count; or, in event time, an id of the run has expired
        by the time of the event.
        """
        remembered, limit = self._board_store.remembered, self._board_store.rules.dedupe_max
        dedupe_ms, nows = self._board_store.rules.dedupe_ms, self._batch.nows
        remembered.forget_until(self._batch.accepted_at(0) - dedupe_ms)
        start = 0
        run: dict[bytes, int] = {}
        for i, key in self._keys(ids):
            if nows is not None:
                if run and nows[i] - nows[next(iter(run.values()))] >= dedupe_ms:
                    self._finish(start, i, run)
                    start = i
                remembered.forget_until(nows[i] - dedupe_ms)
            if key in run or len(remembered) + len(run) >= limit:
                self._finish(start, i, run)
                start = i
            if key in remembered:
                self._codes[i] = Outcome.DUPLICATE
            elif not self._codes[i]:
                if len(remembered) + len(run) >= limit:
                    self._codes[i] = Outcome.DEDUPE_FULL
                else:
                    run[key] = i
        self._finish(start, self._batch.size, run)

    def _keys(self, ids: list[bytes | None]) -> Iterator[tuple[int, bytes]]:
        start = 0
        members = self._batch.members
        for i, (length, id) in enumerate(zip(self._batch.lengths, ids, strict=True)):
            if id is not None:
                yield i, key_of(members[start : start + length], id)
            start += length

    def _finish(self, start: int, stop: int, run: dict[bytes, int]) -> None:
        self._count(start, stop)
        for key, i in run.items():
            if self._codes[i] in COUNTED:
                self._board_store.remembered.add(key, self._batch.accepted_at(i))
                self._added.append(key)
        run.clear()

    def _undo(self, journal: fold.Journal) -> None:
        """Undo the whole batch."""
        journal.undo()
        self._board_store.remembered.undo(self._added)
        for i, code in enumerate(self._codes):
            if code in COUNTED:
                self._codes[i] = Outcome.ROLLED_BACK


def _values_of(batch: Batch, label: str, roster: Roster) -> "array[int]":
    """Return, for each event, the roster id of the event's value of a label. For an event without
    the label this id is arbitrary."""
    if batch.labels is None:
        return array("I", bytes(4 * batch.size))
    values = [(value or "-").encode() for value in batch.labels.values(label)]
    ids = roster.intern(b"".join(values), bytes(map(len, values)))
    return array("I", [ids[group] for group in batch.labels.each])


def _weights(weighing: Weighing | None, batch: Batch) -> Any:
    """Return the weights of the events for the engine; None in a window without decay."""
    if weighing is None:
        return None
    weights = batch.weights_in(weighing)
    return weights.exponents, weights.mantissas


def _scores(runs: list[tuple[_Report, _Report]]) -> tuple[Scores | None, Scores | None]:
    """Concatenate the reports of successive groups of events. Return the scores before each event,
    and the scores after each event."""
    if not runs:
        return None, None
    before, after = runs[0]
    for run in runs[1:]:
        for (present, words), (more_present, more_words) in zip((before, after), run, strict=True):
            present.extend(more_present)
            for column, more in zip(words, more_words, strict=True):
                column.extend(more)
    return Scores(*before), Scores(*after)
