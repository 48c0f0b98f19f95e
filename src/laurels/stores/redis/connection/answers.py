"""Chooses the event loop that reads the answers for the client library (valkey-glide).

All clients of a process share one pipe for their answers, and the loop that made the first client
reads the pipe for all of them. The library never changes the reading loop: when this loop ends, the
calls of all other clients time out, and the next new client discards the content of the pipe. So
this module makes another loop the reader, through the module attributes in which the library stores
the reader. Nothing is read from the pipe during the change, so no answer is lost. If a version of
the library stores the reader elsewhere, `tests/redis/test_answers.py` fails, and this module has no
effect.
"""

import asyncio
from contextlib import suppress
from typing import Any

import glide.glide_client as library

_ATTRIBUTES = (
    "_async_pipe_lock",
    "_async_pipe_loop",
    "_async_pipe_read_fd",
    "_async_pipe_registered",
    "_client_registry",
    "_on_async_pipe_readable",
)
_state: Any = library


def can_hand_over() -> bool:
    """Return whether the library stores the reader in the attributes that this module uses."""
    return all(hasattr(library, name) for name in _ATTRIBUTES)


_CAN_HAND_OVER = can_hand_over()


def ensure_read(loop: asyncio.AbstractEventLoop) -> None:
    """Make the running loop `loop` the reader of answers. Do nothing if another running loop is the
    reader."""
    if _CAN_HAND_OVER:
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
    """Make another loop the reader of answers if `loop` is the reader and no client runs on `loop`
    any more. Must be called on `loop`."""
    if not _CAN_HAND_OVER or _state._async_pipe_loop is not loop:
        return
    loops = {client._loop for client in list(_state._client_registry.values())} - {None}
    if loop in loops or not loops:
        return
    with _state._async_pipe_lock:
        if _state._async_pipe_loop is not loop:
            return
        _stop_reading(loop, _state._async_pipe_read_fd)
    for other in loops:  # the first running loop becomes the reader
        with suppress(RuntimeError):  # the loop is closed
            other.call_soon_threadsafe(ensure_read, other)


def _stop_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    with suppress(RuntimeError):  # the loop is closed, and reads nothing any more
        loop.remove_reader(pipe)
    _state._async_pipe_loop, _state._async_pipe_registered = None, False


def _start_reading(loop: asyncio.AbstractEventLoop, pipe: int) -> None:
    loop.add_reader(pipe, _state._on_async_pipe_readable)
    _state._async_pipe_loop, _state._async_pipe_registered = loop, True
