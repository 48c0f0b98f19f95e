"""The key or token that a request brings."""

from granian.rsgi import Scope

from laurels.errors.service import Unauthorized
from laurels.server.auth.tokens import TOKEN_PREFIX


def secret_of(scope: Scope, *, in_query: bool = False) -> str | None:
    """Return the key or token of a request.

    A stream may have its token in the query string, since browsers cannot set headers for event
    sources. A key may not be there, since URLs end up in logs.
    """
    authorization: str | None = scope.headers.get("authorization")
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
        raise Unauthorized("only a token may stand in an address, and this is none")
    return secret


def without_token(query: str) -> str:
    return "&".join([part for part in query.split("&") if not part.startswith("token=")])
