"""Handlers that do nothing: the cost of granian alone, and of falcon on granian.

`python -m bench.http.handlers rsgi|falcon PATH PORT` serves one of them until SIGTERM. The body of
a POST is read. Every answer is the same JSON of 200 bytes.
"""

import asyncio
import signal
import sys
from typing import Any

import falcon.asgi
import uvloop
from falcon.asgi import Request, Response
from granian.constants import Interfaces
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]
from granian.server.embed import Server

ANSWER = b'{"text":"%s"}' % (b"x" * (200 - len('{"text":""}')))
_KIND = "application/json"
_HEADERS = [("content-type", _KIND)]


class Rsgi:
    """A handler for granian's own interface."""

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        if scope.method == "POST":
            await protocol()
        protocol.response_bytes(200, _HEADERS, ANSWER)


class Resource:
    """A handler for falcon."""

    async def on_get(self, _: Request, response: Response) -> None:
        response.content_type = _KIND
        response.data = ANSWER

    async def on_post(self, request: Request, response: Response) -> None:
        await request.stream.read()
        response.content_type = _KIND
        response.data = ANSWER


def _by_falcon(path: str) -> Any:
    application = falcon.asgi.App()
    application.add_route(path, Resource())
    return application


async def _serve(application: object, interface: Interfaces, port: int) -> None:
    server = Server(
        application,
        address="127.0.0.1",
        port=port,
        interface=interface,
        websockets=False,
        log_enabled=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    await server.serve()


if __name__ == "__main__":
    if sys.argv[1] == "rsgi":
        uvloop.run(_serve(Rsgi(), Interfaces.RSGI, int(sys.argv[3])))
    else:
        uvloop.run(_serve(_by_falcon(sys.argv[2]), Interfaces.ASGINL, int(sys.argv[3])))
