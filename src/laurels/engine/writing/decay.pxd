# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Totals with decay, as two words, and additions to them; see `laurels.model.windows.weighing`.

A positive total m * 2^e, with m an integer of 53 bits, has the words e + BIAS and m. A negative
total has the words of its absolute value, both negated; a total of 0 has two words 0. So the words
sort like the totals. An amount is a value times the weight of its time, rounded once to 53 bits,
and a sum is rounded once. All computations use IEEE doubles with separate exponents, so every
platform, and Lua, computes the same bits.
"""
from libc.stdint cimport int64_t

cdef extern from "math.h" nogil:
    double frexp(double number, int *exponent)
    double ldexp(double number, int exponent)

cdef extern from *:
    """
    #define LAURELS_BIAS ((int64_t)1 << 40)
    """
    const int64_t BIAS "LAURELS_BIAS"

cdef enum:
    BITS = 53
    NEGLIGIBLE = 64             # an amount smaller by this many powers of two changes no bit of a sum

cdef struct Decayed:              # mantissa * 2^exponent; the mantissa has 53 bits, or is 0
    double mantissa
    int64_t exponent

cdef inline Decayed normal(double number, int64_t exponent) noexcept nogil:
    cdef Decayed decayed
    cdef int moved = 0
    decayed.mantissa = ldexp(frexp(number, &moved), BITS)
    decayed.exponent = exponent + moved - BITS
    return decayed

cdef inline Decayed sum_of(Decayed one, Decayed other) noexcept nogil:
    cdef Decayed swapped
    if one.mantissa == 0:
        return other
    if other.mantissa == 0:
        return one
    if one.exponent < other.exponent:
        swapped = one
        one = other
        other = swapped
    if one.exponent - other.exponent > NEGLIGIBLE:
        return one
    return normal(
        one.mantissa + ldexp(other.mantissa, <int>(other.exponent - one.exponent)), one.exponent)

cdef inline void add_decayed(const int64_t *old, int64_t value, int64_t exponent, int64_t mantissa,
                         int64_t *new) noexcept nogil:
    """Add a value with the weight mantissa * 2^(exponent - 52) to the words of a total."""
    cdef Decayed total
    cdef Decayed amount = normal(<double>value * <double>mantissa, exponent - (BITS - 1))
    total.mantissa = <double>old[1]
    total.exponent = (old[0] if old[1] > 0 else -old[0]) - BIAS
    total = sum_of(total, amount)
    new[1] = <int64_t>total.mantissa
    new[0] = 0
    if new[1] != 0:
        new[0] = total.exponent + BIAS if new[1] > 0 else -(total.exponent + BIAS)
