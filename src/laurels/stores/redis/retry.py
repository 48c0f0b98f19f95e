"""Repeat calls whose outcome is unknown.

A call whose connection is cut, or that is not answered in time, may have been carried out or not.
It is repeated under the same id (`CallId`): if it was carried out, the index answers as it did
then, and counts nothing. In most cases that settles it. Where it does not, the error says that the
write may have counted, and only the ids of its events make it safe to repeat.

A call that was certainly not carried out is not repeated here: the caller may do that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import chain, repeat
from typing import Any, NoReturn, ParamSpec, TypeVar

from laurels.errors import LaurelsError, PartlyCounted
from laurels.errors.index_server import IndexUnavailable

from .remote import CallId

REPEATS_SECONDS = 2.5
"""For how long after its first attempt a call is made again; `deadline` says when all ends."""
PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Seconds before each repeat; the last one is used for all further repeats."""

T = TypeVar("T")
P = ParamSpec("P")


class Calls:
    """Ids of the calls of a process, unique by `token`."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._numbers: dict[int, int] = {}

    def next(self, board: int) -> "Attempts":
        """Attempts to make the next call for a board: one after the other, since the index
        remembers the last call only."""
        number = self._numbers[board] = self._numbers.get(board, 0) + 1
        return Attempts(CallId(self._token, number))


class Attempts:
    """Attempts to have one piece of work done, all under one id, however it is planned."""

    def __init__(self, id: CallId) -> None:
        self._id = id
        self._doubtful = False
        self._counted: str | None = None
        self._latest: float | None = None

    async def answer(self, make: Callable[..., Awaitable[T]]) -> T:
        """Return the result of `make(call=id)`, repeated while it may have been carried out
        unanswered.

        Raise what the call raises; IndexUnavailable covers any attempt that may have applied.
        """
        loop = asyncio.get_running_loop()
        if self._latest is None:
            self._latest = loop.time() + REPEATS_SECONDS
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                return await make(call=self._id)
            except IndexUnavailable as error:
                self._doubtful = self._doubtful or error.may_have_applied
                self._counted = error.counted or self._counted
                if not self._doubtful or loop.time() + pause > self._latest:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("pauses do not end")

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Make errors raised within say that an attempt may have applied, if one may; PartlyCounted
        where a part of it certainly has."""
        try:
            yield
        except LaurelsError as error:
            if not self._doubtful or isinstance(error, PartlyCounted):
                raise
            if self._counted is not None:
                raise PartlyCounted(f"{self._counted}; then {error.what}") from error
            _raise_doubtful(error)


@contextmanager
def after(*, counted: bool) -> Iterator[None]:
    """Make errors raised within say that the write may have counted, when a part of it has."""
    try:
        yield
    except LaurelsError as error:
        if not counted or isinstance(error, PartlyCounted):
            raise
        if getattr(error, "may_have_applied", False):
            raise
        _raise_doubtful(error, ", after a part of the batch was counted")


def read_only(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a coroutine function that changes nothing: its errors never say that it may have been
    carried out."""

    @wraps(method)
    async def read(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except IndexUnavailable as error:
            error.clear_doubt()
            raise

    return read


def _raise_doubtful(error: LaurelsError, addition: str = "") -> NoReturn:
    """Raise the same failure of a write that may have been counted; never an error that is its own
    cause."""
    if isinstance(error, IndexUnavailable):
        error.may_have_applied = True
        error.what += addition
        raise error
    raise IndexUnavailable(error.what + addition, may_have_applied=True) from error
