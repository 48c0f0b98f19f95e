# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t

from laurels.engine.tally.cells cimport Cells
from laurels.engine.tree.ranked_set cimport RankedSet
from .ring cimport Rolling
from laurels.engine.roster.roster cimport Roster
from laurels.engine.writing.rule cimport Rule
from laurels.engine.tally.tally cimport Tally

cdef class RollingSet:
    cdef Rolling rolling
    cdef readonly RankedSet live
    cdef readonly RankedSet prepared
    cdef Roster roster
    cdef bint dense
    cdef int sweep_slot         # the slot up to which empty tallies were released

    cdef bint serves(self, Rule rule)
    cdef RankedSet new_ranking(self)
    cdef Tally at(self, int64_t number)
    cdef int release(self, Cells **slot) except -1
    cdef int release_all(self) except -1
    cdef int sweep(self) except -1
    cdef int begin_pass(self) except -1
    cdef int check_number(self, int64_t number) except -1
