"""The members that a query names: their validation."""

from collections.abc import Iterable
from itertools import islice

from laurels.engine.batch.intake import are_plain
from laurels.errors import (
    InvalidLimit,
    InvalidMember,
)
from laurels.model.event import member_bytes
from laurels.model.validation import safe_repr

from .read_plan import MAX_LIMIT


def ensure_member(member: str) -> None:
    """Raise the error of `member_bytes` if this is not a valid member id."""
    if not are_plain([member]):
        member_bytes(member)


def checked_members(members: Iterable[str]) -> list[str]:
    """Return the requested members. Raises an error if there are too many, or if one is not a valid
    id."""
    if type(members) is list:
        listed = members.copy()
    elif isinstance(members, str):
        raise InvalidMember(
            f"expected a list of members, got the text {safe_repr(members)}: [member]"
        )
    elif not isinstance(members, Iterable):
        raise InvalidMember(f"expected a list of members, got {safe_repr(members)}")
    else:
        listed = list(islice(members, MAX_LIMIT + 1))
    if len(listed) > MAX_LIMIT:
        raise InvalidLimit(f"expected at most {MAX_LIMIT:,} members, got more")
    if not are_plain(listed):
        for member in listed:
            member_bytes(member)
    return listed
