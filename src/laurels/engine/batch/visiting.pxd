# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t, uint64_t

from .job cimport Job

cdef struct Visit:
    uint64_t key                # the first value, as an unsigned word that sorts in the same order
    uint32_t event

cdef struct Visiting:
    const Job *source
    Job job                     # its events are numbered from 0, in the order of the visits
    const Visit *order          # for each visit, the number of its event in `source`
    char *memory                # the memory for the columns of `job`
    char *free                  # the unused rest of `memory`

cdef bint begin_visiting(const Job *source, Visiting *visiting) noexcept nogil
cdef void end_visiting(Visiting *visiting) noexcept nogil
