"""Listening addresses: find a free port, share a port among workers, and wait until a port accepts
connections."""

import asyncio
import os
import socket
from typing import Any

from granian.net import SocketSpec  # type: ignore[attr-defined]
from granian.server.embed import Server as Granian
from msgspec import Struct

from laurels.errors.service import AddressInUse, InvalidSettings
from laurels.model.validation import safe_repr

from .settings import Settings


class Order(Struct, frozen=True):
    """The instructions that a worker gets from its parent. `reports` is the file in which the first
    worker stores the state of sinks and sources for the others."""

    number: int
    settings: Settings
    ip: str
    port: int
    admin_key: str | None
    reports: str


class SharedPort(Granian):
    """A server at a port that other processes may share. `listens` says whether the server accepts
    connections.

    After `unread_seconds` the kernel closes the connection of a client that does not read its
    answers.
    """

    _shd: Any = None
    unread_seconds = 0
    """The number of seconds after which the connection of a client that does not read is closed; 0
    means never."""

    def _init_shared_socket(self) -> None:
        self._ssp = None
        self._shd = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
        if self.unread_seconds and hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted connections inherit TCP_USER_TIMEOUT. This timeout also runs while the
            # client's receive window is closed, so it ends connections of clients that do not read.
            with socket.socket(fileno=os.dup(self._shd.get_fd())) as own:
                own.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1_000 * self.unread_seconds
                )

    @property
    def listens(self) -> bool:
        if self._shd is None:
            return False
        with socket.socket(fileno=os.dup(self._shd.get_fd())) as own:
            return bool(own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def free(settings: Settings) -> tuple[str, int]:
    """Return the address to listen on. The port is the configured port if it is free; if 0 is
    configured, any free port. Raises InvalidSettings if the host has no address, and AddressInUse
    if the port cannot be listened on."""
    host, port = settings.host, settings.port
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidSettings(
            f"expected an address for host, got {safe_repr(host)} ({error})"
        ) from error
    family, kind, _, _, address = addresses[0]
    try:
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            return str(address[0]), int(tried.getsockname()[1])
    except OSError as error:
        raise AddressInUse(
            f"{host}:{port} cannot be listened on ({error.strerror or error})"
        ) from error


async def listening(server: Granian, ip: str, port: int, serving: "asyncio.Task[None]") -> None:
    """Wait until the server accepts connections."""
    if isinstance(server, SharedPort):
        while not (serving.done() or server.listens):
            await asyncio.sleep(0.005)
    while not serving.done():
        try:
            _, writer = await asyncio.open_connection(ip, port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            return
    await serving
