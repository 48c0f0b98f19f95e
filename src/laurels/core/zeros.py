"""The entries that a board with `hide_zero` does not rank: those whose score is 0. Pure.

These entries are stored and counted like all others, and follow one another in the order of a
ranking. Only reads leave them out: a request names the bounds of these entries, and its result is
that of the ranking without them. The setting can be changed at any time, and no write depends on
it.
"""

from laurels.model.rules import Rules
from laurels.model.scale import DecayedScale, decayed_scale

from .between import between_decayed
from .requests import AtBound, Zeros


def zeros_of(rules: Rules, window: str, now_ms: int) -> Zeros | None:
    """Return where the entries with score 0, which the board does not rank, begin and end in a
    window's order at `now_ms`; None if the board ranks all entries."""
    return zeros_at_scale(rules, decayed_scale(rules, window, now_ms)) if rules.hide_zero else None


def zeros_at_scale(rules: Rules, decayed: DecayedScale | None) -> Zeros | None:
    """Return where the entries with score 0, which the board does not rank, begin and end; None if
    the board ranks all entries. For a window with decay, `decayed` converts words to the scores
    that decide this."""
    if not rules.hide_zero:
        return None
    if decayed is not None:
        first, past = between_decayed(decayed, 0, 0)
        assert isinstance(first, AtBound)
        assert isinstance(past, AtBound)
        return Zeros(first, past)
    words = (0,) * len(rules.columns)
    return Zeros(AtBound(words, None, right=False), AtBound(words, None, right=True))
