"""Tokens: signed, short-lived permissions, which are not stored.

A token is a JSON Web Signature (HS256) after the prefix `lt_`. Its header has the random id of the
signing secret. Its claims have the random id of the key that issued it (`iss`); the token is valid
only as long as that key exists. There are up to two signing secrets, so that a new secret can be
introduced while tokens signed with the old secret stay valid.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from laurels.errors.service import Unauthorized
from laurels.wire.keys import SigningSecret

from .submission_rule import SubmissionRule

TOKEN_PREFIX = "lt_"
MAX_TOKEN_SECONDS = 86_400
_ALGORITHM = "HS256"
_FOREIGN = "the token was not issued by this service"


class Claims(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The claims of a token. `iss` is the id of the key that issued the token, and `sub` the
    token's subject. `boards` are patterns; `rate` is in requests a second. A token with a
    `submission` permits submitting by that rule, any other token permits reading."""

    iss: str
    sub: str
    issued_ms: int
    until_ms: int
    boards: tuple[str, ...]
    rate: float | None = None
    submission: SubmissionRule | None = None


def sign(claims: Claims, secret: SigningSecret) -> str:
    """Return a token with these claims, signed with a secret."""
    from jwt import PyJWS  # noqa: PLC0415 (only a server signs; the package is optional)

    signed = PyJWS().encode(
        msgspec.json.encode(claims),
        bytes.fromhex(secret.secret),
        algorithm=_ALGORITHM,
        headers={"kid": secret.id},
    )
    return TOKEN_PREFIX + signed


def verify(token: str, secrets: Mapping[str, SigningSecret]) -> Claims:
    """Return the claims of a token, even if the token has expired. Raises Unauthorized if its
    signature or its form is not valid."""
    from jwt import PyJWS  # noqa: PLC0415 (only a server signs; the package is optional)
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    signature = PyJWS(algorithms=[_ALGORITHM])
    signed = token.removeprefix(TOKEN_PREFIX)
    try:
        secret = secrets.get(signature.get_unverified_header(signed).get("kid", ""))
        if secret is None:
            raise Unauthorized(_FOREIGN)
        payload = signature.decode(signed, bytes.fromhex(secret.secret), algorithms=[_ALGORITHM])
        claims = msgspec.json.decode(payload, type=Claims)
    except (PyJWTError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise Unauthorized(_FOREIGN) from error
    if not 0 < claims.until_ms - claims.issued_ms <= MAX_TOKEN_SECONDS * 1_000:
        raise Unauthorized(_FOREIGN)
    return claims
