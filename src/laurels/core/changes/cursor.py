"""Cursors of changes: how far a reader has read the changes of each shard of a board. Pure."""

from typing import Literal

from msgspec import Struct

from laurels.errors import (
    BoardDeleted,
    InvalidCursor,
    InvalidLimit,
)
from laurels.model.validation import integer_within, quoted, safe_repr

NOW = "now"


"""The cursor that means the current end of the changes."""


MAX_CHANGES = 10_000


"""The maximum number of changes in one answer."""


UNKNOWN_TAG = -1
"""The tag of a place whose block is not known."""


class BlockPlace(Struct, frozen=True, array_like=True, order=True):
    """A point in the changes of one shard: just after the change `number` of the block `sequence`.

    `number` counts from 0; -1 stands for the last change of the block. The point with `sequence` 0
    is before all changes.
    """

    sequence: int
    tag: int = 0
    number: int = -1


Edge = Literal["", "oldest", "last", "end"]


class ChangeCursor(Struct, frozen=True, array_like=True):
    """How far a reader has read a board's changes: a point in the changes of each shard.

    With the edge `oldest` the cursor has no points: it is before the oldest kept change. With
    `last` it is before the last change of a deleted board, and with `end` after it.
    """

    uid: str
    places: tuple[BlockPlace, ...]
    edge: Edge = ""

    def encode(self) -> str:
        """Return the cursor as URL-safe text."""
        parts = [f"{p.sequence}-{p.tag:x}-{p.number}" for p in self.places]
        text = "~".join([self.uid, *parts]).replace("--1", "-e")
        return f"{text}~{self.edge}" if self.edge else text


def decode_cursor(text: object) -> ChangeCursor:
    """Decode a cursor of changes. Raises InvalidCursor for any other text."""
    error = InvalidCursor(f"expected the cursor of a page of changes, got {safe_repr(text)}")
    if not isinstance(text, str) or not text.isascii() or len(text) > 8_000:
        raise error
    uid, *parts = text.split("~")
    edge: Edge = ""
    if parts == ["oldest"] or parts == ["last"]:
        edge = "oldest" if parts == ["oldest"] else "last"
        if uid:
            return ChangeCursor(uid, (), edge)
    elif parts[-1:] == ["end"]:
        parts, edge = parts[:-1], "end"
    try:
        split = [part.split("-") for part in parts]
        places = tuple(
            [BlockPlace(int(s), int(tag, 16), -1 if n == "e" else int(n)) for s, tag, n in split]
        )
    except ValueError:
        raise error from None
    if not uid or not places or any(not _is_sound(place) for place in places):
        raise error
    return ChangeCursor(uid, places, edge)


def is_end(text: str | None) -> bool:
    """Return whether a text is the cursor after the last change of a deleted board."""
    return isinstance(text, str) and text.endswith("~end")


def ensure_not_ended(board: str, after: str | None) -> None:
    """Raise BoardDeleted for a cursor after the last change of a deleted board."""
    if is_end(after) and decode_cursor(after).edge == "end":
        raise BoardDeleted(
            f"the board {quoted(board)} that the cursor belongs to was deleted, and the cursor is "
            "after its last change"
        )


def decode_latest(text: object) -> int:
    """Decode a cursor of changed boards and return its number. Raises InvalidCursor for any other
    text."""
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidCursor(f"expected the cursor of changed boards, got {safe_repr(text)}")
    return int(text)


def _is_sound(place: BlockPlace) -> bool:
    return 0 <= place.sequence < 2**62 and 0 <= place.tag < 2**62 and -1 <= place.number < 2**31


def checked_limit(limit: object) -> int:
    """Return the number of changes that a caller requests. Raises InvalidLimit if it is invalid."""
    count = integer_within(limit, 1, MAX_CHANGES)
    if count is None:
        raise InvalidLimit(
            f"expected an integer from 1 to {MAX_CHANGES:,} for limit, got {safe_repr(limit)}"
        )
    return count
