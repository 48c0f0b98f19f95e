"""The cursor of changed boards in several stores: it consists of the cursors of all stores."""

from collections.abc import Sequence

from laurels.core.changes.cursor import decode_latest
from laurels.errors import InvalidCursor
from laurels.model.validation import safe_repr

_NONE = "-"
"""The text for the cursor of a store that was not read yet."""
_SEPARATOR = "~"
_MAX_CHARACTERS = 40_000


def encode_cursors(cursors: Sequence[str | None]) -> str:
    """Return the cursors of all stores as one cursor."""
    return _SEPARATOR.join([_NONE if cursor is None else cursor for cursor in cursors])


def decode_cursors(text: object, count: int) -> list[str | None]:
    """Return the cursor of each of `count` stores; None for a store without a cursor. If the text
    has the cursors of another number of stores, as after a change of the placement, all are None.
    Raises InvalidCursor."""
    if text is None:
        return [None] * count
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS:
        raise InvalidCursor(f"expected the cursor of changed boards, got {safe_repr(text)}")
    cursors = [None if part == _NONE else part for part in text.split(_SEPARATOR)]
    for cursor in cursors:
        if cursor is not None:
            decode_latest(cursor)
    return cursors if len(cursors) == count else [None] * count
