"""Sealing: closed periods are written to the archive, and then sealed.

A closed period is frozen, so its rankings are read in chunks while the store goes on. Several
periods are written to the archive together, and one commit seals all of them. If the process dies
between the two, the periods are closed but not sealed, and are written to the archive again. The
archive's standings of a period are used only once the period is sealed.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from laurels.core import record as records
from laurels.core.board_state import Boards
from laurels.core.close_schedule import Unsealed
from laurels.core.closing import final_ms_of
from laurels.core.stats import Sealed
from laurels.model.labels import ALL
from laurels.stores.intake.tags import new_tag
from laurels.stores.intake.writes import Several, Task

from .archive.segment import PeriodKey, WrittenPeriod
from .frozen import FrozenPeriod, FrozenRankings, frozen_period
from .seal_draft import SealDraft
from .state import PAYOUTS_MADE
from .upkeep import LocalUpkeep

BOARDS = 250
"""The maximum number of boards whose periods are closed in one commit of `seal`."""
PERIODS = 500
"""The maximum number of periods that are written to the archive together."""
CHOSEN = 10
"""How many of them are chosen while no commit runs."""
SEALS = 10
"""The maximum number of periods that are sealed in one commit, so that readers and other writes
wait for about a millisecond."""
ENTRIES = 1_000_000
"""The number of entries after which no further period is written together with others."""


class LocalSealing(LocalUpkeep):
    """The part of the store of one process that seals closed periods. The functions in
    `before_seal` are called with the periods that are about to be sealed, and with a function that
    they call between pieces of their work. They must store their results durably, and store the
    same results when they are called again."""

    @abstractmethod
    def resume_erasures(self, pause: Callable[[], None]) -> None:
        """Complete the erasures that a failure or a kill has interrupted. `pause` is called between
        pieces of the work."""

    def seal(self) -> Sealed:
        """Close all periods that are due, seal all that are closed, and emit all payouts that are
        due."""
        self.ensure_usable()
        with self._sealing.exclusive():
            sealed = Sealed(self.close_due(), self._seal_all())
        self.emit_due()
        return sealed

    def close_due(self) -> int:
        """Close all periods that are due; return their number."""
        closed = idle = 0
        while idle <= self._fold.closings.waiting // BOARDS:
            done: int = self.commit(Task(partial(self._close_share, BOARDS)))
            closed, idle = closed + done, 0 if done else idle + 1
        return closed

    def start_sealing(self) -> None:
        """Start a thread that seals the closed periods. Do nothing while such a thread runs."""
        self._sealing.start(partial(self._seal_all, background=True))

    def is_gone(self, name: str) -> bool:
        """Return whether a board is no longer retained, but still in memory until its periods are
        sealed."""
        with self._lock:
            state = self.advanced_fold().boards.get(name)
            return state is not None and state.rules.is_gone(self._fold.clock_ms)

    def settle_board(self, name: str) -> None:
        """Close the due periods of a board, and seal all its closed ones. Do nothing if there is no
        such board."""
        with self._lock:
            state = self._fold.boards.get(name)
            if state is None or not state.closing:
                return
        with self._sealing.exclusive():
            self.commit(Task(partial(self._close_boards, [state.number])))
            while self._seal_some(state.number):
                pass

    def _seal_all(
        self, pause: Callable[[], None] = lambda: None, *, background: bool = False
    ) -> int:
        """Publish the payouts that are left, complete interrupted erasures, and seal all closed
        periods. Return the number of periods that were sealed. `pause` is called between pieces of
        the work. In the `background`, commits wait for other writes to be committed with."""
        self._publish_rest(pause)
        if self._fold.erasing:
            self.resume_erasures(pause)
        sealed = 0
        while done := self._seal_some(pause=pause, background=background):
            sealed += done
        return sealed

    def _seal_some(
        self,
        board: int | None = None,
        pause: Callable[[], None] = lambda: None,
        *,
        background: bool = False,
    ) -> int:
        """Seal some of the closed periods; with `board`, only periods of the board with this
        number. Return how many were sealed; 0 means that none are left."""
        chosen = self._chosen(board, pause)
        if not chosen:
            return 0
        rankings = FrozenRankings(lambda: self._fold, self.reading)
        periods = [(each.key, rankings.of(each)) for each in chosen]
        written = self.archive.write(periods, pause)
        with self.reading():
            now_ms = self.advanced_fold().now_ms
        drafts = []
        for each, in_archive in zip(chosen, written, strict=True):
            drafts.append(_draft(each, in_archive, now_ms))
            pause()
        for prepare in self.before_seal:
            prepare(drafts, pause)
        if self.payouts.file.exists and not self.payouts.file.is_expected:
            self.set_note(PAYOUTS_MADE, "yes")
            self.payouts.file.is_expected = True
        for start in range(0, len(chosen), SEALS):
            part = slice(start, start + SEALS)
            seals = Several(partial(_seals, chosen[part], written[part]), exclusive=False)
            self.commit(seals, background=background)
            pause()
        self._publish_rest(pause)
        with self.reading():
            trimmed, self._fold.closings.trimmed = self._fold.closings.trimmed, []
        self.archive.drop(
            [
                PeriodKey(uid, window, instance, revision)
                for uid, window, instance, newest in trimmed
                for revision in range(newest + 1)
            ]
        )
        return len(chosen)

    def _publish_rest(self, pause: Callable[[], None]) -> None:
        """Publish all payouts of sealed periods that are not published yet."""
        while self.payouts.publish_share():
            pause()

    def _chosen(self, board: int | None, pause: Callable[[], None]) -> list[FrozenPeriod]:
        """Return the next closed periods to seal together."""
        with self.reading():
            unsealed = self._fold.closings.unsealed
            own = (each for each in unsealed if board is None or each.number == board)
            waiting = list(islice(own, PERIODS))
        chosen: list[FrozenPeriod] = []
        entries = 0
        for start in range(0, len(waiting), CHOSEN):
            with self.reading():
                for each in waiting[start : start + CHOSEN]:
                    if each not in self._fold.closings.unsealed:
                        continue  # the board was removed meanwhile
                    period = self._frozen(each)
                    entries += self._fold.index.size(period.ranking_key(ALL))
                    if chosen and entries > ENTRIES:
                        return chosen
                    chosen.append(period)
            pause()
        return chosen

    def _frozen(self, unsealed: Unsealed) -> FrozenPeriod:
        """Return a closed period, after its board was advanced."""
        state = self._fold.by_number(unsealed.number)
        self._fold.advance(state)
        return frozen_period(state, unsealed.window, unsealed.instance)


def _draft(frozen: FrozenPeriod, written: WrittenPeriod, now_ms: int) -> SealDraft:
    window, instance = frozen.key.window, frozen.key.instance
    period = frozen.rules.windows[window].period_of(instance)
    return SealDraft(
        frozen.key.uid, frozen.board, window, instance, period, now_ms, frozen.key, written
    )


def _seals(
    chosen: Sequence[FrozenPeriod], written: Sequence[WrittenPeriod], boards: Boards, now_ms: int
) -> list[records.Record]:
    """Return the records that seal periods which are in the archive."""
    seals: list[records.Record] = []
    for each, in_archive in zip(chosen, written, strict=True):
        state = boards.find_by_number(each.number)
        window, instance = each.key.window, each.key.instance
        if state is None or instance not in state.closing[window].closed:
            continue
        rules_window = state.rules.windows[window]
        seals.append(
            records.Seal(
                state.number,
                state.version,
                boards.accepts_at(state, now_ms),
                window,
                instance,
                final_ms_of(rules_window, rules_window.period_of(instance)),
                each.key.revision,
                in_archive.entries,
                in_archive.digest,
                new_tag(),
            )
        )
    return seals
