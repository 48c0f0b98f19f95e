"""Choose the event loop that reads the answers of the client library (valkey-glide).

All clients of a process share one pipe for their answers, and the loop that made the first client
reads it for all of them. The library cannot transfer the reading to another loop: when that loop
ends, the calls of all other clients time out, and the next new client discards what is in the pipe.
So this module transfers it, through the module attributes in which the library keeps the reader.
Nothing is read from the pipe meanwhile, so no answer is lost. With a version of the library that
keeps the reader elsewhere, `tests/redis/test_answers.py` fails, and this module has no effect.
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
    """Let the running loop `loop` read the answers, unless another running loop does."""
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
    """Let another loop read the answers, if `loop` reads them and has no client left; called on
    `loop`."""
    if not _CAN or _state._async_pipe_loop is not loop:
        return
    loops = {client._loop for client in list(_state._client_registry.values())} - {None}
    if loop in loops or not loops:
        return
    with _state._async_pipe_lock:
        if _state._async_pipe_loop is not loop:
            return
        _stop_reading(loop, _state._async_pipe_read_fd)
    for other in loops:  # the first one that is running reads for all
        with suppress(RuntimeError):  # the loop is closed
            other.call_soon_threadsafe(ensure_read, other)


def _stop_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    with suppress(RuntimeError):  # the loop is closed, and reads nothing any more
        loop.remove_reader(pipe)
    _state._async_pipe_loop, _state._async_pipe_registered = None, False


def _start_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    loop.add_reader(pipe, _state._on_async_pipe_readable)
    _state._async_pipe_loop, _state._async_pipe_registered = loop, True
