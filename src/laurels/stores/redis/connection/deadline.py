"""When the calls that belong to one verb must have ended.

A verb may take several calls to the server, one after the other: it is planned again, a window is
turned, a lost answer is asked for again. Each call has a time limit of its own; the deadline bounds
all of them. It goes with the context, so tasks that a verb starts share it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VERB_SECONDS = 4.5
"""How long a read, or a call that counts, may take with all that it needs."""
UPKEEP_SECONDS = 2.0
"""How long a write may take for what is done after it has counted."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_in(seconds: float, *, anew: bool = False) -> Iterator[None]:
    """Have all calls within end after so many seconds, or at the deadline there is if that is
    sooner; `anew` drops that one, where the verb has made progress."""
    with ends_at(asyncio.get_running_loop().time() + seconds, anew=anew):
        yield


@contextmanager
def ends_at(deadline: float, *, anew: bool = False) -> Iterator[None]:
    """The same for an instant of the running loop's clock."""
    outer = _deadline.get()
    token = _deadline.set(deadline if anew or outer is None else min(outer, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(most: float) -> float:
    """Return how long a call may take that by itself may take `most`; not above 0 where it is too
    late."""
    deadline = _deadline.get()
    return most if deadline is None else min(most, deadline - asyncio.get_running_loop().time())
