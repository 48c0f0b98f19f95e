# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from .rule cimport Rule

cdef class Shape:
    cdef Rule rule
