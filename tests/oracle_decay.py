"""Decayed scores, computed in the plain way of the oracle: sums of exact integers, rounded to 53
bits.

A number is a pair of a mantissa and an exponent of two, because 2^(at / half-life) is far too large
for a float.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import floor

from tests.definitions import Counted

PLACES = 6
FAR = 300
"""If the exponents of two addends differ by more than this, the sum is the addend with the larger
exponent."""

Number = tuple[int, int]
ZERO = (0, 0)


def rounded(mantissa: int, exponent: int) -> Number:
    """Return the nearest number with a mantissa of 53 bits, and on a tie the even one."""
    excess = abs(mantissa).bit_length() - 53
    if mantissa == 0:
        return ZERO
    if excess <= 0:
        return mantissa << -excess, exponent + excess
    near = round(Fraction(mantissa, 1 << excess))
    return rounded(near, exponent + excess) if abs(near) == 2**53 else (near, exponent + excess)


def plus(one: Number, other: Number) -> Number:
    if one == ZERO or other == ZERO:
        return other if one == ZERO else one
    (m, e), (n, f) = (one, other) if one[1] >= other[1] else (other, one)
    return (m, e) if e - f > FAR else rounded((m << (e - f)) + n, f)


@cache
def weight(at_ms: int, half_life_ms: int) -> Number:
    """Return 2^(at / half-life) with a mantissa of 53 bits."""
    whole, rest = divmod(at_ms, half_life_ms)
    with localcontext() as context:
        context.prec = 50
        power = (Decimal(rest) / half_life_ms * Decimal(2).ln()).exp()
        return min(int((power * 2**52).to_integral_value()), 2**53 - 1), whole - 52


def total(events: Iterable[Counted], half_life_ms: int) -> Number:
    """Return the sum of the values of these events, each times its weight, added in the order of
    the log."""
    total = ZERO
    for event in sorted(events, key=lambda event: event.order):
        m, e = weight(event.at_ms, half_life_ms)
        total = plus(
            total, rounded(rounded(event.values[0], 0)[0] * m, e + _shift(event.values[0]))
        )
    return total


def _shift(value: int) -> int:
    return rounded(value, 0)[1]


def place(number: Number) -> tuple[int, int]:
    """Return a pair of integers as a sort key: such pairs have the same order as their numbers."""
    mantissa, exponent = number
    high = exponent + 2**50
    return (high, mantissa) if mantissa > 0 else (-high, mantissa) if mantissa else (0, 0)


def value_at(number: Number, half_life_ms: int, now_ms: int) -> int:
    """Return the decayed value of a total at `now_ms`, as an integer with PLACES more decimal
    places than the column."""
    mantissa, exponent = number
    m, e = weight(now_ms, half_life_ms)
    if exponent - e < -FAR:
        return 0
    decayed = Fraction(mantissa, m) * Fraction(2) ** (exponent - e) * 10**PLACES
    units: int = floor(decayed + Fraction(1, 2))
    return units
