"""Parses the addresses of index servers: `redis://…` and related schemes.

A malformed address may have a password in any part, so error messages repeat only the scheme.
"""

import re
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from laurels.errors import UnknownUrl
from laurels.model.validation import is_unicode

DEFAULT_PORT = 6_379
DEFAULT_PREFIX = "laurels:"
SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]@/]+))(?::([0-9]{1,5}))?")
_PREFIX = re.compile(r"[!-z|~]{0,64}")
_ENCODED = "write '/', '?', '#', '@', '%' in a user or password as %2F, %3F, %23, %40, %25"


class Host(Struct, frozen=True):
    """The address of one server."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


class RedisAddress(Struct, frozen=True):
    """The address of a server or cluster, with user, password and key prefix."""

    hosts: tuple[Host, ...]
    cluster: bool = False
    tls: bool = False
    user: str | None = None
    password: str | None = None
    database: int = 0
    prefix: str = DEFAULT_PREFIX
    authorities: str | None = None
    """A file of trusted CA certificates (PEM). None means the certificates of the system."""

    def __str__(self) -> str:
        """Return the address for use in messages, without user and password."""
        scheme = SCHEMES[2 * self.cluster + self.tls]
        database = f"/{self.database}" if self.database else ""
        return f"{scheme}://{','.join(map(str, self.hosts))}{database}"

    def __repr__(self) -> str:
        return f"RedisAddress({str(self)!r}, prefix={self.prefix!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("address", str(self)), ("prefix", self.prefix)]


def is_redis(url: object) -> bool:
    """Return whether a URL names an index server."""
    return isinstance(url, str) and url.partition("://")[0].lower() in SCHEMES and "://" in url


def redis_address(url: str) -> RedisAddress:
    """Parse a URL.

    The form is `redis://[user:password@]host[:port][/database][?prefix=…]`, or `rediss://` for TLS,
    where `?ca=…` names a file of certificates to trust. Several `host:port` separated by commas are
    a primary and its replicas, in any order. `redis+cluster://` and `rediss+cluster://` name nodes
    of a cluster; they take no database. Raises UnknownUrl.
    """
    scheme, _, _ = url.partition("://")
    if not is_redis(url):
        raise UnknownUrl(f"expected a URL of one of the schemes {', '.join(SCHEMES)}, got another")
    try:
        parts = urlsplit(url) if is_unicode(url) else _refuse(scheme, "expected valid Unicode")
    except ValueError:
        _refuse(scheme, f"expected a URL: {_ENCODED}")
    if parts.fragment:
        _refuse(scheme, f"expected no fragment (#…); {_ENCODED}")
    kind = SCHEMES.index(scheme.lower())
    query = _query(scheme, parts.query)
    login, _, places = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return RedisAddress(
        hosts=tuple(_host(scheme, place) for place in places.split(",")),
        cluster=kind >= 2,
        tls=kind % 2 == 1,
        user=unquote(user) or None,
        password=unquote(password) or None,
        database=_database(scheme, parts.path, cluster=kind >= 2),
        prefix=_prefix(scheme, query.get("prefix", DEFAULT_PREFIX)),
        authorities=_authorities(scheme, query.get("ca"), tls=kind % 2 == 1),
    )


def _host(scheme: str, place: str) -> Host:
    match = _HOST.fullmatch(place)
    if match is None:
        _refuse(scheme, f"expected a host, or host:port; {_ENCODED}")
    port = int(match[3] or DEFAULT_PORT)
    if not 0 < port < 65_536:
        _refuse(scheme, "expected a port from 1 to 65535")
    return Host(match[1] or match[2], port)


def _database(scheme: str, path: str, *, cluster: bool) -> int:
    number = path.strip("/") or "0"
    if not re.fullmatch(r"[0-9]{1,5}", number):
        _refuse(scheme, f"expected the number of a database as the path; {_ENCODED}")
    if cluster and int(number):
        _refuse(scheme, "expected database 0, the only one of a cluster")
    return int(number)


def _query(scheme: str, query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) < len(pairs) or not parameters.keys() <= {"prefix", "ca"}:
        _refuse(scheme, f"expected at most one prefix=… and one ca=… in the query; {_ENCODED}")
    return parameters


def _prefix(scheme: str, prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        _refuse(scheme, "expected a prefix of up to 64 visible ASCII characters without { and }")
    return prefix


def _authorities(scheme: str, path: str | None, *, tls: bool) -> str | None:
    if path is not None and (not tls or not path or "\0" in path):
        _refuse(scheme, "expected ca=… to name a file, and only with TLS")
    return path


def _refuse(scheme: str, reason: str) -> NoReturn:
    raise UnknownUrl(f"the {scheme}:// URL names no index server: {reason}") from None
