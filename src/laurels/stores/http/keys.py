"""The requests of a client about the keys of a service."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from laurels.errors.service import UnknownKey
from laurels.model.validation import is_name
from laurels.wire.answers import to_json
from laurels.wire.keys import Key, Scope

from .call import Call, nothing


class KeyDetails(Struct, frozen=True, omit_defaults=True):
    """The public description of a key. `key` is its secret, present only if it was just created or
    rotated."""

    name: str
    scope: Scope
    boards: tuple[str, ...]
    created_ms: int
    rate: float | None
    key: str = ""
    expires_ms: int | None = None
    last_used_ms: int | None = None
    previous_until_ms: int | None = None


_one: Any = msgspec.json.Decoder(KeyDetails).decode
_many: Any = msgspec.json.Decoder(list[KeyDetails]).decode


def describe_key(key: Key, secret: str = "", last_used_ms: int | None = None) -> KeyDetails:
    """Return the public description of a key."""
    return KeyDetails(
        key.name,
        key.scope,
        key.boards,
        key.created_ms,
        key.rate,
        secret,
        key.expires_ms,
        last_used_ms,
        key.previous_until_ms,
    )


def listed() -> Call[list[KeyDetails]]:
    """Return the call that lists all keys, without their secrets."""
    return Call("GET", "/v1/keys", _many)


def create(
    name: str, scope: str, boards: Sequence[str], rate: float | None, seconds: int | None
) -> Call[KeyDetails]:
    """Return the call that creates a key. It is not repeated if its answer is lost, since that
    could create a key whose secret nobody knows."""
    fields = {"name": name, "scope": scope, "boards": boards, "rate": rate, "seconds": seconds}
    return Call("POST", "/v1/keys", _one, body=to_json.encode(fields), is_repeatable=False)


def revoke(name: str) -> Call[None]:
    """Return the call that revokes a key. Raises UnknownKey if the name is invalid; sending the
    call raises it if there is no such key."""
    if not is_name(name):
        raise UnknownKey(f"there is no key {name!r}")
    return Call("DELETE", f"/v1/keys/{quote(name)}", nothing, needs_idempotency_key=True)


def rotate(name: str, grace_seconds: int) -> Call[KeyDetails]:
    """Return the call that gives a key a new secret. Raises UnknownKey if the name is invalid;
    sending the call raises it if there is no such key."""
    if not is_name(name):
        raise UnknownKey(f"there is no key {name!r}")
    body = to_json.encode({"grace_seconds": grace_seconds})
    return Call("POST", f"/v1/keys/{quote(name)}/rotate", _one, body=body, is_repeatable=False)


def rotate_signing() -> Call[None]:
    """Return the call that makes a new secret for signing tokens."""
    return Call("POST", "/v1/tokens/rotate", nothing, is_repeatable=False)
