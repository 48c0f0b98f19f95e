# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint32_t, uint64_t

from .leaf cimport Leaf
from .page cimport Branch

cdef struct Shape:              # what all branches of a tree have in common
    int words                   # of an edge
    bint dense                  # whether runs are counted

# A branch is a Page, followed by Leaf *edges, uint32_t children[room], counts[room] and, if dense,
# runs[room].

cdef inline Leaf **edges_at(const Branch *branch) noexcept nogil:
    return <Leaf **>(branch + 1)

cdef inline Leaf *edges_of(const Branch *branch) noexcept nogil:
    return edges_at(branch)[0]

cdef inline uint32_t *children_of(const Branch *branch) noexcept nogil:
    return <uint32_t *>(edges_at(branch) + 1)

cdef inline uint32_t *counts_of(const Branch *branch) noexcept nogil:
    return children_of(branch) + branch.room

cdef inline uint32_t *runs_of(const Branch *branch) noexcept nogil:
    return children_of(branch) + 2 * branch.room

cdef inline uint32_t total_of(const uint32_t *numbers, int count) noexcept nogil:
    """The sum of the first `count` numbers (of entries, of which there are less than 2**32)."""
    cdef uint32_t total = 0
    cdef int i
    for i in range(count):
        total += numbers[i]
    return total

cdef uint64_t branch_bytes(const Branch *branch, Shape shape) noexcept nogil
cdef Branch *branch_new(int room, Shape shape) noexcept nogil
cdef void branch_free(Branch *branch) noexcept nogil
cdef void branch_copy(Branch *to, int to_slot, const Branch *source, int slot, int count,
                      Shape shape) noexcept nogil
