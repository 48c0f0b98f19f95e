"""The URL of a Redis stream: redis://HOST:PORT/DATABASE/KEY."""

from urllib.parse import unquote, urlsplit

from laurels.errors import LaurelsError


def split_stream_url(url: str, error: type[LaurelsError]) -> tuple[str, str]:
    """Return the URL of the server with its database and query, and the key of the stream. Raise
    `error` if the URL has another form."""
    try:
        parts = urlsplit(url)
    except ValueError as cause:
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no valid host") from cause
    database, _, key = parts.path.removeprefix("/").partition("/")
    if not key or not database.isdecimal():
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no database or no key")
    return parts._replace(path=f"/{database}").geturl(), unquote(key)
