"""The window with decay. Pure."""

from typing import ClassVar

from .bases import Endless
from .weighing import Weighing


class Decay(Endless, frozen=True):
    """The window in which every event counts for ever, with a value that halves every half-life."""

    half_life_ms: int

    holds_totals: ClassVar[bool] = False

    @property
    def weighing(self) -> Weighing:
        """The weights of events."""
        return Weighing(self.half_life_ms)
