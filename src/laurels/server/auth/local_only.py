"""The rules of an open server: it answers programs and pages of this machine, and nobody else.

A server without keys listens on loopback, but a request on loopback need not come from its user: a
web page of any origin sends requests from their browser, a name that resolves to 127.0.0.1 (DNS
rebinding) makes such a page count as the same origin, and a reverse proxy passes on requests of a
whole network. Each of them leaves a mark that the sender cannot take away: browsers write Host,
Origin and Sec-Fetch-Site themselves, proxies add a header, keep the Host they were asked for, or
speak HTTP/1.0. One that rewrites Host and adds nothing cannot be recognized: none may stand before
an open server.
"""

import re
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
"""Headers that proxies add; any of them reveals a proxy."""
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LOOPBACK = re.compile(
    rf"(?:localhost\.?|127\.{_BYTE}\.{_BYTE}\.{_BYTE}|\[::1\])(?::[0-9]{{1,5}})?", re.IGNORECASE
)
"""A Host of this machine, in the form that clients write: no short or hexadecimal addresses."""
_FOREIGN_SITES = frozenset(("cross-site", "same-site"))
_LINK = ["navigate"], ["document"]


class OriginHeaders(Protocol):
    """The headers of a request."""

    def items(self) -> list[tuple[str, str]]: ...


def ensure_local(http_version: str, authority: str | None, headers: OriginHeaders) -> None:
    """Raise NotLocal for a request that may come from beyond this machine or of another origin.

    `authority` is the Host (HTTP/1.1) or :authority (HTTP/2) of the request.
    """
    sent: dict[str, list[str]] = {}
    for name, value in headers.items():
        sent.setdefault(name, []).append(value)
    for name in FORWARDING.intersection(sent):
        raise NotLocal(f"the request came through a proxy: it has the header {name}")
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
    # Without an Origin: what a page embeds, prefetches or follows. A link to the page is welcome.
    is_foreign = bool(_FOREIGN_SITES.intersection(sent.get("sec-fetch-site", ())))
    is_link = (sent.get("sec-fetch-mode"), sent.get("sec-fetch-dest")) == _LINK
    if is_foreign and not is_link:
        raise NotLocal("the request was made by a page of another site")
