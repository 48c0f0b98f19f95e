"""Send an answer while it is computed, as in exports and live feeds."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from granian.rsgi import HTTPProtocol, ProtocolClosed  # type: ignore[attr-defined]
from msgspec import Struct

from laurels.server.requests.context import Streamed
from laurels.server.requests.cors import Headers
from laurels.server.requests.deadlines import Deadlines

from .flow import Flow


class Reader(Struct, frozen=True):
    """The client of a stream: its connection, and the handling of a client that stops reading."""

    flow: Flow
    deadlines: Deadlines
    stall_seconds: float
    count_cut_off: Callable[[], object]


async def send_stream(
    answered: Streamed, headers: Headers, reader: Reader, protocol: HTTPProtocol
) -> None:
    """Send an answer part by part, until its end or until the client disconnects.

    A client that reads nothing for `stall_seconds` while a part is being sent is disconnected.
    """
    task = asyncio.current_task()
    assert task is not None
    with _until_gone(protocol, task) as is_gone:
        transport = protocol.response_stream(200, headers)
        parts, flow = answered.parts, reader.flow
        try:
            async for part in parts:
                reader.deadlines.set(task, reader.stall_seconds)
                await transport.send_bytes(part)
                async for _ in flow.taken_after(len(part)):
                    reader.deadlines.set(task, reader.stall_seconds)
                reader.deadlines.remove(task)
        except ProtocolClosed:
            pass
        except asyncio.CancelledError:
            if is_gone():
                return
            await flow.cut()
            if not reader.deadlines.has_expired(task):
                raise
            reader.count_cut_off()
        finally:
            reader.deadlines.remove(task)
            await parts.aclose()


@contextmanager
def _until_gone(protocol: HTTPProtocol, task: asyncio.Task[object]) -> Iterator[Callable[[], bool]]:
    """Cancel the task when the client disconnects. Yield a function that returns whether the client
    has disconnected."""
    gone = asyncio.ensure_future(protocol.client_disconnect())
    gone.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield gone.done
    finally:
        gone.cancel()
