"""Deadlines: each bounds the time of all calls that one verb makes.

A verb may need several successive calls to the server: it may have to rotate a window first, to ask
again for an answer that was lost, or to repeat a call with a new plan. Each call has a time limit
of its own; the deadline bounds all of them together. The deadline is a context variable, so the
tasks that a verb starts share it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from math import inf

VERB_SECONDS = 4.5
"""The time limit, in seconds, of a read or of counting a batch, for all calls together."""
UPKEEP_SECONDS = 2.0
"""The time limit, in seconds, of the due work that a write does after it has counted."""

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def ends_in(seconds: float, *, anew: bool = False) -> Iterator[None]:
    """Bound all calls in this context by a deadline in `seconds`, or by the existing deadline if
    that is earlier. With `anew` the existing deadline is ignored, for a verb that has made
    progress."""
    with ends_at(asyncio.get_running_loop().time() + seconds, anew=anew):
        yield


@contextmanager
def ends_at(deadline: float, *, anew: bool = False) -> Iterator[None]:
    """Bound all calls in this context by a deadline, given as an instant of the running loop's
    clock."""
    outer = _deadline.get()
    token = _deadline.set(deadline if anew or outer is None else min(outer, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)


def latest(contexts: Iterable[Context]) -> Context:
    """Return the context with the latest deadline. A context without a deadline counts as the
    latest."""
    return max(contexts, key=_deadline_in)


def _deadline_in(context: Context) -> float:
    deadline = context.get(_deadline)
    return inf if deadline is None else deadline


def seconds_left(most: float) -> float:
    """Return the time limit of a call in seconds: the time left until the deadline, but at most
    `most`. A limit of 0 or less means that the deadline has passed."""
    deadline = _deadline.get()
    return most if deadline is None else min(most, deadline - asyncio.get_running_loop().time())
