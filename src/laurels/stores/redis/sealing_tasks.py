"""Seals the closed periods of all boards, in the background or on request.

Each ledger has a background task of its own, so a ledger that does not answer delays only boards
whose periods it archives. Writes and due work never wait for a ledger. Only three calls wait for a
ledger: `seal`, the deletion of a board, and the creation of a board with the name of one that is
about to be removed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf

from laurels.core.stats import Sealed
from laurels.errors import Closed, LaurelsError, PeriodsUnsealed, UnknownBoard
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.payouts import PayoutsOpen
from laurels.errors.placement import BoardMoving
from laurels.model.validation import quoted
from laurels.stores.redis.connection.deadline import VERB_SECONDS, ends_in

from .catalog import BoardCatalog
from .sealing import ServerSealing

RETRY_NS = 10_000_000_000
"""How long after a failure sealing is tried again, in nanoseconds."""

_log = logging.getLogger("laurels")


class SealingTasks:
    """Seals the closed periods of all boards. `elapsed_ns` is a monotonic clock."""

    def __init__(
        self, catalog: BoardCatalog, sealing: ServerSealing, elapsed_ns: Callable[[], int]
    ) -> None:
        self._catalog = catalog
        self._sealing = sealing
        self._elapsed_ns = elapsed_ns
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """The newest background task for each ledger."""
        self._failed: dict[str, tuple[int, int]] = {}
        """For each ledger with a failure: its time by `elapsed_ns`, and the number of the board."""
        self._is_sealing = False
        self._removal: asyncio.Task[None] | None = None
        self._next_removal_ns = 0

    def start(self) -> None:
        """Seal the closed periods in the background. Leave out ledgers into which periods are being
        sealed already, or into which sealing failed a short time ago. Remove the boards with prizes
        whose `retain` is over and whose payouts are confirmed. O(ledgers)."""
        if self._is_sealing:
            return
        if self._catalog.registry.unpaid and self._elapsed_ns() >= self._next_removal_ns:
            self._next_removal_ns = self._elapsed_ns() + RETRY_NS
            self._removal = asyncio.get_running_loop().create_task(self._remove_in_background())
        for ledger in self._catalog.closings.unsealed:
            task = self._tasks.get(ledger)
            if (task is None or task.done()) and not self._has_failed(ledger):
                loop = asyncio.get_running_loop()
                self._tasks[ledger] = loop.create_task(self._seal_in_background(ledger))

    async def stop(self) -> None:
        """End the sealing in the background. Periods that are not sealed by then stay closed."""
        tasks = [*self._tasks.values(), *([self._removal] if self._removal else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def seal(self) -> Sealed:
        """Close all periods that are due, and seal all that are closed. Wait for periods that
        another process is sealing."""
        await self._catalog.load()
        with ends_in(inf, anew=True):
            self._is_sealing = True
            try:
                if self._tasks:
                    await asyncio.wait(self._tasks.values())
                await self._catalog.remove_gone()
                sealed = await self._seal_all()
                await self.remove_paid()
                return sealed
            finally:
                self._is_sealing = False

    async def remove_paid(self) -> None:
        """Remove the boards with prizes whose `retain` is over, whose periods are all sealed and
        whose payouts are all confirmed. A board whose ledger does not answer stays. O(1) if there
        are no such boards."""
        self._catalog.set_gone()
        for number in list(self._catalog.registry.unpaid):
            state = self._catalog.boards.find_by_number(number)
            if state is None or not state.rules.is_gone(self._catalog.now()):
                self._catalog.registry.unpaid.pop(number, None)
                continue
            with suppress(PayoutsOpen, UnknownBoard, LedgerUnavailable, BoardMoving):
                await self._sealing.settle(state)
                current = self._catalog.boards.find_current(state)
                if (
                    current is not None
                    and current.rules.is_gone(self._catalog.now())
                    and await self._sealing.is_settled(current)
                ):
                    await self._catalog.remove_paid(current)

    async def ensure_removed(self, board: str) -> None:
        """If the board of that name is no longer retained, wait for some seconds until its periods
        are sealed and it is removed. Do not wait if sealing has failed a short time ago. Raises
        PeriodsUnsealed."""
        earlier = self._catalog.registry.gone.get(board)
        if earlier is not None:
            self.start()
            task = self._tasks.get(earlier.board.ledger)
            if task is not None:
                await asyncio.wait([task], timeout=VERB_SECONDS)
        if board in self._catalog.registry.gone:
            raise PeriodsUnsealed(
                f"closed periods of the earlier board {quoted(board)} are not in the archive"
            )

    def waiting(self) -> list[tuple[str, float]]:
        """Return each board with closed periods that are not sealed, as far as this process knows,
        and for how many seconds its oldest such period has waited."""
        waiting = []
        for number in sorted(set[int]().union(*self._catalog.closings.unsealed.values())):
            state = self._catalog.find_retained_or_gone(number)
            closings = [] if state is None else state.closing.values()
            closed = [each.closed_ms for closing in closings for each in closing.closed.values()]
            if state is not None and closed:
                waited_ms = self._catalog.time_of(state) - min(closed)
                waiting.append((state.board.name, waited_ms / 1_000))
        return waiting

    async def _seal_all(self) -> Sealed:
        """Close the due periods of all boards, and seal the closed periods of each ledger."""
        closed, failures = 0, list[LaurelsError]()
        for name in sorted(self._catalog.boards.boards):
            try:
                closed += await self._catalog.retry_outdated(name, self._sealing.close)
            except LaurelsError as error:  # an error of one board must not delay the others
                failures.append(error)
        ledgers = sorted(self._catalog.closings.unsealed)
        sealed = await asyncio.gather(*[self._seal_of(ledger, failures) for ledger in ledgers])
        if failures:
            raise failures[0]
        return Sealed(closed, sum(sealed))

    async def _seal_of(self, ledger: str, failures: list[LaurelsError]) -> int:
        """Seal all closed periods that a ledger archives. Return how many were sealed, and add
        errors to `failures`."""
        sealed = 0
        for number in sorted(self._catalog.closings.unsealed.get(ledger, ())):
            try:
                sealed += await self._seal_board(ledger, number)
            except LaurelsError as error:
                failures.append(error)
        return sealed

    async def _remove_in_background(self) -> None:
        with ends_in(inf, anew=True), suppress(LaurelsError):  # the next `start` tries again
            await self.remove_paid()

    async def _seal_in_background(self, ledger: str) -> None:
        _, last = self._failed.pop(ledger, (0, -1))
        with ends_in(inf, anew=True):
            for number in _after(self._catalog.closings.unsealed.get(ledger, ()), last):
                try:
                    await self._seal_board(ledger, number)
                except Closed:
                    return
                except LaurelsError as error:
                    self._note_failure(ledger, number, error)

    async def _seal_board(self, ledger: str, number: int) -> int:
        """Seal the closed periods of a board. If it is no longer retained, remove it when none of
        its periods is left. Return how many periods were sealed."""
        state = self._catalog.find_retained_or_gone(number)
        if state is None:
            self._catalog.closings.forget(ledger, number)
            return 0
        if self._catalog.boards.find_by_number(number) is not None:
            return await self._sealing.seal_board(state.board.name)
        sealed = await self._sealing.settle_gone(state)
        if await self._sealing.is_settled(state):
            await self._catalog.remove_settled(state)
        return sealed

    def _has_failed(self, ledger: str) -> bool:
        """Return whether sealing into a ledger has failed a short time ago."""
        failed = self._failed.get(ledger)
        return failed is not None and self._elapsed_ns() - failed[0] < RETRY_NS

    def _note_failure(self, ledger: str, number: int, error: LaurelsError) -> None:
        self._failed[ledger] = self._elapsed_ns(), number
        state = self._catalog.find_retained_or_gone(number)
        _log.warning(
            "closed periods of the board %s could not be sealed and will be tried again: %s",
            number if state is None else quoted(state.board.name),
            error,
        )


def _after(numbers: Iterable[int], last: int) -> list[int]:
    """Return the numbers in ascending order, but those up to `last` after all others. So the board
    `last`, which could not be sealed at the previous attempt, comes last at the next one."""
    return sorted(numbers, key=lambda number: (number <= last, number))
