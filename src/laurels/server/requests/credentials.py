"""The key or token of a request, and headers that may occur only once."""

from granian.rsgi import Headers, Scope  # type: ignore[attr-defined]

from laurels.errors.service import InvalidHeader, Unauthorized
from laurels.server.auth.tokens import TOKEN_PREFIX


def header_values(headers: Headers, name: str) -> list[str]:
    """Return all values of a header. Values that are not ASCII are left out."""
    values: list[str] = headers.get_all(name)  # type: ignore[attr-defined]
    return values


def single_header(headers: Headers, name: str) -> str | None:
    """Return the value of a header; None if it is absent. Raise InvalidHeader if the header is not
    ASCII. Also raise it if the header occurs more than once, since a proxy in front may have used
    the other value."""
    values = header_values(headers, name)
    if len(values) == 1:
        return values[0]
    if values or name in headers:
        raise InvalidHeader(f"expected the header {name} once, in ASCII")
    return None


def secret_of(scope: Scope, *, in_query: bool = False) -> str | None:
    """Return the key or token of a request, None if it has none.

    With `in_query`, for a stream, a token may also be in the query string, since browsers cannot
    set headers for event sources. A key may not be there, since URLs end up in logs.
    """
    authorization = single_header(scope.headers, "authorization")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        return secret.strip() if scheme.lower() == "bearer" else authorization
    if in_query and "token=" in (query := scope.query_string):
        for part in query.split("&"):
            if part.startswith("token="):
                return _token(part.removeprefix("token="))
    return None


def _token(secret: str) -> str:
    if not secret.startswith(TOKEN_PREFIX):
        raise Unauthorized("expected a token in the URL, got something else")
    return secret


def without_token(query: str) -> str:
    return "&".join([part for part in query.split("&") if not part.startswith("token=")])
