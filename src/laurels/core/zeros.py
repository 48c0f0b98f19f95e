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
    """Return the bounds of the entries of a window that are not ranked at an instant; None if all
    entries are ranked."""
    return zeros_at_scale(rules, decayed_scale(rules, window, now_ms)) if rules.hide_zero else None


def zeros_at_scale(rules: Rules, decayed: DecayedScale | None) -> Zeros | None:
    """Return the bounds of the entries that are not ranked; None if all entries are ranked. With
    `decayed`, the scale of a window with decay, these are the entries with the score 0 on this
    scale."""
    if not rules.hide_zero:
        return None
    if decayed is not None:
        first, past = between_decayed(decayed, 0, 0)
        assert isinstance(first, AtBound)
        assert isinstance(past, AtBound)
        return Zeros(first, past)
    words = (0,) * len(rules.columns)
    return Zeros(AtBound(words, None, right=False), AtBound(words, None, right=True))
