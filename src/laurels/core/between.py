"""Bounds of queries: ranges of scores, and percentiles. Pure."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from laurels.errors import InvalidPercentile, InvalidRange
from laurels.model.rules import Rules
from laurels.model.scale import DecayedScale
from laurels.model.score import exact_units
from laurels.model.validation import integer, safe_repr

from .requests import Anchor, AtBound, End, Start

Bound = int | Decimal | str | tuple[int | Decimal | str, ...]
Percentile = int | float | Decimal | str


def between(rules: Rules, low: Bound | None, high: Bound | None) -> tuple[Anchor, Anchor]:
    """Return two anchors: one before the first and one after the last entry whose score lies from
    `low` to `high`, both included."""
    lower, upper = _prefix(rules, low), _prefix(rules, high)
    if len(rules.columns) == 1 and _beyond(lower, upper):
        raise InvalidRange(
            f"expected low to be at most high, got {safe_repr(low)} and {safe_repr(high)}"
        )
    worst, best = _signed(rules, lower), _signed(rules, upper)
    if rules.columns[0].sign > 0:
        worst, best = best, worst
    if _beyond(best, worst):  # with several columns `low` may be the better score
        worst, best = best, worst
    return (
        Start() if best is None else AtBound(best, None, right=False),
        End() if worst is None else AtBound(worst, None, right=True),
    )


def between_decayed(
    scale: DecayedScale, low: Bound | None, high: Bound | None
) -> tuple[Anchor, Anchor]:
    """Return the anchors of `between` for a window with decay. `low` and `high` are compared with
    the scores as they have decayed by the instant of `scale`."""
    lower, upper = scale.bound(low), scale.bound(high)
    if lower is not None and upper is not None and lower > upper:
        raise InvalidRange(
            f"expected low to be at most high, got {safe_repr(low)} and {safe_repr(high)}"
        )
    turned = scale.sign < 0
    least = None if lower is None else AtBound(scale.words(lower), None, right=turned)
    beyond = None if upper is None else AtBound(scale.words(upper + 1), None, right=turned)
    if turned:
        least, beyond = beyond, least
    return least or Start(), beyond or End()


def percentile_share(percentile: object) -> Fraction:
    """Return a percentile (0 to 100) as an exact fraction from 0 to 1. The percentile may have at
    most 30 decimal places."""
    percentile = percentile if (count := integer(percentile)) is None else count
    if isinstance(percentile, (int, float, Decimal, str)) and not isinstance(percentile, bool):
        try:
            share = Decimal(str(percentile))
        except InvalidOperation:
            share = Decimal("NaN")
        exponent = share.as_tuple().exponent
        if isinstance(exponent, int) and exponent >= -30 and 0 <= share <= 100:
            return Fraction(share) / 100
    raise InvalidPercentile(f"expected a number from 0 to 100, got {safe_repr(percentile)}")


def _prefix(rules: Rules, bound: Bound | None) -> tuple[int, ...] | None:
    if bound is None:
        return None
    parts = tuple(bound) if isinstance(bound, (tuple, list)) else (bound,)
    if not 1 <= len(parts) <= len(rules.columns):
        names = ", ".join(column.name for column in rules.columns)
        most = len(rules.columns)
        values = "1 value" if most == 1 else f"1 to {most} values"
        raise InvalidRange(f"expected {values} ({names}) for a bound, got {safe_repr(bound)}")
    return tuple(
        exact_units(part, column.scale, column.name)
        for part, column in zip(parts, rules.columns, strict=False)
    )


def _signed(rules: Rules, units: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if units is None:
        return None
    return tuple([u * column.sign for u, column in zip(units, rules.columns, strict=False)])


def _beyond(first: tuple[int, ...] | None, second: tuple[int, ...] | None) -> bool:
    """Return whether `first` is greater than `second`, compared in the leading columns that both
    have; False if either is None."""
    if first is None or second is None:
        return False
    shared = min(len(first), len(second))
    return first[:shared] > second[:shared]
