"""What the imports of files and of sorted sets have in common on the command line."""

import laurels
from laurels.errors import InvalidAt, UnknownBoard
from laurels.zones import Zone, zone

from .failures import Usage
from .times import time_reader

MAX_BATCH = 100_000
"""Lines of one commit at most: what the board takes at once."""


def ensure_batch(batch: int) -> None:
    if not 1 <= batch <= MAX_BATCH:
        raise Usage(f"--batch is 1 to {MAX_BATCH:,}")


def board_named(lb: laurels.Leaderboards, name: str, *, create: bool) -> laurels.Board:
    try:
        return lb.get(name)
    except UnknownBoard:
        if not create:
            raise
        return lb.create(laurels.Board(name))


def zone_named(name: str) -> Zone:
    try:
        return zone(name)
    except KeyError:
        raise Usage(f"--tz: there is no time zone {name!r}") from None


def instant(option: str, text: str, tz: str) -> int:
    """A time on the command line, ISO 8601."""
    try:
        return time_reader("iso", zone_named(tz))(text)
    except InvalidAt as error:
        raise Usage(f"{option}: {error.what}") from error
