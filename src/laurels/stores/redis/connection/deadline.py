"""Deadlines for the calls that belong to one verb.

A verb may need several calls to the server, one after the other: to plan again, to rotate a window,
to request a lost answer again. Each call has a time limit of its own; the deadline bounds all of
them together. It is a context variable, so the tasks that a verb starts share it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VERB_SECONDS = 4.5
"""Time limit of a read, or of counting a batch, including all calls it needs."""
UPKEEP_SECONDS = 2.0
"""Time limit of the work that a write does after it has counted."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_in(seconds: float, *, anew: bool = False) -> Iterator[None]:
    """Bound all calls inside by a deadline in `seconds`, or by the existing deadline if that is
    sooner. With `anew` the existing one is ignored, because the verb has made progress."""
    with ends_at(asyncio.get_running_loop().time() + seconds, anew=anew):
        yield


@contextmanager
def ends_at(deadline: float, *, anew: bool = False) -> Iterator[None]:
    """Set the deadline to an instant of the running loop's clock."""
    outer = _deadline.get()
    token = _deadline.set(deadline if anew or outer is None else min(outer, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(most: float) -> float:
    """Return the time limit of a call whose own limit is `most`; 0 or less when the deadline has
    passed."""
    deadline = _deadline.get()
    return most if deadline is None else min(most, deadline - asyncio.get_running_loop().time())
