"""The names of rankings on the server, and the ids of feed entries. The name of a ranking is
`<window>:<instance>`; in a scope the name of the window includes the scope."""

from collections.abc import Iterable

from laurels.core.ranking_key import RankingKey
from laurels.model.rules import Rules
from laurels.stores.redis.sharding.feed import FeedPlace

_SEPARATOR = "\x1f"
"""The separator between a window and a scope in names. Windows and scopes contain no control
characters."""


def scoped_name(key: RankingKey) -> str:
    """Return the name that the server uses for the window of a ranking; it includes the scope."""
    return f"{key.window}{_SEPARATOR}{key.scope}" if key.scope else key.window


def name_of(key: RankingKey) -> str:
    """Return the name of a ranking."""
    return f"{scoped_name(key)}:{key.instance}"


def key_of(board: int, name: str) -> RankingKey:
    """Return the key of the ranking with that name."""
    scoped, _, instance = name.rpartition(":")
    window, _, scope = scoped.partition(_SEPARATOR)
    return RankingKey(board, window, int(instance), scope)


def without_boundaries(rules: Rules, keys: Iterable[RankingKey]) -> list[RankingKey]:
    """Return `keys` without the rankings that rolling windows have kept from earlier boundaries:
    for each rolling window in each scope, only the key with the newest step stays."""
    listed = list(keys)
    newest: dict[tuple[str, str], int] = {}
    for key in listed:
        place = key.window, key.scope
        newest[place] = max(key.instance, newest.get(place, key.instance))
    return [
        key
        for key in listed
        if not rules.windows[key.window].steps or key.instance == newest[key.window, key.scope]
    ]


def feed_place(id: str) -> FeedPlace:
    """Return the `FeedPlace` of an entry, parsed from the id of the entry in the stream."""
    time, _, number = id.partition("-")
    return FeedPlace(int(time), int(number))


def entry_id(place: FeedPlace) -> str:
    return f"{place.time}-{place.number}"
