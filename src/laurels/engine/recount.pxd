# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .ring cimport Rolling

cdef const char *recount(Rolling *rolling) noexcept nogil
