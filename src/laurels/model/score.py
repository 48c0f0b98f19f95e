"""Scores: exact numbers in, integers inside, exact numbers out. Pure.

A column holds an integer count of its units, 10^-scale. Values are never converted to binary
floats, and never rounded to the precision of a decimal context.

Internally, the order is always ascending. An entry's order key is a tuple of integers, its *words*.
There is one word for each column: the units times the column's sign. If times decide ties, one more
word follows: the tie stamp times the sign of the tie rule. The entry with the smaller words ranks
higher; entries with equal words are ordered by member id.
"""

import re
from array import array
from collections.abc import Sequence
from decimal import Decimal
from math import isfinite

from laurels.errors import InvalidValue, NotFinite, TooManyPlaces, ValueOutOfRange

from .rules import ColumnRule, Rules
from .validation import integer, is_unicode, quoted, safe_repr

LIMIT = 2**53 - 1
"""The greatest number of units of a total, positive or negative."""
MAX_SCALE = 15
MAX_TEXT = 64

Number = int | Decimal
Score = Number | tuple[Number, ...]

_TEXT = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
_LIMIT_DIGITS = len(str(LIMIT))


def to_units(value: object, column: ColumnRule) -> int:
    """Return the value of one event as a count of the column's units.

    Takes an int, a Decimal or a decimal string such as `12`, `-0.5` or `1e3`. A value that the
    column keeps (`last`, `best`) must be within the column's range. For a `sum`, only the total
    must be within it. Raise InvalidValue, NotFinite, TooManyPlaces or ValueOutOfRange.
    """
    units = exact_units(value, column.scale, column.name)
    if not column.adds_up and not column.low <= units <= column.high:
        low, high = to_value(column.low, column.scale), to_value(column.high, column.scale)
        raise ValueOutOfRange(
            f"expected a value from {low} to {high} for {quoted(column.name)}, got "
            f"{safe_repr(value)}"
        )
    return units


def _beyond_columns(value: object) -> ValueOutOfRange:
    return ValueOutOfRange(f"expected a number in the range of a column, got {safe_repr(value)}")


def any_number(value: object) -> Number | str:
    """Return a number that may be a score of some column. Text is returned unchanged, for the
    column to validate. Raises InvalidValue, NotFinite, ValueOutOfRange."""
    if (count := integer(value)) is not None:
        if not -LIMIT <= count <= LIMIT:
            raise _beyond_columns(value)
        return count
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise NotFinite(f"expected a finite number, got {safe_repr(value)}")
        if value and value.adjusted() > _LIMIT_DIGITS:
            raise _beyond_columns(value)
        return value
    if isinstance(value, str) and is_unicode(value):
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        raise NotFinite(f"expected a finite number, got {value}")
    raise InvalidValue(f"expected an exact number, got {safe_repr(value)}")


def exact_units(value: object, scale: int, name: str, limit: int = LIMIT) -> int:
    """Return a number as a count of 10^-scale, within ±limit; `name` names it in messages.

    Raises InvalidValue, NotFinite, TooManyPlaces or ValueOutOfRange. Reading `1e1000000` costs no
    more than reading 1.
    """
    if (count := integer(value)) is not None:
        units = count * 10**scale if -limit <= count <= limit else limit + 1
    elif isinstance(value, Decimal):
        units = _units_of_decimal(value, scale, name, limit)
    elif isinstance(value, str):
        units = _units_of_text(value, scale, name, limit)
    elif isinstance(value, float) and not isfinite(value):
        raise NotFinite(f"expected a finite number for {quoted(name)}, got {value}")
    else:
        raise InvalidValue(f"expected an exact number for {quoted(name)}, got {safe_repr(value)}")
    if not -limit <= units <= limit:
        raise ValueOutOfRange(
            f"expected a number in the range of {quoted(name)} at scale {scale}, got "
            f"{safe_repr(value)}"
        )
    return units


def _units_of_decimal(value: Decimal, scale: int, name: str, limit: int) -> int:
    if not value.is_finite():
        raise NotFinite(f"expected a finite number for {quoted(name)}, got {safe_repr(value)}")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "only the exponent of NaN and of the infinities is not an int"
    text = "".join(map(str, digits))
    return _scaled(text, exponent, scale, value, name, limit) * (-1 if sign else 1)


def _units_of_text(value: str, scale: int, name: str, limit: int) -> int:
    match = _TEXT.fullmatch(value) if len(value) <= MAX_TEXT else None
    if match is None:
        if value.strip().lstrip("+-").lower() in {"nan", "inf", "infinity"}:
            raise NotFinite(f"expected a finite number for {quoted(name)}, got {safe_repr(value)}")
        raise InvalidValue(f"expected a decimal number for {quoted(name)}, got {safe_repr(value)}")
    sign, whole, places, bare, exponent = match.groups()
    places = places or bare or ""
    shift = int(exponent or 0) - len(places)
    units = _scaled((whole or "") + places, shift, scale, value, name, limit)
    return -units if sign == "-" else units


def _scaled(digits: str, shift: int, scale: int, value: object, name: str, limit: int) -> int:
    """Return `digits` times 10^shift in units of 10^-scale; limit + 1 for any number beyond
    `limit`.
    """
    significant = digits.lstrip("0")
    whole = significant.rstrip("0")
    if not whole:
        return 0
    shift += scale + len(significant) - len(whole)
    if shift < 0:
        most_places = f"at most {scale}" if scale else "no"
        raise TooManyPlaces(
            f"expected {most_places} decimal places for {quoted(name)}, got {safe_repr(value)}"
        )
    most = _LIMIT_DIGITS if limit == LIMIT else len(str(limit))
    return int(whole) * 10**shift if len(whole) + shift <= most else limit + 1


def to_value(units: int, scale: int) -> Number:
    """Return a count of units as a caller sees it: an int at scale 0, otherwise a Decimal of that
    scale."""
    return Decimal(f"{units}e-{scale}") if scale else units


def shortest_value(units: int, scale: int) -> Number:
    """Return a number of units of 10^-scale as an int if it is whole, otherwise as a Decimal
    without trailing zeros. The result is exact in every decimal context."""
    while scale and units % 10 == 0:
        units, scale = units // 10, scale - 1
    return to_value(units, scale)


def values_of(units: Sequence[int], scale: int) -> list[Number]:
    """Return counts of units as the values that users see."""
    return [Decimal(f"{count}e-{scale}") for count in units] if scale else list(units)


def score_of(units: Sequence[int], rules: Rules) -> Score:
    """Return the score of an entry: one number, or a tuple if the board has several columns."""
    if len(rules.columns) == 1:
        return to_value(units[0], rules.columns[0].scale)
    return tuple(
        [to_value(count, column.scale) for count, column in zip(units, rules.columns, strict=True)]
    )


def stamp(at_ms: int, resolution_ms: int) -> int:
    """Return the tie stamp of an instant: its time divided by the tie resolution, rounded down."""
    return at_ms // resolution_ms


def stamps_of(ats_ms: "array[int] | int", resolution_ms: int) -> "array[int] | int":
    """Return the tie stamps of many instants, or the one stamp that they all share."""
    if resolution_ms == 1:
        return ats_ms
    if isinstance(ats_ms, int):
        return stamp(ats_ms, resolution_ms)
    return array("q", [stamp(at_ms, resolution_ms) for at_ms in ats_ms])


def units_of(words: Sequence[int], rules: Rules) -> tuple[int, ...]:
    """Return the units of an entry from its words."""
    return tuple([column.sign * word for word, column in zip(words, rules.columns, strict=False)])


def word_bounds(rules: Rules, steps: int = 1) -> tuple[list[int], list[int]]:
    """Return the least and the greatest word of each column.

    For a `sum` the bounds are those of a total within one step, in a window of `steps` steps.
    """
    pairs = [
        step_bounds(c.low, c.high, steps) if c.adds_up else (c.low, c.high) for c in rules.columns
    ]
    signed = [
        sorted((c.sign * low, c.sign * high))
        for c, (low, high) in zip(rules.columns, pairs, strict=True)
    ]
    return [low for low, _ in signed], [high for _, high in signed]


def step_bounds(low: int, high: int, steps: int) -> tuple[int, int]:
    """Return the bounds of a member's total within one of `steps` steps, for a `sum` column with
    the range `low` to `high`.

    As long as the total of each step is within these bounds, the sum over the steps stays in the
    range when the oldest steps leave. If totals of both signs are allowed, a leaving step may take
    the sum away from zero, so each step gets an equal part of the range. If all totals have one
    sign, a leaving step only takes the sum towards zero, so the bounds of a step only ensure that
    no sum exceeds LIMIT.
    """
    share = LIMIT // steps
    if low >= 0:
        return low, min(high, share)
    if high <= 0:
        return max(low, -share), high
    return -(-low // steps), high // steps
