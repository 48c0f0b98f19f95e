"""Validate the fields that a caller sends to make a key or a token.

Every function raises InvalidKey for an invalid value.
"""

import hashlib
from typing import TypeGuard

from laurels.errors.service import InvalidKey
from laurels.model.validation import is_name, quoted, safe_repr
from laurels.wire.keys import Scope

from .caller import LEVEL, RESERVED_NAMES, Caller
from .submission_rule import DEFAULT_RATE, SubmissionRule

MAX_KEY_SECONDS = 10 * 366 * 86_400
MAX_SUBJECT = 128


def _is_scope(value: object) -> TypeGuard[Scope]:
    return isinstance(value, str) and value in LEVEL


def parse_scope(value: object) -> Scope:
    """Return a valid scope."""
    if not _is_scope(value):
        raise InvalidKey(f"expected a scope ({', '.join(LEVEL)}), got {safe_repr(value)}")
    return value


def parse_key_name(value: object) -> str:
    """Return a valid name of a key."""
    if not is_name(value):
        raise InvalidKey(f"expected a name of letters, digits, _ . and -, got {safe_repr(value)}")
    if value.lower() in RESERVED_NAMES:
        raise InvalidKey(f"the name {quoted(value)} is reserved: choose another one")
    return value


def parse_own_name(value: object, by: Caller) -> str:
    """Return a valid name for a key that `by` makes. If `by` is limited to some boards, the name
    must begin with the name of `by` and a dot. Without this rule, the error for a name that is in
    use could reveal the keys of other callers."""
    name = parse_key_name(value)
    if not by.is_unlimited and not name.startswith(f"{by.name}."):
        raise InvalidKey(
            f"expected a name that begins with {quoted(by.name + '.')}, since the key that "
            f"makes it is limited to some boards; got {quoted(name)}"
        )
    return name


def parse_rate(value: object) -> float:
    """Return a valid rate, in requests a second."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise InvalidKey(f"expected a rate (requests a second above 0), got {safe_repr(value)}")
    return float(value)


def parse_token_rate(value: object, submission: SubmissionRule | None) -> float | None:
    """Return the valid rate of a token. If `value` is None, return None or, for a token that
    submits, a default rate."""
    if value is None:
        return None if submission is None else DEFAULT_RATE
    return parse_rate(value)


def parse_seconds(value: object, what: str, least: int, most: int) -> int:
    """Return a valid number of seconds, from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidKey(f"expected {least} to {most} seconds for a {what}, got {safe_repr(value)}")
    return value


def subject_of(member: str) -> str:
    """Return the subject for a member. It is the member's id, or a hash of the id if the id is long
    or not printable."""
    if len(member) <= MAX_SUBJECT and member.isprintable():
        return member
    return hashlib.sha256(member.encode(errors="surrogatepass")).hexdigest()[:32]


def parse_subject(value: object) -> str:
    """Return a valid subject. Requests and streams of a token are charged to its subject."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_SUBJECT or not value.isprintable():
        raise InvalidKey(
            f"expected a subject of 1 to {MAX_SUBJECT} printable characters, got {safe_repr(value)}"
        )
    return value
