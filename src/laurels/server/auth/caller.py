"""The caller of a request, and what its key or token permits.

This module has all rules about permissions. They use the level (`read`, `write`, `admin`), the
boards, and `is_unlimited` for operations on the whole store.
"""

import hashlib

from msgspec import Struct

from laurels.errors.service import Forbidden
from laurels.model.board_patterns import ALL_BOARDS, covers_all, reaches
from laurels.model.validation import quoted
from laurels.wire.keys import Key

from .submission_rule import SubmissionRule

LEVEL: dict[str, int] = {"read": 1, "write": 2, "admin": 3}
NO_LEVEL = 0


class Bucket(Struct, frozen=True):
    """The account to which requests and streams are charged. `rate` is in requests a second; None
    means the server's default rate."""

    name: str
    rate: float | None


class Caller(Struct, frozen=True):
    """The holder of a key or token, and what it permits.

    `key_id` is the id of the key, or of the key that issued the token. `subject` is the subject of
    the token; it is None for a key. `boards` are patterns; None means all boards. `until_ms` is the
    time of expiry. `submission` is set for a token that may only submit events of one member.
    """

    name: str
    level: int
    boards: tuple[str, ...] | None = None
    rate: float | None = None
    until_ms: int | None = None
    key_id: str = ""
    subject: str | None = None
    submission: SubmissionRule | None = None
    buckets: tuple[Bucket, ...] = ()

    @property
    def is_unlimited(self) -> bool:
        """Whether the caller may use all boards, and therefore operations on the whole store."""
        return self.boards is None or "*" in self.boards

    @property
    def identity(self) -> str:
        """A name that no other key or token subject will ever have."""
        return self.key_id if self.subject is None else f"{self.key_id}/{self.subject}"

    @property
    def administers(self) -> bool:
        """Whether the caller administers its boards."""
        return self.level >= LEVEL["admin"]

    def own_id(self, id: str) -> str:
        """Return the event id `id`, extended by a hash of the caller's identity, so that no other
        key or token subject can use it. On an open server, where nobody has a key, return `id`
        unchanged."""
        if not self.key_id:
            return id
        owner = hashlib.blake2b(self.identity.encode(), digest_size=8).hexdigest()
        return f"{id}@{owner}"

    def ensure(self, level: int, board: str | None) -> None:
        """Raise Forbidden if the caller lacks the level, or if the board is not one of the caller's
        boards."""
        if level > self.level:
            needed = next(scope for scope, other in LEVEL.items() if other == level)
            raise Forbidden(f"{quoted(self.name)} lacks the scope {needed}")
        if board is not None and not self.sees(board):
            raise Forbidden(f"{quoted(self.name)} lacks access to the board {quoted(board)}")

    def ensure_takes_submissions(self, takes_submissions: bool, board: str | None) -> None:
        """For a token that may only submit for one member: raise Forbidden unless the route accepts
        such tokens (`takes_submissions`), and `board` is one of the token's boards. `board` is None
        for a call that concerns no board."""
        if not takes_submissions:
            raise Forbidden(f"{quoted(self.name)} may only submit for one member")
        self.ensure(NO_LEVEL, board)

    def ensure_unlimited(self) -> None:
        """Raise Forbidden for a caller that is limited to some boards."""
        if not self.is_unlimited:
            raise Forbidden(
                f"{quoted(self.name)} is limited to some boards, but this call needs all boards"
            )

    def sees(self, board: str) -> bool:
        """Return whether a board is one of the caller's boards."""
        return reaches(self.boards, board)

    def holds(self, key: Key, default_rate: float) -> bool:
        """Return whether a key stays within the limits of this caller in every respect: scope,
        boards, rate and expiry. For a caller with a token, return False. `default_rate` is the rate
        of keys that have no rate of their own; 0 means no limit."""
        return (
            self.subject is None
            and LEVEL[key.scope] <= self.level
            and covers_all(self.boards, key.boards)
            and _at_most(key.rate or default_rate, self.most_rate(default_rate))
            and _at_most(key.expires_ms, self.until_ms)
        )

    def most_rate(self, default_rate: float) -> float | None:
        """Return the highest rate that this caller may give to a key; None means any rate. An
        administrator of the whole store who has no rate of its own may give any rate."""
        if self.rate is None and self.is_unlimited and self.level == LEVEL["admin"]:
            return None
        return self.rate or default_rate or None

    def manages(self, key: Key, default_rate: float) -> bool:
        """Return whether this caller may see and change a key. There are two conditions. The key
        permits no more than the caller. If the caller is limited to some boards, the key is the
        caller's own key or a key that the caller made."""
        is_own = self.key_id in (key.id, key.issuer)
        return (is_own or self.is_unlimited) and self.holds(key, default_rate)


def _at_most(value: float | None, limit: float | None) -> bool:
    """Return whether a value is within a limit. None and 0 mean unlimited."""
    return not limit or (bool(value) and value is not None and value <= limit)


ANYBODY = Caller("anybody", LEVEL["admin"], buckets=(Bucket("anybody", None),))
"""The caller of an open server. It has no key."""
OPERATOR = Caller("operator", LEVEL["admin"])
"""The caller that has access to the store itself, on the store's machine."""
UNKNOWN = Caller("unknown", NO_LEVEL)
RESERVED_NAMES = frozenset({"anybody", "operator", "unknown", "token", "laurels_admin_key"})
"""Names in lower case that no key may have, because they stand for other callers in logs."""


def caller_of(key: Key, until_ms: int | None = None) -> Caller:
    """Return the caller that presents a key. The key is accepted until `until_ms`."""
    return Caller(
        key.name,
        LEVEL[key.scope],
        None if key.boards == ALL_BOARDS else key.boards,
        key.rate,
        until_ms,
        key.id,
        buckets=(Bucket(key.name, key.rate),),
    )
