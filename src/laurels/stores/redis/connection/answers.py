"""Choose the event loop that reads the answers of the client library (valkey-glide).

All clients of a process share one pipe for their answers, and the loop that made the first client
reads it for all of them. The library has no way to hand that over: when the loop ends, all other
clients wait until their calls time out, and the next client made discards what is in the pipe. So
the reading is handed over here, through the module attributes in which the library keeps it.
Nothing is read from the pipe meanwhile, so no answer is lost. `tests/redis/test_answers.py` fails
with a version of the library that keeps it elsewhere; until that is fixed, such a version behaves
as it does without this module.
"""

import asyncio
from contextlib import suppress
from typing import Any

import glide.glide_client as library

_USED = (
    "_async_pipe_lock",
    "_async_pipe_loop",
    "_async_pipe_read_fd",
    "_async_pipe_registered",
    "_client_registry",
    "_on_async_pipe_readable",
)
_state: Any = library


def can_hand_over() -> bool:
    """Return whether this version of the library keeps the reader where it is expected."""
    return all(hasattr(library, name) for name in _USED)


_CAN = can_hand_over()


def ensure_read(loop: asyncio.AbstractEventLoop) -> None:
    """Have `loop`, which runs, read the answers if no other running loop does."""
    if _CAN:
        reader = _state._async_pipe_loop
        if reader is not loop and (reader is None or not reader.is_running()):
            _take_over(loop)


def _take_over(loop: asyncio.AbstractEventLoop) -> None:
    with _state._async_pipe_lock:
        reader, pipe = _state._async_pipe_loop, _state._async_pipe_read_fd
        if pipe < 0 or (reader is not None and reader.is_running()):
            return
        if reader is not None:
            _stop_reading(reader, pipe)
        _start_reading(loop, pipe)


def hand_over(loop: asyncio.AbstractEventLoop) -> None:
    """Have another loop read the answers, if `loop`, on which this is called, does so and have no
    client left."""
    if not _CAN or _state._async_pipe_loop is not loop:
        return
    heirs = {client._loop for client in list(_state._client_registry.values())} - {None}
    if loop in heirs or not heirs:
        return
    with _state._async_pipe_lock:
        if _state._async_pipe_loop is not loop:
            return
        _stop_reading(loop, _state._async_pipe_read_fd)
    for heir in heirs:  # the first that runs reads for all
        with suppress(RuntimeError):  # it is closed
            heir.call_soon_threadsafe(ensure_read, heir)


def _stop_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    with suppress(RuntimeError):  # it is closed, and reads nothing any more
        loop.remove_reader(pipe)
    _state._async_pipe_loop, _state._async_pipe_registered = None, False


def _start_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    loop.add_reader(pipe, _state._on_async_pipe_readable)
    _state._async_pipe_loop, _state._async_pipe_registered = loop, True
