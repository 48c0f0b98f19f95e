"""The rules of an open server, which answers only programs and pages of this machine.

A server without keys listens on loopback, but a request on loopback need not come from the user of
the machine. A web page of any origin can make the user's browser send requests; a name that
resolves to 127.0.0.1 (DNS rebinding) makes such a page count as the same origin; and a reverse
proxy forwards requests of a whole network. Each of these requests can be recognized by a header or
an HTTP version that its sender cannot change. Browsers set Host, Origin and Sec-Fetch-Site
themselves. Proxies add a header, keep the requested Host, or use HTTP/1.0. A proxy that rewrites
Host and adds no header cannot be recognized, so an open server must not be run behind a proxy.
"""

import re
from collections.abc import Iterable
from typing import Protocol

from laurels.errors.service import NotLocal
from laurels.model.validation import safe_repr

FORWARDING = frozenset(
    (
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-forwarded-server",
        "x-forwarded-prefix",
        "x-forwarded-by",
        "x-forwarded",
        "forwarded-for",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-envoy-external-address",
        "true-client-ip",
        "cf-connecting-ip",
        "cf-ray",
        "fastly-client-ip",
        "x-azure-clientip",
        "x-arr-log-id",
        "cdn-loop",
        "tailscale-user-login",
    )
)
"""Headers that proxies add. A request with any of these came through a proxy."""
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LOOPBACK = re.compile(
    rf"(?:localhost\.?|127\.{_BYTE}\.{_BYTE}\.{_BYTE}|\[::1\])(?::[0-9]{{1,5}})?", re.IGNORECASE
)
"""A pattern for Host headers of this machine, as clients write them. It does not match abbreviated
or hexadecimal addresses."""
_FOREIGN_SITES = frozenset(("cross-site", "same-site"))
_OF_ORIGIN = frozenset(("host", "origin", "sec-fetch-site"))
_LINK = ["navigate"], ["document"]


class OriginHeaders(Protocol):
    """The headers of a request. `keys` has the names of all headers, `items` only headers whose
    values are ASCII."""

    def keys(self) -> Iterable[str]: ...

    def items(self) -> list[tuple[str, str]]: ...


def ensure_local(http_version: str, authority: str | None, headers: OriginHeaders) -> None:
    """Raise NotLocal for a request that may come from another machine or another origin.

    `authority` is the Host (HTTP/1.1) or :authority (HTTP/2) of the request.
    """
    sent: dict[str, list[str]] = {}
    for name, value in headers.items():
        sent.setdefault(name, []).append(value)
    names = set(headers.keys())
    for name in FORWARDING.intersection(names):
        raise NotLocal(f"the request came through a proxy: it has the header {name}")
    for name in _OF_ORIGIN.intersection(names.difference(sent)):
        raise NotLocal(f"expected the header {name} in ASCII")
    if http_version in ("0.9", "1", "1.0"):
        raise NotLocal(f"the request is HTTP/{http_version}, as proxies send it: expected HTTP/1.1")
    hosts = sent.get("host") or ([authority] if authority else [])
    if len(hosts) != 1 or _LOOPBACK.fullmatch(hosts[0]) is None:
        raise NotLocal(
            f"expected a Host of this machine such as localhost:8080, got {safe_repr(hosts)}"
        )
    for origin in sent.get("origin", ()):
        if origin.lower() != f"http://{hosts[0].lower()}":
            raise NotLocal(f"the request comes from a page of another origin, {safe_repr(origin)}")
    # A request without an Origin may load an embedded resource, prefetch a page or follow a link.
    # If the request comes from a page of another site, it is allowed only if the browser follows a
    # link.
    is_foreign = bool(_FOREIGN_SITES.intersection(sent.get("sec-fetch-site", ())))
    is_link = (sent.get("sec-fetch-mode"), sent.get("sec-fetch-dest")) == _LINK
    if is_foreign and not is_link:
        raise NotLocal("the request was made by a page of another site")
