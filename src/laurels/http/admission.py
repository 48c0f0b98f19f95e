"""What a request from an address costs before anybody knows whose it is."""

from collections.abc import Callable

from granian.rsgi import Scope

from .client_address import ClientAddresses, address_block
from .limits import Rates
from .settings import Settings

_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE = 10.0, 100
"""A key that is unknown may be new: where others share the keys, each is looked for anew."""


class Admission:
    """Limits by the address of the client, an IPv6 /64 as one: of all requests (`address_rate`),
    and of those with an unknown key. It is asked before authentication; what it remembers is
    bounded. `clock` tells seconds. Raises InvalidSettings."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._addresses = ClientAddresses(settings.trusted_proxy, settings.forwarded_header)
        self._is_limited = settings.address_rate > 0
        self._requests = Rates(settings.address_rate, 0, clock)
        self._wrong_keys = Rates(_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE, clock)

    def client(self, scope: Scope) -> str:
        """The address of the client of a request."""
        return self._addresses.of(scope.client, scope.headers)

    def take_request(self, scope: Scope) -> None:
        """Count a request. Raise TooManyRequests."""
        if self._is_limited:
            self._requests.take(address_block(self.client(scope)), None)

    def take_wrong_key(self, scope: Scope) -> None:
        """Count a request with an unknown key. Raise TooManyRequests."""
        self._wrong_keys.take(address_block(self.client(scope)), None)
