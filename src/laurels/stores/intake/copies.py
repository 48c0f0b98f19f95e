"""The checks that every store makes before a board is copied into it."""

from laurels.core.contents import Origin
from laurels.errors.copies import CopyRefused, NameTaken
from laurels.model.validation import quoted

AHEAD_MS = 60_000
"""How far the time of a copied board may be ahead of the store's clock, in milliseconds."""


def ensure_taken_over(origin: Origin, now_ms: int, *, event_time: bool) -> None:
    """Raise CopyRefused if a board would give other answers in this store than in its own store.
    `now_ms` is the time of this store."""
    if origin.event_time != event_time:
        clocks = ["the clock", "event time"]
        raise CopyRefused(
            f"the board uses {clocks[origin.event_time]}, and the boards of the target use "
            f"{clocks[event_time]}"
        )
    if not event_time and origin.now_ms > now_ms + AHEAD_MS:
        raise CopyRefused(
            f"the time of the board is {origin.now_ms - now_ms} ms ahead of the target's clock"
        )


def taken(name: str) -> NameTaken:
    """Return the error for a board whose name is taken in the target."""
    return NameTaken(f"the target has a board {quoted(name)}")
