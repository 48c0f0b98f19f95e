# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t, uint64_t

from .job cimport Job

cdef struct Visit:
    uint64_t key                # the first value, as an unsigned word of the same order
    uint32_t event

cdef struct Visiting:
    const Job *given
    Job job                     # its events from 0 on, neighbours behind each other
    const Visit *order          # which of them each is
    char *room                  # where the columns of `job` lie
    char *free                  # the rest of it

cdef bint begin_visiting(const Job *given, Visiting *visiting) noexcept nogil
cdef void end_visiting(Visiting *visiting) noexcept nogil
