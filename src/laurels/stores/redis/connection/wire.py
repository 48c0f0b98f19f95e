"""A wrapper of the client library, valkey-glide, which only this module and `answers` import.

A client connects at its first call, and again after a lost connection. It follows slots of a
cluster that have moved, and raises the errors of `errors`.

After a failover of a single server to its replica, the library does not connect to the new primary.
So for an address of several hosts there is a client for each host, which only connects if the host
is a primary. The client that succeeds is used until it fails; then all hosts are tried again.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import glide
import msgspec

from laurels.errors import Closed, LaurelsError, UnknownUrl
from laurels.errors.index_server import IndexDenied, IndexUnavailable

from .answers import ensure_read, hand_over
from .errors import DENIED_WORDS, NO_SCRIPT, error_of, is_lost, unanswered, word_of
from .urls import RedisAddress

Client: TypeAlias = glide.GlideClient | glide.GlideClusterClient

CLIENT_NAME = "laurels"
"""The name of the connections in CLIENT LIST."""

_IN_FLIGHT = 10_000
_AGAIN = glide.BackoffStrategy(num_of_retries=4, factor=50, exponent_base=2)
"""The delays between attempts to reach a lost server: 50 ms at first, and at most 0.8 s."""
_OTHERS_SECONDS = 0.1
"""After one host has answered that it is a primary, how many seconds to wait for the answers of the
other hosts. If another host is a primary, too, neither is used."""


class NoScript(Exception):  # noqa: N818 (names the state)
    """The server does not know the script."""


class ServerClient:
    """A client of the library for one address, with its errors translated."""

    def __init__(self, client: Client | None, address: RedisAddress, timeout_ms: int) -> None:
        self._client = client
        self._address = address
        self._timeout_ms = timeout_ms
        self._has_replicas = client is None
        self._search: asyncio.Task[Client] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    async def open(cls, address: RedisAddress, timeout_ms: int) -> Self:
        """Return a client that is not connected yet, since connecting here would block the loop."""
        several = len(address.hosts) > 1 and not address.cluster
        client = None if several else await _client(address, timeout_ms)
        return cls(client, address, timeout_ms)

    async def send(self, parts: Sequence[bytes], slot: int | None = None) -> Any:
        """Send a command. In a cluster it goes to the primary that owns `slot`; if `slot` is None,
        the library chooses the node by the key in the command. Raises NoScript and the errors of
        `errors`."""
        route = None if slot is None else glide.SlotIdRoute(glide.SlotType.PRIMARY, slot)
        return await self._send(parts, route)

    async def send_to_primaries(self, *parts: bytes) -> dict[str, Any]:
        """Return the answer of every primary, by its address."""
        if not self._address.cluster:
            return {str(self._address): await self._send(parts, None)}
        answers: dict[bytes, Any] = await self._send(parts, glide.AllPrimaries())
        return {place.decode(): answer for place, answer in answers.items()}

    async def take_answers_over(self) -> None:
        """Make this loop the reader of answers if no other running loop is the reader. In every
        version of valkey-glide, making a client does this, even if the client does not connect."""
        await (await _client(self._address, self._timeout_ms)).close()

    async def close(self) -> None:
        self._closed = True
        for task in [*self._closing, *([self._search] if self._search else [])]:
            task.cancel()
            await asyncio.wait([task])
        if self._client is not None:
            await self._client.close()
        hand_over(asyncio.get_running_loop())

    async def _send(self, parts: Sequence[bytes], route: glide.Route | None) -> Any:
        client = self._client or await self._primary()
        ensure_read(asyncio.get_running_loop())
        try:
            if isinstance(client, glide.GlideClient):
                return await client.custom_command(list(parts))
            return await client.custom_command(list(parts), route)
        except glide.GlideError as error:
            reported = self._error(error)
            if self._has_replicas and is_lost(reported, str(error)):
                self._abandon(client)
            raise reported from error

    def _error(self, error: glide.GlideError) -> Exception:
        place = str(self._address)
        if isinstance(error, glide.TimeoutError):
            return unanswered(place, f"within {self._timeout_ms} ms")
        if isinstance(error, glide.ClosingError):
            if self._has_replicas and not self._closed:
                return unanswered(place, "the connection was closed after an error")
            return Closed("the connection to the index server is closed")
        if word_of(str(error)) == NO_SCRIPT:
            return NoScript()
        return error_of(str(error), place)

    # The search for the primary among several hosts

    async def _primary(self) -> Client:
        """Return a client of the host that is the current primary. Concurrent callers share one
        search for it."""
        if self._search is None:
            self._search = asyncio.create_task(self._search_primary())
            self._search.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._search)

    async def _search_primary(self) -> Client:
        try:
            self._client = await _primary_of(self._address, self._timeout_ms)
            return self._client
        finally:
            self._search = None

    def _abandon(self, client: Client) -> None:
        """Stop using a client, and close it later, when its calls have had time to finish."""
        if self._client is not client:
            return
        self._client = None
        task = asyncio.create_task(self._close_later(client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_later(self, client: Client) -> None:
        try:
            await asyncio.sleep(self._timeout_ms / 1_000)
        finally:
            await client.close()


async def _primary_of(address: RedisAddress, timeout_ms: int) -> Client:
    """Return a client of the only host that is a primary.

    Raises IndexUnavailable if there is none or more than one, and IndexDenied.
    """
    hosts = [msgspec.structs.replace(address, hosts=(host,)) for host in address.hosts]
    clients = [await _client(host, timeout_ms) for host in hosts]
    probes = [asyncio.create_task(_probe(client)) for client in clients]
    chosen = None
    try:
        await _wait_for_primary(probes, timeout_ms / 1_000 * 0.8)
        answers = [probe.result() for probe in probes if probe.done()]
        primaries = [
            client
            for client, probe in zip(clients, probes, strict=True)
            if probe.done() and not probe.result()
        ]
        if len(primaries) != 1:
            raise _no_single_primary(address, len(primaries), [each for each in answers if each])
        chosen = primaries[0]
        return chosen
    finally:
        for client, probe in zip(clients, probes, strict=True):
            probe.cancel()
            if client is not chosen:
                await client.close()


async def _wait_for_primary(probes: Sequence["asyncio.Task[str]"], seconds: float) -> None:
    """Wait until one host has reported that it is a primary, and then a short time for the other
    hosts."""
    results = iter(asyncio.as_completed(probes, timeout=seconds))
    try:
        for answer in results:
            if await answer == "":
                await asyncio.wait(probes, timeout=_OTHERS_SECONDS)
                return
    except TimeoutError:
        return


async def _probe(client: Client) -> str:
    """Return the reason why a host cannot be used; "" for a primary. The library connects only to
    primaries."""
    try:
        await client.custom_command([b"ROLE"])
    except glide.GlideError as error:
        return str(error) or type(error).__name__
    return ""


def _retrieve_error(search: "asyncio.Task[Client]") -> None:
    """Retrieve the error of a search for the primary, so that asyncio does not report it if all
    callers were cancelled."""
    if not search.cancelled():
        search.exception()


def _no_single_primary(
    address: RedisAddress, primaries: int, errors: Sequence[str]
) -> LaurelsError:
    if primaries:
        return IndexUnavailable(
            f"{primaries} hosts of {address} are primaries: make all but one a replica"
        )
    if any(word in each for each in errors for word in DENIED_WORDS):
        return IndexDenied(f"{address} rejects the user or the password")
    return IndexUnavailable(f"no host of {address} is a primary that answers")


# Settings of the client library


def _client(address: RedisAddress, timeout_ms: int) -> Coroutine[Any, Any, Client]:
    glide.Logger.init(glide.LogLevel.OFF)
    settings: dict[str, Any] = {
        "addresses": [glide.NodeAddress(host.name, host.port) for host in address.hosts],
        "use_tls": address.tls,
        "credentials": _credentials(address),
        "request_timeout": timeout_ms,
        "reconnect_strategy": _AGAIN,
        "client_name": CLIENT_NAME,
        "inflight_requests_limit": _IN_FLIGHT,
        "lazy_connect": True,
    }
    tls = _trusted(address)
    if address.cluster:
        many = glide.AdvancedGlideClusterClientConfiguration(timeout_ms, tls)
        cluster = glide.GlideClusterClientConfiguration(**settings, advanced_config=many)
        return glide.GlideClusterClient.create(cluster)
    one = glide.AdvancedGlideClientConfiguration(timeout_ms, tls)
    single = glide.GlideClientConfiguration(
        **settings, database_id=address.database, advanced_config=one
    )
    return glide.GlideClient.create(single)


def _credentials(address: RedisAddress) -> glide.ServerCredentials | None:
    if address.password is None:
        return None
    return glide.ServerCredentials(password=address.password, username=address.user)


def _trusted(address: RedisAddress) -> glide.TlsAdvancedConfiguration | None:
    if address.authorities is None:
        return None
    try:
        certificates = Path(address.authorities).read_bytes()
    except OSError as error:
        raise UnknownUrl(f"the certificates to trust cannot be read ({error.strerror})") from error
    return glide.TlsAdvancedConfiguration(root_pem_cacerts=certificates or None)
