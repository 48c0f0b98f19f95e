"""The address of a client behind proxies. Clients cannot forge it."""

from __future__ import annotations

import pytest

from laurels.errors.service import InvalidSettings
from laurels.server.admission.client_address import ClientAddresses, address_block

PROXIES = ["10.0.0.0/8", "::1", "2001:db8:ffff::/48"]


class Sent:
    """A request of which only the headers are read."""

    def __init__(self, **headers: str | list[str]) -> None:
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def items(self) -> list[tuple[str, str]]:
        return [
            (name, value)
            for name, values in self._headers.items()
            for value in ([values] if isinstance(values, str) else values)
        ]


def test_without_trusted_proxies_the_peer_is_always_the_client() -> None:
    addresses = ClientAddresses([])
    assert addresses.of("203.0.113.9:4711", Sent(x_forwarded_for="1.2.3.4")) == "203.0.113.9"
    assert addresses.of("[2001:db8::9]:4711", Sent(forwarded="for=1.2.3.4")) == "2001:db8::9"
    assert addresses.of("::1:4711", Sent()) == "::1"


def test_a_header_from_a_peer_that_is_not_trusted_is_ignored() -> None:
    addresses = ClientAddresses(PROXIES)
    assert addresses.of("203.0.113.9:1", Sent(x_forwarded_for="1.2.3.4")) == "203.0.113.9"


@pytest.mark.parametrize(
    ("header", "client"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("6.6.6.6, 198.51.100.7", "198.51.100.7"),  # the client itself has sent the first address
        ("6.6.6.6, 198.51.100.7, 10.1.1.1", "198.51.100.7"),
        ("10.9.9.9, 198.51.100.7", "198.51.100.7"),
        ("198.51.100.7:50123", "198.51.100.7"),
        ("[2001:db8::7]:50123", "2001:db8::7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("10.1.1.2, 10.1.1.1", "10.1.1.2"),  # a client in the network of the proxies
        ("6.6.6.6, unknown", "10.0.0.1"),
        ("6.6.6.6, garbage, 10.1.1.1", "10.1.1.1"),
        ("fe80::1%\n[injected]", "10.0.0.1"),
        ("", "10.0.0.1"),
        (",", "10.0.0.1"),
        (["6.6.6.6", "198.51.100.7"], "198.51.100.7"),  # two header lines form one list
    ],
)
def test_the_rightmost_address_that_is_not_a_proxy_is_the_client(
    header: str | list[str], client: str
) -> None:
    addresses = ClientAddresses(PROXIES)
    assert addresses.of("10.0.0.1:80", Sent(x_forwarded_for=header)) == client
    mapped = addresses.of("[::ffff:10.0.0.1]:80", Sent(x_forwarded_for="198.51.100.7"))
    assert mapped == "198.51.100.7"


def test_forwarded_is_read_only_if_it_is_the_header_of_the_proxy() -> None:
    sent = Sent(
        forwarded='for=6.6.6.6, for="[2001:db8::7]:80";proto=https, FOR=10.1.1.1;by=x',
        x_forwarded_for="9.9.9.9",
    )
    assert ClientAddresses(PROXIES, "forwarded").of("[::1]:80", sent) == "2001:db8::7"
    assert ClientAddresses(PROXIES).of("[::1]:80", sent) == "9.9.9.9"
    hidden = Sent(forwarded="for=6.6.6.6, for=_hidden")
    assert ClientAddresses(PROXIES, "forwarded").of("[::1]:80", hidden) == "::1"


def test_a_long_list_is_not_read_to_its_end() -> None:
    addresses = ClientAddresses(PROXIES)
    hops = ["198.51.100.7", *["10.1.1.1"] * 10_000]
    assert addresses.of("10.0.0.1:80", Sent(x_forwarded_for=", ".join(hops))) == "10.1.1.1"


def test_an_invalid_network_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidSettings, match=r"for trusted_proxy, got 'proxy\.example'"):
        ClientAddresses(["proxy.example"])


def test_addresses_of_one_ipv6_subscriber_are_one_block() -> None:
    assert address_block("203.0.113.9") == "203.0.113.9"
    assert (
        address_block("2001:db8:1:2:3::4")
        == address_block("2001:db8:1:2::")
        == ("2001:db8:1:2::/64")
    )
    assert address_block("2001:db8:1:3::") != address_block("2001:db8:1:2::")
    assert address_block("::ffff:203.0.113.9") == "203.0.113.9"
    assert address_block("none:of:these") == "none:of:these"
