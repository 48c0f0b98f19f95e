"""Versions of a board: how many changes an answer includes, comparable between processes."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from laurels.errors.service import InvalidHeader
from laurels.model.validation import safe_repr

from .index import Offset

MOST_SHARDS = 64
_TEXT = re.compile(r"([0-9A-Za-z.-]{1,64}):([0-9]{1,19}(?:\.[0-9]{1,19})*)", re.ASCII)


class BoardVersion(NamedTuple):
    """The state that an answer shows: the number of changes in each shard of the board.

    `tag` names the board. Versions with another tag, or another number of shards, are not
    comparable, because a new count of changes has begun.
    """

    tag: str
    offsets: tuple[int, ...]

    def covers(self, other: "BoardVersion") -> bool:
        """Return whether this state includes all changes of `other`; True if the two are not
        comparable."""
        if not self.is_comparable(other):
            return True
        return all(own >= least for own, least in zip(self.offsets, other.offsets, strict=True))

    def is_comparable(self, other: "BoardVersion") -> bool:
        """Return whether this version and `other` count the changes of the same board."""
        return self.tag == other.tag and len(self.offsets) == len(other.offsets)

    def joined(self, other: "BoardVersion") -> "BoardVersion":
        """Return the least version that covers this one and `other`. The two must be comparable."""
        return BoardVersion(self.tag, tuple(map(max, self.offsets, other.offsets)))

    def text(self) -> str:
        """Return the version as it is sent: `tag:3`, with shards `tag:3.5.1`."""
        return f"{self.tag}:{'.'.join(map(str, self.offsets))}"


def version_of(tag: str, offset: Offset) -> BoardVersion:
    """Return the version of a board for an offset. The offset of a board in several shards is a
    tuple."""
    return BoardVersion(tag, offset if isinstance(offset, tuple) else (offset,))


def parse_version(text: str) -> BoardVersion:
    """Parse a version as `text` returns it. Raises InvalidHeader for any other text."""
    match = _TEXT.fullmatch(text)
    offsets: Sequence[str] = () if match is None else match[2].split(".")
    if match is None or len(offsets) > MOST_SHARDS:
        raise InvalidHeader(
            f"expected the value of Laurels-As-Of of an earlier answer, got {safe_repr(text)}"
        )
    return BoardVersion(match[1], tuple(map(int, offsets)))


def later(
    seen: BoardVersion | None, before: BoardVersion | None, now: BoardVersion
) -> BoardVersion:
    """Return the version that a reader knows after it has received an answer of version `now`. The
    reader knew the version `before` when it sent the query, and the version `seen` just before the
    answer arrived; other answers may have arrived in between.

    If `now` has the tag of `before` and `seen` has a new tag, the result is `seen`: the answer is
    older than the new tag. If `now` does not cover `before`, the server has lost changes, as in a
    failover, and the result is `now`, although it is older.
    """
    if seen is None:
        return now
    if before is not None and now.is_comparable(before):
        if not seen.is_comparable(before):
            return seen
        if not now.covers(before):
            return now
    return now.joined(seen) if now.is_comparable(seen) else now
