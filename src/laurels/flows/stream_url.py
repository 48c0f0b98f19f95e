"""Parse the URLs of Redis streams and NATS subjects, and detect file paths that are mistyped
URLs."""

import re
from urllib.parse import unquote, urlsplit

from laurels.errors import LaurelsError

_LIKE_URL = re.compile(
    r"(postgres(ql)?|mysql|mariadb|sqlite|nats|tls|https?|rediss?(\+cluster)?)(:|//)", re.IGNORECASE
)

_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def ensure_path(text: str, error: type[LaurelsError]) -> None:
    """Raise `error` if the path of a file looks like a mistyped URL. The message does not quote the
    text, which may contain a password."""
    if _LIKE_URL.match(text):
        raise error("expected a file, or a URL with :// after its scheme")


def nats_login(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL of a NATS server without its login, and the login as options of the client.
    The login is percent-decoded here, since the client would not decode it in a URL. A user without
    a password is a token."""
    parts = urlsplit(url)
    server = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.username is None:
        return server, {}
    if parts.password is None:
        return server, {"token": unquote(parts.username)}
    return server, {"user": unquote(parts.username), "password": unquote(parts.password)}


def split_stream_url(url: str, error: type[LaurelsError]) -> tuple[str, str]:
    """Return the URL of the server with its database and query, and the key of the stream. Raise
    `error` if the URL has another form."""
    try:
        parts = urlsplit(url)
    except ValueError:  # the message of the error may contain the password
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no valid host") from None
    database, _, key = parts.path.removeprefix("/").partition("/")
    if not key or not database.isdecimal():
        raise error("expected redis://HOST:PORT/DATABASE/KEY, got no database or no key")
    return parts._replace(path=f"/{database}").geturl(), unquote(key)


def split_subject_url(url: str, error: type[LaurelsError]) -> tuple[str, str, str]:
    """Return the URL of the server, with its user and password, the subject, and the address
    without user and password. Raise `error` if the URL has another form."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # the message of the error may contain the password
        raise error("expected nats://HOST:PORT/SUBJECT, got no valid host or port") from None
    # an unescaped '/', '?' or '#' in a user name or password has ended the host part too early
    if "@" in parts.path + parts.query + parts.fragment:
        raise error("expected '/', '?' and '#' in a user or password as %2F, %3F and %23")
    subject = parts.path.removeprefix("/")
    if not parts.hostname or parts.query or parts.fragment or not _SUBJECT.fullmatch(subject):
        raise error(
            "expected nats://HOST:PORT/SUBJECT with a subject of letters, digits, `_` and `-` "
            "between dots"
        )
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return parts._replace(path="").geturl(), subject, address
