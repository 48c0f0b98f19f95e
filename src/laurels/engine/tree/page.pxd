# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The header that leaves and branches share; for the rest see `leaf.pxd` and `branch.pxd`."""
from libc.stdint cimport uint8_t, uint32_t

cdef struct Page:
    Page *up                    # the parent; NULL for the root
    uint32_t number             # of a leaf under a branch: by which the table knows it
    uint8_t size                # entries or children
    uint8_t room                # for how many there is room
    uint8_t slot                # where the parent last had it: a guess, not an invariant
    uint8_t grown               # of a leaf: how often since it was packed

ctypedef Page Leaf
ctypedef Page Branch
