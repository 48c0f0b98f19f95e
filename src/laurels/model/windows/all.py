"""The window of all events. Pure."""

from typing import ClassVar

from .bases import Endless
from .weighing import Weighing


class All(Endless, frozen=True):
    """The window in which every event counts for ever."""

    holds_totals: ClassVar[bool] = True
    weighing: ClassVar[Weighing | None] = None
