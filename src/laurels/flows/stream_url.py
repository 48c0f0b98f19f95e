"""The URLs of streams: redis://HOST:PORT/DATABASE/KEY, and texts that look like a URL."""

import re
from urllib.parse import unquote, urlsplit

from laurels.errors import LaurelsError

_LIKE_URL = re.compile(
    r"(postgres(ql)?|mysql|mariadb|sqlite|nats|tls|https?|rediss?(\+cluster)?)(:|//)", re.IGNORECASE
)


def ensure_path(text: str, error: type[LaurelsError]) -> None:
    """Raise `error`, without the text, if the path of a file is a mistyped URL, which may contain a
    password: messages about the file would show it."""
    if _LIKE_URL.match(text):
        raise error("expected a file, or a URL with :// after its scheme")


def split_stream_url(url: str, error: type[LaurelsError]) -> tuple[str, str]:
    """Return the URL of the server with its database and query, and the key of the stream. Raise
    `error` if the URL has another form."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may have the password
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no valid host") from None
    database, _, key = parts.path.removeprefix("/").partition("/")
    if not key or not database.isdecimal():
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no database or no key")
    return parts._replace(path=f"/{database}").geturl(), unquote(key)
