"""Names of rankings on the server: `<window>:<instance>`. In a scope the name of the window
includes the scope."""

from laurels.core.ranking_key import RankingKey

_BESIDE = "\x1f"
"""The separator between a window and a scope: neither can contain control characters."""


def scoped_name(key: RankingKey) -> str:
    """Return the name of a window in a scope."""
    return f"{key.window}{_BESIDE}{key.scope}" if key.scope else key.window


def name_of(key: RankingKey) -> str:
    """Return the name of a ranking."""
    return f"{scoped_name(key)}:{key.instance}"


def key_of(board: int, name: str) -> RankingKey:
    """Return the key of the ranking with that name."""
    scoped, _, instance = name.rpartition(":")
    window, _, scope = scoped.partition(_BESIDE)
    return RankingKey(board, window, int(instance), scope)
