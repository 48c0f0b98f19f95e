"""The client library (valkey-glide) as it is used here: the one file that needs it installed.

It connects at its first call and again after a cut, follows a cluster that moves slots, and hands
over what it raises as errors of `failures`.

The library delivers the answers of all clients of a process through the event loop that made the
first of them. When that loop is closed while others go on, nobody reads the answers any more:
`take_answers_over` has this loop read them.
"""

from collections.abc import Sequence
from typing import Any, NoReturn, Self, TypeAlias

import glide

from laurels.errors import Closed

from .refusals import NO_SCRIPT, error_of, unanswered, word_of
from .urls import RedisAddress

Client: TypeAlias = glide.GlideClient | glide.GlideClusterClient

CLIENT_NAME = "laurels"
"""What CLIENT LIST calls the connections."""

_IN_FLIGHT = 10_000
_AGAIN = glide.BackoffStrategy(num_of_retries=4, factor=50, exponent_base=2)
"""How soon a lost server is tried again: after 50 ms, and at least every 0.8 s."""


class NoScript(Exception):  # noqa: N818 (says what there is not)
    """The server does not know the script."""


class Wire:
    """A client of the library, and how it is asked."""

    def __init__(self, client: Client, address: RedisAddress, timeout_ms: int) -> None:
        self._client = client
        self._address = address
        self._timeout_ms = timeout_ms

    @classmethod
    async def open(cls, address: RedisAddress, timeout_ms: int) -> Self:
        """Nothing is sent yet: connecting at once would hold up the loop."""
        return cls(await _client(address, timeout_ms), address, timeout_ms)

    async def send(self, parts: Sequence[bytes], slot: int | None = None) -> Any:
        """Sends a command: in a cluster to the primary that owns the slot; without one to where
        the key in the command says. Raises NoScript and the errors of `failures`."""
        route = None if slot is None else glide.SlotIdRoute(glide.SlotType.PRIMARY, slot)
        return await self._sent(parts, route)

    async def send_to_primaries(self, *parts: bytes) -> dict[str, Any]:
        """The answer of every primary, by its address."""
        if isinstance(self._client, glide.GlideClient):
            return {str(self._address): await self._sent(parts, None)}
        found: dict[bytes, Any] = await self._sent(parts, glide.AllPrimaries())
        return {place.decode(): answer for place, answer in found.items()}

    async def take_answers_over(self) -> None:
        """Making a client has its loop read the answers, if nobody else does; it need not
        connect."""
        await (await _client(self._address, self._timeout_ms)).close()

    async def close(self) -> None:
        await self._client.close()

    async def _sent(self, parts: Sequence[bytes], route: glide.Route | None) -> Any:
        try:
            if isinstance(self._client, glide.GlideClient):
                return await self._client.custom_command(list(parts))
            return await self._client.custom_command(list(parts), route)
        except glide.GlideError as error:
            self._refuse(error)

    def _refuse(self, error: glide.GlideError) -> NoReturn:
        place = str(self._address)
        if isinstance(error, glide.TimeoutError):
            raise unanswered(place, f"within {self._timeout_ms} ms") from error
        if isinstance(error, glide.ClosingError):
            raise Closed("the connection to the index server is closed") from error
        if word_of(str(error)) == NO_SCRIPT:
            raise NoScript from error
        raise error_of(str(error), place) from error


async def _client(address: RedisAddress, timeout_ms: int) -> Client:
    glide.Logger.init(glide.LogLevel.OFF)
    given: dict[str, Any] = {
        "addresses": [glide.NodeAddress(host.name, host.port) for host in address.hosts],
        "use_tls": address.tls,
        "credentials": _credentials(address),
        "request_timeout": timeout_ms,
        "reconnect_strategy": _AGAIN,
        "client_name": CLIENT_NAME,
        "inflight_requests_limit": _IN_FLIGHT,
        "lazy_connect": True,
    }
    if address.cluster:
        many = glide.AdvancedGlideClusterClientConfiguration(connection_timeout=timeout_ms)
        cluster = glide.GlideClusterClientConfiguration(**given, advanced_config=many)
        return await glide.GlideClusterClient.create(cluster)
    one = glide.AdvancedGlideClientConfiguration(connection_timeout=timeout_ms)
    single = glide.GlideClientConfiguration(
        **given, database_id=address.database, advanced_config=one
    )
    return await glide.GlideClient.create(single)


def _credentials(address: RedisAddress) -> glide.ServerCredentials | None:
    if address.password is None:
        return None
    return glide.ServerCredentials(password=address.password, username=address.user)
