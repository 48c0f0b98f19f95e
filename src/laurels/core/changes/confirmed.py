"""The changes of a board that its registered sinks have confirmed. Pure.

A sink is registered on a board if the board stores a position of it. Changes that a registered sink
has not confirmed are kept beyond the board's `changes`, up to `changes_max`.
"""

from collections.abc import Mapping

from laurels.errors import InvalidCursor

from . import beginning
from .answers import SINK_PREFIX
from .cursor import decode_cursor


def confirmed_sequences(position: str, uid: str) -> tuple[int, ...] | None:
    """Return, for each shard, the number of the newest block of which a sink with this position has
    confirmed all changes. None if the position is not a cursor of changes of the board with this
    uid."""
    try:
        is_initial = beginning.is_initial(position)
        text = beginning.decode(position).changes if is_initial else position
        cursor = decode_cursor(text)
    except InvalidCursor:
        return None
    if cursor.uid != uid:
        return None
    return tuple([place.sequence - (place.number >= 0) for place in cursor.places])


def least_confirmed(positions: Mapping[str, str], uid: str) -> int | None:
    """For a board with one shard, return the number of the newest block that all registered sinks
    have confirmed. Sinks whose position is not a cursor of the board's changes are ignored; the
    result is None without other sinks."""
    confirmed = [
        confirmed_sequences(text, uid)
        for source, text in positions.items()
        if source.startswith(SINK_PREFIX)
    ]
    return min((each[0] for each in confirmed if each is not None), default=None)
