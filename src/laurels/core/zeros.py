"""The entries that a board with `hide_zero` does not rank: those whose score is 0. Pure.

These entries are stored and counted like all others, and follow one another in the order of a
ranking. Only reads leave them out: a request names the bounds of these entries, and its result is
that of the ranking without them. The setting can be changed at any time, and no write depends on
it.
"""

from msgspec.structs import replace

from laurels.model.rules import Rules
from laurels.model.scale import DecayedScale, decayed_scale

from .between import between_decayed
from .closing import ClosingBoard, hides_zero
from .requests import AtBound, Zeros


def zeros_in(board: ClosingBoard, window: str, instance: int, now_ms: int) -> Zeros | None:
    """Return where the entries with score 0 begin and end in one period of a window; None if they
    are ranked there. For a closed period, the definition at its closing decides whether they
    are."""
    if not hides_zero(board, window, instance):
        return None
    rules = board.rules if board.rules.hide_zero else replace(board.rules, hide_zero=True)
    return zeros_of(rules, window, now_ms)


def zeros_of(rules: Rules, window: str, now_ms: int) -> Zeros | None:
    """Return where the entries with score 0, which the board does not rank, begin and end in a
    window's order at `now_ms`; None if the board ranks all entries."""
    return zeros_at_scale(rules, decayed_scale(rules, window, now_ms)) if rules.hide_zero else None


def zeros_at_scale(rules: Rules, decayed: DecayedScale | None) -> Zeros | None:
    """Return where the entries with score 0, which the board does not rank, begin and end; None if
    the board ranks all entries. In a window with decay, an entry counts as 0 if its decayed score
    is 0; `decayed` converts words to these scores."""
    if not rules.hide_zero:
        return None
    if decayed is not None:
        first, past = between_decayed(decayed, 0, 0)
        assert isinstance(first, AtBound)
        assert isinstance(past, AtBound)
        return Zeros(first, past)
    words = (0,) * len(rules.columns)
    return Zeros(AtBound(words, None, right=False), AtBound(words, None, right=True))
