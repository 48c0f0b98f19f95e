"""The recent cost of each payer's work, so that the payer with the least is served first."""

from collections.abc import Callable, Iterable

HALF_LIFE_SECONDS = 1.0
_FORGOTTEN = 1.0


class Debts:
    """The cost of the work done for each payer; half of it is forgotten every second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._debts: dict[str, float] = {}
        self._at = clock()

    def least(self, payers: Iterable[str]) -> float:
        """Return the smallest debt of the payers who share some work."""
        return min((self._debts.get(payer, 0.0) for payer in payers), default=0.0)

    def charge(self, payers: Iterable[str], cost: float) -> None:
        """Charge the cost of some work to the one with the smallest debt of the payers who share
        it."""
        owner = min(payers, key=lambda payer: self._debts.get(payer, 0.0), default=None)
        if owner is not None:
            self._debts[owner] = self._debts.get(owner, 0.0) + cost

    def forget(self) -> None:
        """Let all debts decay by the time that has passed. O(payers)."""
        now = self._clock()
        left = 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS)
        self._at = now
        self._debts = {
            payer: debt * left for payer, debt in self._debts.items() if debt * left > _FORGOTTEN
        }
