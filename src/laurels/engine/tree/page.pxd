# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The header that leaves and branches share; for the rest see `leaf.pxd` and `branch.pxd`."""
from libc.stdint cimport uint8_t, uint32_t

cdef struct Page:
    Page *up                    # the parent; NULL for the root
    uint32_t number             # for a leaf under a branch: its number in the table
    uint8_t size                # the number of entries or children
    uint8_t capacity            # the number of them that it can have
    uint8_t slot                # the last known slot in the parent: a guess, not an invariant
    uint8_t grown               # for a leaf: how often it has grown since it was packed

ctypedef Page Leaf
ctypedef Page Branch
