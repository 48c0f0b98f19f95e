"""Parse the URLs of Redis streams, and detect file paths that are mistyped URLs."""

import re
from urllib.parse import unquote, urlsplit

from laurels.errors import LaurelsError

_LIKE_URL = re.compile(
    r"(postgres(ql)?|mysql|mariadb|sqlite|nats|tls|https?|rediss?(\+cluster)?)(:|//)", re.IGNORECASE
)


def ensure_path(text: str, error: type[LaurelsError]) -> None:
    """Raise `error` if the path of a file looks like a mistyped URL. The message does not quote the
    text, which may contain a password."""
    if _LIKE_URL.match(text):
        raise error("expected a file, or a URL with :// after its scheme")


def split_stream_url(url: str, error: type[LaurelsError]) -> tuple[str, str]:
    """Return the URL of the server with its database and query, and the key of the stream. Raise
    `error` if the URL has another form."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message may contain the password
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no valid host") from None
    database, _, key = parts.path.removeprefix("/").partition("/")
    if not key or not database.isdecimal():
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no database or no key")
    return parts._replace(path=f"/{database}").geturl(), unquote(key)
