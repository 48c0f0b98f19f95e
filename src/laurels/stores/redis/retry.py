"""Repeats calls whose outcome is unknown.

A call whose connection is lost, or that is not answered in time, may or may not have been carried
out. It is repeated with the same id (`CallId`): if it was carried out, the index returns the first
answer again and counts nothing. If the outcome is still unknown after the repeats, the error says
that the write may have counted. The caller can then repeat the write safely only if its events have
ids.

A call that was certainly not carried out is not repeated here, but the caller may repeat it.
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
"""A call may be repeated for this number of seconds after its first attempt. The module `deadline`
bounds the whole verb."""
PAUSES = (0.05, 0.1, 0.2, 0.4)
"""The pauses before the repeats, in seconds; the last pause is used for all further repeats."""

T = TypeVar("T")
P = ParamSpec("P")


class Calls:
    """Makes the ids of a process's calls. The `token` of the process makes them unique."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._numbers: dict[int, int] = {}

    def next(self, board: int) -> "Attempts":
        """Return the attempts for the next call for a board. The calls for a board have to be made
        one after the other, since the index remembers only the last call."""
        number = self._numbers[board] = self._numbers.get(board, 0) + 1
        return Attempts(CallId(self._token, number))


class Attempts:
    """The attempts of one call. They all have the same id, even if the call is planned again."""

    def __init__(self, id: CallId) -> None:
        self._id = id
        self._doubtful = False
        self._counted: str | None = None
        self._latest: float | None = None

    async def answer(self, make: Callable[..., Awaitable[T]]) -> T:
        """Return the result of `make(call=id)`. While the outcome is unknown, call `make` again.

        Raises the errors of the call. IndexUnavailable says whether any attempt may have counted.
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
        """If an attempt may have counted, make errors raised in this context say so. If a part has
        certainly counted, raise PartlyCounted instead."""
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
    """If a part of the write has already been `counted`, make errors raised in this context say
    that the write may have counted. Otherwise leave errors as they are."""
    try:
        yield
    except LaurelsError as error:
        if not counted or isinstance(error, PartlyCounted):
            raise
        if getattr(error, "may_have_applied", False):
            raise
        _raise_doubtful(error, ", after a part of the batch was counted")


def read_only(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a coroutine function that changes nothing. Its errors then never say that the call may
    have been carried out."""

    @wraps(method)
    async def read(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except IndexUnavailable as error:
            error.note_read_only()
            raise

    return read


def _raise_doubtful(error: LaurelsError, addition: str = "") -> NoReturn:
    """Raise an error that says that the write may have counted. If `error` can say so, raise
    `error` itself. Otherwise raise another error, with `error` as its cause."""
    if isinstance(error, IndexUnavailable):
        error.may_have_applied = True
        error.what += addition
        raise error
    raise IndexUnavailable(error.what + addition, may_have_applied=True) from error
