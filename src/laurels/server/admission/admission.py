"""Limits on requests per client address, checked before authentication."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from granian.rsgi import Scope

from laurels.errors.service import TooManyRequests
from laurels.server.process.settings import Settings

from .client_address import ClientAddresses, address_block
from .limits import Rates

_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE = 10.0, 100
"""The rate limit for requests with an unknown key, per client address: how many a second, and how
many at once. If several processes share the keys, each such request causes a read of the key store,
since another process may have just made the key."""

_UNCOUNTED = nullcontext()


class Admission:
    """Limits per client address; an IPv6 /64 counts as one address.

    The rates of all requests (`address_rate`) and of requests with an unknown key are limited. A
    trusted proxy may open any number of connections; instead, each client behind the proxy may have
    at most `connections_per_address` requests and streams in progress. The limits are checked
    before authentication, and their memory is bounded. `clock` returns seconds. Raises
    InvalidSettings for a trusted proxy that is not an address or a network.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._addresses = ClientAddresses(settings.trusted_proxy, settings.forwarded_header)
        self._most_under_way = settings.connections_per_address
        self._under_way: dict[str, int] = {}
        self._is_limited = settings.address_rate > 0
        self._requests = Rates(settings.address_rate, 0, clock)
        self._wrong_keys = Rates(_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE, clock)

    def client(self, scope: Scope) -> str:
        """Return the client address of a request."""
        return self._addresses.of(scope.client, scope.headers)

    def take_request(self, scope: Scope) -> None:
        """Count a request. Raise TooManyRequests if it exceeds the rate."""
        if self._is_limited:
            self._requests.take(address_block(self.client(scope)), None)

    def under_way(self, scope: Scope) -> AbstractContextManager[None]:
        """Count a request that came through a trusted proxy as in progress until it is answered.
        Raise TooManyRequests if its client has too many in progress."""
        client = self.client(scope)
        if self._addresses.is_proxy(client) or not self._comes_from_proxy(scope):
            return _UNCOUNTED
        return self._counted(address_block(client))

    def _comes_from_proxy(self, scope: Scope) -> bool:
        return self._addresses.is_proxy(scope.client.rpartition(":")[0].strip("[]"))

    @contextmanager
    def _counted(self, block: str) -> Iterator[None]:
        count = self._under_way.get(block, 0)
        if count >= self._most_under_way:
            raise TooManyRequests(f"{count} requests and streams of {block} are in progress")
        self._under_way[block] = count + 1
        try:
            yield
        finally:
            self._under_way[block] -= 1
            if not self._under_way[block]:
                del self._under_way[block]

    def take_wrong_key(self, scope: Scope) -> None:
        """Count a request with an unknown key. Raise TooManyRequests if it exceeds the rate."""
        self._wrong_keys.take(address_block(self.client(scope)), None)
