"""Decay: scores that halve every half-life, stored in a form that does not change with time. Pure.

An event of a value v at an instant `at` is worth v * 2^-((now - at) / H) at `now`. All members
decay at the same rate, so the index stores v * 2^((at - ANCHOR) / H), which never changes. So the
order of members changes only when an event counts. (Forward decay: Cormode, Shkapenyuk, Srivastava,
Xu 2009.) The stored number grows without limit, so its exponent is a separate integer, and ANCHOR
never has to be moved.

With (q, r) = divmod(at - ANCHOR, H), in milliseconds, an event weighs 2^q * 2^(r / H); 2^(r / H) is
rounded once to the nearest number of 53 bits, by integers alone. The value times the weight is
rounded to 53 bits (nearest, to even), and so is every sum, in the order of the log. So a total is a
function of the events in their order, and its bits are the same on every platform and index.

In an entry a total is two *words*, integers that sort in the order of the totals
(`engine.writing.decay`). It is divided by 2^((now - ANCHOR) / H) when it is shown, and rounded to
PLACES more decimal places than the column has: a shown score is a fixed-point decimal, so gaps add
up, and queries can name a score that was shown.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from math import isqrt

from msgspec import Struct

from laurels.engine.writing import decay

ANCHOR_MS = 0
"""The instant from which time is counted; it is arbitrary."""
PLACES = 6
"""The additional decimal places with which a decayed score is shown."""
MIN_HALF_LIFE_MS = 1_000
MAX_HALF_LIFE_MS = 36_525 * 86_400_000
WORDS = 2
"""The number of words of a decayed score."""

BITS = 53
BIAS = 2**40
"""The number that is added to an exponent to make it positive: see `engine/writing/decay.pxd`."""

_HALF_UNITS = 2 * 10**PLACES
_PRECISION = 127
_LN2 = 117932881612756647068972071382077242200
"""ln 2 times 2^127, rounded."""
_GONE = 256
"""A total that would be shifted to the right by more bits than this is shown as 0."""

Words = tuple[int, int]


class Weights(Struct, frozen=True):
    """The weights of events, each mantissa * 2^(exponent - 52).

    There is one weight for all events, or one for each.
    """

    exponents: "int | array[int]"
    mantissas: "int | array[int]"

    def take(self, kept: Sequence[int]) -> "Weights":
        """Return the weights of the events at these positions."""
        if isinstance(self.exponents, int) or isinstance(self.mantissas, int):
            return self
        exponents, mantissas = self.exponents, self.mantissas
        return Weights(
            array("q", [exponents[i] for i in kept]), array("q", [mantissas[i] for i in kept])
        )


def weights(ats_ms: "array[int] | int", half_life_ms: int) -> Weights:
    """Return the weights of events at these instants. There is a single weight if all events share
    one instant."""
    if isinstance(ats_ms, int):
        return Weights(*weight(ats_ms, half_life_ms))
    table, _ = _powers()
    return Weights(*decay.weights(ats_ms, half_life_ms, table, _nearest))


def restored(
    ats_ms: "array[int] | int", half_life_ms: int, mantissas: "array[int] | int"
) -> Weights:
    """Return weights from their mantissas; the exponents follow from the instants."""
    if isinstance(ats_ms, int):
        return Weights((ats_ms - ANCHOR_MS) // half_life_ms, mantissas)
    return Weights(array("q", [(at - ANCHOR_MS) // half_life_ms for at in ats_ms]), mantissas)


@lru_cache(maxsize=1_024)
def weight(at_ms: int, half_life_ms: int) -> tuple[int, int]:
    """Return the exponent and mantissa of the weight of an instant; repeated calls are fast."""
    exponent, rest = divmod(at_ms - ANCHOR_MS, half_life_ms)
    return exponent, _nearest(rest, half_life_ms)


def _nearest(rest: int, whole: int) -> int:
    """Return the number of 53 bits nearest to 2^(rest / whole), times 2^52."""
    spare = _PRECISION + 1 - BITS
    rounded: int = (_power(rest, whole) + (1 << (spare - 1))) >> spare
    return rounded if rounded < 2**BITS else 2**BITS - 1


def _power(rest: int, whole: int) -> int:
    """Return 2^(rest / whole) * 2^127, with an error of about 2^-90."""
    share = (rest << 96) // whole
    _, powers = _powers()
    power = powers[share >> 88]
    for part in range(1, 4):
        power = power * powers[256 * part + (share >> (88 - 8 * part) & 255)] >> _PRECISION
    linear = (share & (2**64 - 1)) * _LN2 >> 96
    return power + (power * (linear + (linear * linear >> (_PRECISION + 1))) >> _PRECISION)


@cache
def _powers() -> tuple["array[int]", list[int]]:
    """Return a table of the powers 2^(i / 256^(k + 1)) in two forms, for k from 0 to 3 and, within
    each k, i from 0 to 255. The first form is for the engine: the powers times 2^63, as unsigned
    64-bit integers stored in a column of int64. The second has the powers times 2^127.
    """
    guard = 64
    one = 1 << (_PRECISION + guard)
    roots, root = [], 2 * one
    for _ in range(32):
        root = isqrt(root * one)
        roots.append(root)
    powers = []
    for part in range(4):
        for i in range(256):
            product = one
            for bit in range(8):
                if i >> (7 - bit) & 1:
                    product = product * roots[8 * part + bit] >> (_PRECISION + guard)
            powers.append(product >> guard)
    halves = [(power + (1 << 63)) >> 64 for power in powers]
    return array("q", [half - 2**64 for half in halves]), powers


class Weighing(Struct, frozen=True, order=True):
    """The rule for the weights of events in a window with decay: a weight halves with every
    half-life of the event's age."""

    half_life_ms: int

    def weights(self, ats_ms: "array[int] | int") -> Weights:
        """Return the weights of events at these instants. There is a single weight if all events
        share one instant."""
        return weights(ats_ms, self.half_life_ms)

    def weight(self, at_ms: int) -> tuple[int, int]:
        """Return the exponent and the mantissa of the weight of an instant."""
        return weight(at_ms, self.half_life_ms)

    def restored(self, ats_ms: "array[int] | int", mantissas: "array[int] | int") -> Weights:
        """Return weights from their mantissas."""
        return restored(ats_ms, self.half_life_ms, mantissas)

    def decayed_at(self, scale: int, now_ms: int) -> "DecayedTotals":
        """Return the converter from totals to the scores shown at an instant, for a column with
        this scale."""
        return DecayedTotals(self.half_life_ms, scale, now_ms)


class DecayedTotals(Struct, frozen=True):
    """Converts decayed totals to units of 10^-(scale + PLACES), at an instant."""

    half_life_ms: int
    scale: int
    now_ms: int

    @property
    def places(self) -> int:
        """The number of decimal places shown."""
        return self.scale + PLACES

    def units(self, words: Words) -> int:
        """Return the units to which a total has decayed, rounded half up. `words` are those of the
        total itself, not multiplied by the sign of the column."""
        return self.units_of_many([words])[0]

    def units_of_many(self, totals: Iterable[Words]) -> list[int]:
        """Return the units of many totals, like `units`."""
        exponent, divisor = weight(self.now_ms, self.half_life_ms)
        level = BIAS + exponent - BITS + 1
        units = []
        for first, mantissa in totals:
            shift = abs(first) - level
            if mantissa == 0 or shift < -_GONE:
                units.append(0)
                continue
            above, below = mantissa * _HALF_UNITS, divisor
            if shift >= 0:
                above <<= shift
            else:
                below <<= -shift
            units.append((above + below) // (2 * below))
        return units

    def least(self, units: int) -> Words:
        """Return the words of the least total that is shown as this number of units or more."""
        exponent, factor = weight(self.now_ms, self.half_life_ms)
        above, below = (2 * units - 1) * factor, _HALF_UNITS
        shift = BITS - abs(above).bit_length() + below.bit_length()
        mantissa = _ceiling(above, below, shift)
        if abs(mantissa) >= 2**BITS:
            shift -= 1
            mantissa = _ceiling(above, below, shift)
        exponent -= BITS - 1 + shift
        first = exponent + BIAS
        return (first, mantissa) if mantissa > 0 else (-first, mantissa)


def _ceiling(above: int, below: int, shift: int) -> int:
    """Return (above / below) * 2^shift, rounded up to an integer."""
    if shift < 0:
        return -(-above // (below << -shift))
    return -((-above << shift) // below)
