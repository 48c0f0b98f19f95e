"""Names of rankings on the server: `<window>:<instance>`, where a window has a name of its own in
each scope."""

from laurels.core.ranking_key import RankingKey

_BESIDE = "\x1f"
"""Between a window and a scope: neither has control characters in it."""


def scoped_name(key: RankingKey) -> str:
    """Return the name of a window in a scope."""
    return f"{key.window}{_BESIDE}{key.scope}" if key.scope else key.window


def name_of(key: RankingKey) -> str:
    """Return the name of a ranking."""
    return f"{scoped_name(key)}:{key.instance}"


def key_of(board: int, name: str) -> RankingKey:
    """Return the ranking of that name."""
    scoped, _, instance = name.rpartition(":")
    window, _, scope = scoped.partition(_BESIDE)
    return RankingKey(board, window, int(instance), scope)
