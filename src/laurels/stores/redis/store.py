"""The store on an index server: boards on a Redis or Valkey server that several processes share.

Reads are in `reading.py`, writes in `committing.py`. This file has the upkeep of the boards, and
the methods for a service that serves the store.
"""

from collections.abc import Callable, Collection

from laurels.core.clock_status import ClockStatus, SharedSource, accept_clock, clock_status
from laurels.core.stats import CheckReport, Sealed, StoreFigures
from laurels.errors import NothingToBackUp, Unavailable

from .committing import RedisCommits
from .retry import read_only


class RedisStore(RedisCommits):
    """The store of boards on an index server."""

    @property
    def paced(self) -> bool:
        """Whether a background task does the due work. If not, submissions do it."""
        return self._writer.paced

    @paced.setter
    def paced(self, paced: bool) -> None:
        self._writer.paced = paced

    def check(self) -> CheckReport:
        """Check every ranking against the data it is derived from, in shares; writes continue."""
        report: CheckReport = self.run(self._statistics.check())
        return report

    def rebuild(self) -> None:
        """Rebuild every ranking from the data it is derived from, in shares; writes continue."""
        self.run(self._statistics.audit(repair=True))

    def snapshot(self) -> int:
        """Raise NothingToBackUp: the server stores the data itself."""
        raise NothingToBackUp("the boards are on an index server, which stores them itself")

    def seal(self) -> Sealed:
        """Close all periods that are due, seal all that are closed, and enter all payouts that are
        due in the list of due payouts. Raises LedgerUnavailable."""
        sealed: Sealed = self.run(self._seal())
        return sealed

    async def _seal(self) -> Sealed:
        sealed = await self._sealing_tasks.seal()
        await self._payouts.settle()
        if sealed.closed or sealed.sealed:
            await self._refresh_due_windows()
        return sealed

    def work(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work. Return about how much work is left, and in how many
        milliseconds more work falls due."""
        done: tuple[int, int] = self.run(self._work(limit))
        return done

    async def _work(self, limit: int) -> tuple[int, int]:
        done = await self._catalog.work(limit)
        self._erasing.start()
        self._sealing_tasks.start()
        self._payouts.start()
        return done

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work; see `Paced.pace`."""
        return self.work(limit)

    # Methods for a service that serves this store

    def note(self, key: str) -> str | None:
        """Return a note: a small text that is stored beside the definitions."""
        note: str | None = self.run(read_only(self._catalog.registry.note)(key))
        return note

    def set_note(self, key: str, value: str) -> None:
        """Store a note beside the definitions."""
        self.run(self._catalog.registry.set_note(key, value))

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the statistics that are cheap to read, for the metrics of a service: the number of
        boards that this process knows, whether the server answers, and the lost and unsent changes
        of boards. `stats` returns the more expensive ones."""
        count = len(self._catalog.boards.boards)
        try:
            await self.ensure_healthy()
            changes = await self._statistics.of_changes(is_visible)
        except Unavailable:
            return StoreFigures(of_boards_only=is_visible is not None, count=count, answers=False)
        return StoreFigures(
            of_boards_only=is_visible is not None,
            changes_lost=[(board, lost) for board, lost, _ in changes if lost],
            changes_used=[(board, used) for board, _, used in changes if used],
            unsealed=[
                each
                for each in self._sealing_tasks.waiting()
                if is_visible is None or is_visible(each[0])
            ],
            unpaid=[
                each for each in self._catalog.unpaid() if is_visible is None or is_visible(each[0])
            ],
            count=count,
            answers=True,
            clock=self.clock_status(),
        )

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each write that the store has carried out. Its arguments are the
        number of events in the write and the seconds it took by `clock`."""
        self._queues.observed = observer, clock

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        """Return a token that changes whenever the board's lists may have changed. It shows the
        state at the last call of `follow`."""
        return self._follower.change_token(board)

    async def follow(self, boards: Collection[str]) -> None:
        """Update the change tokens of boards concurrently; unknown boards are skipped."""
        self.ensure_usable()
        await self._follower.poll(boards)

    def clock_status(self) -> ClockStatus:
        """Return this process's time, and by how much it differs from the clock of the index
        server."""
        self.ensure_usable()
        return clock_status(self._clock, self._catalog.latest_ms)

    def accept_clock(self) -> ClockStatus:
        """Make all processes accept the current clock of the index server, even if the clock has
        leapt far. This process accepts it at once. The other processes accept it within some
        seconds, when they next sample the clock."""
        accept_clock(self._clock)
        if isinstance(self._clock, SharedSource):
            self.run(self._clock.announce_acceptance())
        return self.clock_status()

    async def ensure_healthy(self) -> None:
        """Raise an error if the index server does not answer."""
        self.ensure_usable()
        await self._catalog.registry.answers()
