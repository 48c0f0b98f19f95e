"""Pacing: what prepares rolling windows for their next step while an event loop runs.

A pass over a million members is done in shares of some thousands, each in a thread and under the
lock for about two milliseconds, spread over half of the time to the next boundary. Nothing depends
on it: whoever comes first after a boundary does what is left. So are rankings built that are
refreshed, over half of their interval, and due refreshes written that no commit takes along.
"""

import asyncio
import weakref
from contextlib import suppress
from typing import Protocol

from laurels.errors import Closed, Forked, LaurelsError
from laurels.stores.intake.shares import SHARE

IDLE_S = 0.25
LONGEST_S = 0.05


class Paced(Protocol):
    """A store in which time makes work due."""

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of what time has made due; return what is left, and the milliseconds until
        there is more. Blocks."""


async def pace(reference: "weakref.ref[Paced]") -> None:
    """See to the passes of a service for as long as somebody holds it and it is usable."""
    with suppress(LaurelsError):
        while (service := reference()) is not None:
            try:
                left, until_ms = await asyncio.to_thread(service.pace, SHARE)
            except (Closed, Forked):
                raise
            except LaurelsError:  # an index server that is away, say
                left, until_ms = 0, 0
            del service
            await asyncio.sleep(pause_s(left, until_ms))


def pause_s(left: int, until_ms: int) -> float:
    """Seconds to wait before the next share, with so many members left to do until a boundary."""
    if not left:
        return IDLE_S
    shares = 1 + left // SHARE
    return min(LONGEST_S, until_ms / 2_000 / shares)
