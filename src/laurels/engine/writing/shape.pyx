# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The properties of a board that the write rule (`rule.pyx`) needs, as a Python object."""
cimport cython

from .rule cimport COLUMNS_MOST, OP_BEST, OP_LAST, OP_SUM

SUM = OP_SUM
LAST = OP_LAST
BEST = OP_BEST


@cython.final
cdef class Shape:
    """The properties of a board that the write rule needs: operators, ranges, ties.

    `lows` and `highs` bound the signed words of each column; `tie` is 1 (first), -1 (last) or 0 (by
    member); `stamped` means that entries have the exact `at` (needed for `last` columns if tie is
    0 or stamps are coarser than `at`). Raises ValueError for an impossible shape.
    """

    def __cinit__(self, ops: object, lows: object, highs: object, int tie,
                  bint stamped = False) -> None:
        cdef int i
        if not 1 <= len(ops) <= COLUMNS_MOST or not len(ops) == len(lows) == len(highs):
            raise ValueError("expected 1 to 4 columns, each with an operator and two bounds")
        if tie not in (-1, 0, 1):
            raise ValueError("expected a tie of 1, -1 or 0")
        if BEST in ops and any([op != BEST for op in ops]):
            raise ValueError("expected the operator best in all columns or in none")
        self.rule.columns = len(ops)
        self.rule.words = len(ops) + (tie != 0) + stamped
        self.rule.tie = tie
        self.rule.stamped = stamped
        self.rule.best = BEST in ops
        self.rule.last = LAST in ops
        if (stamped and not self.rule.last) or (self.rule.last and tie == 0 and not stamped):
            raise ValueError("expected stamps only with last columns, and always if these have tie 0")
        for i in range(self.rule.columns):
            if ops[i] not in (SUM, LAST, BEST):
                raise ValueError("expected the operator SUM, LAST or BEST")
            self.rule.ops[i] = ops[i]
            self.rule.lows[i] = lows[i]
            self.rule.highs[i] = highs[i]
