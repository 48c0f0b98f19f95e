# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Weights of instants, and totals that decay, for Python; see `laurels.model.windows.weighing` and
`decay.pxd`.

The weight of a time is 2^(at / H): the exponent is the quotient, the mantissa the double nearest to
2^(rest / H). It is computed in 64-bit integers, from four tables of 256 powers and a linear term.
The rounding errors add up to less than UNSURE units of the last bit: 4 from the tables, 6 from
their products, 6 from rest / H, 2 from the linear term. If that does not suffice to decide which
double is nearest, about once in fifty times, `nearest` is called, which computes with more bits.
"""
from cpython cimport array
from libc.stdint cimport int64_t, uint64_t

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, longs, release_buffers
from laurels.engine.tree.rows cimport new_columns

cdef enum:
    SPARE = 11                  # bits of the product beyond those of a double
    UNSURE = 20                 # the error bound of the product, in its last bit

cdef extern from *:
    """
    #define LAURELS_LN2 ((uint64_t)2977044472u)  /* ln 2 * 2^32 */
    """
    const uint64_t LN2 "LAURELS_LN2"


cdef inline uint64_t high(uint64_t one, uint64_t other) noexcept nogil:
    """Return the upper half of the 128-bit product."""
    cdef uint64_t a = one >> 32
    cdef uint64_t b = one & <uint64_t>0xFFFFFFFF
    cdef uint64_t c = other >> 32
    cdef uint64_t d = other & <uint64_t>0xFFFFFFFF
    cdef uint64_t middle = a * d + ((b * d) >> 32)
    cdef uint64_t lower = (middle & <uint64_t>0xFFFFFFFF) + b * c
    return a * c + (middle >> 32) + (lower >> 32)


cdef inline int64_t mantissa_of(const uint64_t *powers, uint64_t share) noexcept nogil:
    """Return the double nearest to 2^(share / 2^64), times 2^52; 0 if it cannot be determined.
    `share` is rest / H in units of 2^-64."""
    cdef uint64_t found, low
    cdef int part
    found = powers[share >> 56]
    for part in range(1, 4):
        found = high(found, powers[256 * part + ((share >> (56 - 8 * part)) & 255)]) << 1
    found += high(found, ((share & <uint64_t>0xFFFFFFFF) * LN2) >> 32)
    low = found & ((1 << SPARE) - 1)
    if low + UNSURE > 1 << (SPARE - 1) and low < (1 << (SPARE - 1)) + UNSURE:
        return 0
    if share >= <uint64_t>-4096:
        return 0
    return <int64_t>((found + (1 << (SPARE - 1))) >> SPARE)


def weights(ats: object, int64_t half_life, powers: object, nearest: object) -> tuple:
    """Return the weights of instants: a column of exponents and one of mantissas, of 53 bits.

    `powers` are 2^63 * 2^(i / 256^(k + 1)), for k = 0 to 3 and, within each, i = 0 to 255, as
    unsigned 64-bit integers stored in a column of int64; `nearest(rest, half_life)` returns the
    mantissa, computed with more bits. The half-life is below 2^47.
    """
    cdef BufferViews buffers
    cdef int64_t *found[2]
    cdef const int64_t *at
    cdef const uint64_t *table
    cdef int64_t rest
    cdef uint64_t inverse, share
    cdef int shift
    cdef Py_ssize_t i
    cdef object length, bits
    buffers.count = 0
    try:
        acquire_buffer(&buffers, ats, c'q')
        acquire_buffer(&buffers, powers, c'q')
        if items(&buffers, 1) != 1024 or not 0 < half_life < <int64_t>1 << 47:
            raise ValueError("expected four tables of 256 powers, and a half-life below 2^47")
        length = half_life
        bits = length.bit_length()
        shift = 64 - bits
        inverse = 2 ** (bits + 62) // length
        at = longs(&buffers, 0)
        table = <const uint64_t *>longs(&buffers, 1)
        columns = new_columns(2, items(&buffers, 0), found)
        for i in range(items(&buffers, 0)):
            rest = at[i] % half_life
            found[0][i] = at[i] // half_life
            if rest < 0:
                rest += half_life
                found[0][i] -= 1
            share = high(<uint64_t>rest << shift, inverse) << 2
            found[1][i] = mantissa_of(table, share)
            if found[1][i] == 0:
                found[1][i] = nearest(rest, half_life)
        return columns[0], columns[1]
    finally:
        release_buffers(&buffers)


def add(tuple total not None, int64_t value, int64_t exponent, int64_t mantissa) -> tuple:
    """Return the words of a total after adding a value with this weight."""
    cdef int64_t old[2]
    cdef int64_t new[2]
    old[0], old[1] = total
    add_decayed(old, value, exponent, mantissa, new)
    return new[0], new[1]
