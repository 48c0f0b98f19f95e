# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .job cimport Job

cdef int count_events(const Job *job) noexcept nogil
