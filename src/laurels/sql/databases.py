"""Choose the dialect of a ledger by the URL of its database."""

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from laurels.errors.sinks import InvalidTarget

from .dialects import Dialect
from .mariadb import MariaDB
from .postgresql import PostgreSQL
from .sqlite import SQLite

SCHEMES = ("postgresql", "postgres", "mysql", "mariadb", "sqlite")


def is_ledger(url: str) -> bool:
    """Return whether a URL names a database that a ledger can be in."""
    return url.partition(":")[0].lower() in SCHEMES


def dialect_of(url: str) -> tuple[Dialect, str]:
    """Return the dialect of the database that a URL names, and the prefix of the ledger's tables.
    Raises InvalidTarget, MissingDriver."""
    try:
        parts = urlsplit(url)
    except ValueError:  # the message of the error may contain the password
        raise InvalidTarget(
            "expected a host, or host:port; write an IPv6 address in brackets"
        ) from None
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", "laurels_")
    if not prefix.isascii() or not prefix.isidentifier() or len(prefix) > 32:
        raise InvalidTarget(
            "expected up to 32 letters, digits and _, not beginning with a digit, for ?prefix="
        )
    if parts.scheme in ("postgresql", "postgres"):
        return PostgreSQL(parts._replace(query="", fragment="").geturl(), options), prefix
    if parts.scheme in ("mysql", "mariadb"):
        return MariaDB(url, options), prefix
    if parts.scheme == "sqlite":
        path = unquote(parts.path)[1:]
        if parts.netloc or not path or options:
            raise InvalidTarget("expected sqlite:///FILE, or sqlite:////FILE from the root")
        return SQLite(Path(path)), prefix
    raise InvalidTarget(
        f"expected postgresql, mysql, mariadb or sqlite as the scheme, got {parts.scheme!r}"
    )
