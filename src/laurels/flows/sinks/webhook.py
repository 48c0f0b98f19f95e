"""A webhook as the target of a sink: changes are sent in a signed POST request.

The body is a JSON array of up to 500 changes. `Laurels-Timestamp` has the seconds since 1970, and
`Laurels-Signature` is `v1=` and the HMAC-SHA256, in hexadecimal, of the timestamp, a dot and the
body. A receiver compares the signature, refuses old timestamps, and counts each change once by its
id.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from laurels.errors.sinks import InvalidTarget, TargetRefused, TargetUnavailable

from .mapping import FieldMapping
from .target import SinkPage

LIMIT = 500
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0
MAX_RETRY_AFTER = 300.0
_RETRIED_STATUSES = frozenset({408, 425, 429})
"""Statuses of client errors after which the request is sent again."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The range of the public IPv6 addresses."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class WebhookOptions(Struct, frozen=True):
    """The options of a webhook."""

    secret: str | None = None
    """The secret with which requests are signed; without a secret they are not signed."""
    allows_private: bool = False
    """Whether the address may be of a private network or of this machine."""
    authorities: str | None = None
    """A file of certificate authorities that replace those of the system."""


class WebhookTarget:
    """Sends pages of changes to a URL."""

    keeps_positions = False
    holds_state = False
    limit = LIMIT

    def __init__(
        self,
        url: str,
        mapping: FieldMapping,
        options: WebhookOptions,
        now_ms: Callable[[], int],
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InvalidTarget("expected https://HOST/PATH, without a user name, for a webhook")
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InvalidTarget("expected https://HOST/PATH for a webhook, got no host") from error
        self._host: str = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._mapping = mapping
        self._options = options
        self._now_ms = now_ms
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        verify: ssl.SSLContext | bool = True
        if self._options.authorities is not None:
            try:
                verify = ssl.create_default_context(cafile=self._options.authorities)
            except (OSError, ssl.SSLError) as error:
                raise InvalidTarget(
                    f"{self._options.authorities} has no certificates: {error}"
                ) from error
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_keepalive_connections=0),
            follow_redirects=False,
            trust_env=False,
            verify=verify,
        )

    async def position(self, board: str) -> str | None:
        return None

    async def deliver(self, page: SinkPage) -> None:
        documents = [d for change in page.changes if (d := self._mapping.encode(change))]
        if not documents:
            return
        body = b"[" + b",".join(documents) + b"]"
        answer = await self._post(body)
        if answer.is_success:
            return
        what = f"the webhook answered {answer.status_code}"
        if answer.is_redirect:
            raise TargetRefused(f"{what}: redirects are not followed")
        if answer.status_code in _RETRIED_STATUSES or answer.status_code >= 500:
            raise TargetUnavailable(what, _retry_after(answer))
        raise TargetRefused(what)

    async def reset(self, board: str, position: str | None) -> None:
        """Do nothing: the position is in the store."""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, body: bytes) -> httpx.Response:
        """Send a body, and return the status and headers of the answer. The body of the answer is
        not read, since it may be of any length. Each request has a connection of its own. If a
        receiver answers a request twice, the second answer is then not taken for the answer to the
        next request."""
        assert self._client is not None
        address = await self._address()
        headers = {
            "Content-Type": "application/json",
            "Host": self._url.netloc.decode("ascii"),
            "Connection": "close",
            **self._signature(body),
        }
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._client.stream(
                    "POST",
                    self._url.copy_with(host=address),
                    content=body,
                    headers=headers,
                    extensions={"sni_hostname": self._host},
                ) as answer,
            ):
                return answer
        except (httpx.HTTPError, TimeoutError) as error:
            raise TargetUnavailable(f"{self._host} did not answer: {error!r}") from error

    def _signature(self, body: bytes) -> dict[str, str]:
        if self._options.secret is None:
            return {}
        timestamp = str(self._now_ms() // 1_000)
        signed = hmac.new(
            self._options.secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256
        )
        return {
            "Laurels-Timestamp": timestamp,
            "Laurels-Signature": f"v1={signed.hexdigest()}",
        }

    async def _address(self) -> str:
        """Return an address of the host. The request is sent to this address, even if the name
        resolves to another one a moment later."""
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise TargetUnavailable(f"{self._host} has no address: {error.strerror}") from error
        addresses = [str(info[4][0]) for info in infos]
        if not self._options.allows_private and any(map(_is_private, addresses)):
            raise TargetRefused(f"{self._host} is in a private network; --allow-private allows it")
        return addresses[0]


def _is_private(address: str) -> bool:
    """Return False for the address of a single host on the public internet, True for any other
    address, such as a private, loopback or multicast one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = _embedded_address(ip)
        if embedded is None:
            return ip not in _UNICAST or not ip.is_global
        ip = embedded
    return ip.is_multicast or not ip.is_global


def _embedded_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address in a mapped, 6to4 or NAT64 IPv6 address, None for another address.
    Data sent to such an IPv6 address reaches the IPv4 address."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _retry_after(answer: httpx.Response) -> float:
    """Return the delay that the receiver requests, in seconds, at most five minutes."""
    seconds = 0.0
    with suppress(ValueError):
        seconds = float(answer.headers.get("retry-after", "0"))
    return min(MAX_RETRY_AFTER, max(0.0, seconds))
