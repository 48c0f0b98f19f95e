# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from laurels.engine.roster.roster cimport Roster
from .tree cimport Tree

cdef class RankedSet:
    cdef Tree tree
    cdef readonly Roster roster
    cdef readonly bint stamped
    cdef readonly bint stepped
