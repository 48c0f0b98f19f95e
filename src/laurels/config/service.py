"""Opening a store at a laurels service, as its client."""

import asyncio
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import InvalidClock, UnknownUrl
from laurels.model.validation import is_unicode, safe_repr

from .urls import without_key

if TYPE_CHECKING:
    from laurels.stores.http.store import RemoteStore
    from laurels.stores.http.transport import ServiceAddress, Wire

KEY_VARIABLE = "LAURELS_KEY"
"""The variable with the key for a server whose URL has none."""


def remote(
    url: str, clock: object = None, log_keep: object = None, max_clock_step: object = None
) -> Leaderboards:
    """Return `Leaderboards` over a server; nothing is sent yet.

    Raises MissingClient, UnknownUrl, and InvalidClock for an option that only the process with the
    boards can set.
    """
    _ensure_unset(clock, log_keep, max_clock_step)
    return Leaderboards(remote_store(url))


def remote_store(url: str, clock: object = None) -> "RemoteStore":
    """Return the store at a server; nothing is sent yet. Raises the errors of `remote`."""
    _ensure_unset(clock, None, None)
    wire = remote_wire(url)
    from laurels.stores.http.store import RemoteStore  # noqa: PLC0415 (httpx is optional)

    return RemoteStore(wire)


def remote_async(
    url: str, clock: object = None, log_keep: object = None, max_clock_step: object = None
) -> AsyncLeaderboards:
    """Return `AsyncLeaderboards` over a server; nothing is sent yet."""
    _ensure_unset(clock, log_keep, max_clock_step)
    wire = remote_wire(url)
    from laurels.stores.http.store import AsyncRemoteStore  # noqa: PLC0415 (httpx is optional)
    from laurels.stores.http.transport import AsyncWire  # noqa: PLC0415

    return AsyncLeaderboards(
        AsyncRemoteStore(wire, AsyncWire(wire.address, new_key, asyncio.sleep, seen=wire.seen))
    )


def remote_wire(url: str) -> "Wire":
    """Return the connection to a server; nothing is sent yet. Raises MissingClient, UnknownUrl."""
    _ensure_client()
    from laurels.stores.http.transport import Wire  # noqa: PLC0415 (httpx is optional)

    return Wire(_address(url), new_key, time.sleep)


def _ensure_unset(clock: object, log_keep: object, max_clock_step: object) -> None:
    settings = (("clock", clock), ("log_keep", log_keep), ("max_clock_step", max_clock_step))
    for name, value in settings:
        if value is not None:
            raise InvalidClock(
                f"{name} is {safe_repr(value)}, but the server has its own {name}; leave it out"
            )


def _ensure_client() -> None:
    from laurels.errors.client import MissingClient  # noqa: PLC0415 (only a client needs it)

    if find_spec("httpx") is None:
        raise MissingClient("httpx is not installed")


def _address(url: str) -> "ServiceAddress":
    """Return the address of a server and the key for it. The key is the user in the URL, or
    otherwise the value of the environment variable."""
    from laurels.stores.http.transport import ServiceAddress  # noqa: PLC0415 (httpx is optional)

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UnknownUrl(f"expected a URL, got {safe_repr(without_key(url))} ({error})") from error
    if not host or parts.query or parts.fragment or not is_unicode(url):
        raise UnknownUrl(f"expected the address of a server, got {safe_repr(without_key(url))}")
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    key = unquote(parts.username or "") or os.environ.get(KEY_VARIABLE) or None
    return ServiceAddress(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", key)


def new_key() -> str:
    return uuid4().hex
