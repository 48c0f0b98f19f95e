"""Sending an answer while it is made: exports and live feeds."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from granian.rsgi import HTTPProtocol, ProtocolClosed  # type: ignore[attr-defined]

from .asking import Streamed
from .cors import Headers
from .flow import Flow


async def send_stream(
    answered: Streamed, headers: Headers, client: str, protocol: HTTPProtocol
) -> None:
    """Send an answer part by part, until its end or until the client goes; `client` is its
    address."""
    with _until_gone(protocol) as is_gone:
        transport = protocol.response_stream(200, headers)
        parts, flow = answered.parts, Flow(client)
        try:
            async for part in parts:
                await transport.send_bytes(part)
                await flow.room_after(len(part))
        except ProtocolClosed:
            pass
        except asyncio.CancelledError:
            if not is_gone():
                flow.cut()
                raise
        finally:
            await parts.aclose()


@contextmanager
def _until_gone(protocol: HTTPProtocol) -> Iterator[Callable[[], bool]]:
    """Cancel the task when the client goes; yields whether it has gone."""
    task = asyncio.current_task()
    assert task is not None
    gone = asyncio.ensure_future(protocol.client_disconnect())
    gone.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield gone.done
    finally:
        gone.cancel()
