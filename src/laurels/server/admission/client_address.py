"""Find the address of a client: the address of its connection, or the address that a trusted proxy
reports in a header.

Any client can send such a header. So the header is read only if the connection comes from a trusted
proxy, and only the header that this proxy is known to write. The addresses in the header are read
from the end. Each trusted proxy appends the address of its peer, so the right-most address that is
not of a trusted proxy is the client. To the left of this address, the client itself may have
written anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Protocol

from laurels.errors.service import InvalidSettings
from laurels.model.validation import safe_repr

X_FORWARDED_FOR, FORWARDED = "x-forwarded-for", "forwarded"
_MOST_HOPS = 64
_V6_PREFIX_BYTES = 8
"""The length in bytes of the prefix of a /64 network. One subscriber of an IPv6 network has all
addresses with one such prefix."""

Address = IPv4Address | IPv6Address


class RequestHeaders(Protocol):
    """The protocol of the headers of a request."""

    def items(self) -> list[tuple[str, str]]: ...


class ClientAddresses:
    """Finds the client address of a request. `trusted` has the addresses or networks (CIDR) of
    proxies, `header` is the header that they append to. Raises InvalidSettings for an item that is
    not an address or a network."""

    def __init__(self, trusted: Sequence[str], header: str = X_FORWARDED_FOR) -> None:
        self._trusted = [_network(each) for each in trusted]
        self._hops = _hops_of_forwarded if header == FORWARDED else _hops_of_list
        self._header = header

    def of(self, client: str, headers: RequestHeaders) -> str:
        """Return the client's address without a port. `client` is the peer of the connection, as
        `ip:port`."""
        peer = client.rpartition(":")[0].strip("[]")
        if not self._trusted:
            return peer
        nearest = _address(peer)
        if nearest is None or not self._is_trusted(nearest):
            return peer
        for hop in self._reported(headers):
            address = _address(hop)
            if address is None:
                break  # no address: the hop that reported it counts as the client
            nearest = address
            if not self._is_trusted(address):
                break
        return str(nearest)

    def is_proxy(self, address: str) -> bool:
        """Return whether connections from an address come from a trusted proxy."""
        parsed = _address(address) if self._trusted else None
        return parsed is not None and self._is_trusted(parsed)

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)

    def _reported(self, headers: RequestHeaders) -> Iterator[str]:
        """Return the hops in the header, from last to first."""
        lines = [value for name, value in headers.items() if name == self._header]
        hops = self._hops(",".join(lines))
        yield from hops[: -_MOST_HOPS - 1 : -1]


def address_block(address: str) -> str:
    """Return the block of addresses that is limited as one client. It is an IPv4 address, or the
    /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    parsed = _address(address)
    if not isinstance(parsed, IPv6Address):
        return address if parsed is None else str(parsed)
    prefix = parsed.packed[:_V6_PREFIX_BYTES]
    return f"{IPv6Address(prefix + bytes(16 - len(prefix)))}/{8 * _V6_PREFIX_BYTES}"


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise InvalidSettings(
            "expected an address or a network such as 10.0.0.0/8 for trusted_proxy, got "
            f"{safe_repr(text)}"
        ) from error


def _address(text: str) -> Address | None:
    """Return the address in a text, in any form that headers use; None for other text. An IPv4
    address mapped into IPv6 becomes the IPv4 address."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    if "%" in text:  # an IPv6 address with a zone, which may be any text
        return None
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return parsed if mapped is None else mapped


def _hops_of_list(header: str) -> list[str]:
    """Return the hops of `X-Forwarded-For: client, proxy`."""
    return [hop.strip() for hop in header.split(",")] if header else []


def _hops_of_forwarded(header: str) -> list[str]:
    """Return the hops of `Forwarded: for=client;proto=https, for="[2001:db8::1]:4711"` (RFC
    7239)."""
    return [_for(element.split(";")) for element in header.split(",")] if header else []


def _for(parameters: Iterable[str]) -> str:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""
