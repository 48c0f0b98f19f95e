# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from .leaf cimport Leaf
from .page cimport Branch, Page

cdef struct Shape:              # the properties that all branches of a tree share
    int words                   # the number of words of an edge
    bint dense                  # whether runs are counted

# A branch is a Page, followed by Leaf *edges, Page *children[capacity], uint32_t counts[capacity]
# and, if dense, uint32_t runs[capacity].

cdef inline Leaf **edges_at(const Branch *branch) noexcept nogil:
    return <Leaf **>(branch + 1)

cdef inline Leaf *edges_of(const Branch *branch) noexcept nogil:
    return edges_at(branch)[0]

cdef inline Page **children_of(const Branch *branch) noexcept nogil:
    return <Page **>(edges_at(branch) + 1)

cdef inline uint32_t *counts_of(const Branch *branch) noexcept nogil:
    return <uint32_t *>(children_of(branch) + branch.capacity)

cdef inline uint32_t *runs_of(const Branch *branch) noexcept nogil:
    return counts_of(branch) + branch.capacity

cdef inline int slot_of_child(const Branch *parent, const Page *child, int guess) noexcept nogil:
    """Return the slot of a child of a branch, searched outward from a guess."""
    cdef Page **children = children_of(parent)
    cdef int low = min(guess, parent.size - 1)
    cdef int high = low + 1
    while True:
        if low >= 0:
            if children[low] == child:
                return low
            low -= 1
        if high < parent.size:
            if children[high] == child:
                return high
            high += 1

cdef inline int slot_of(Page *page) noexcept nogil:
    """Return the slot of a page in its parent; the last known slot is tried first."""
    cdef int slot = page.slot
    if slot < page.up.size and children_of(page.up)[slot] == page:
        return slot
    slot = slot_of_child(page.up, page, slot)
    page.slot = <uint8_t>slot
    return slot

cdef inline uint32_t total_of(const uint32_t *numbers, int count) noexcept nogil:
    """Return the sum of the first `count` items of `numbers`, the numbers of entries (or of runs)
    under children. The sum is less than 2**32."""
    cdef uint32_t total = 0
    cdef int i
    for i in range(count):
        total += numbers[i]
    return total

cdef uint64_t branch_bytes(const Branch *branch, Shape shape) noexcept nogil
cdef Branch *branch_new(int capacity, Shape shape) noexcept nogil
cdef void branch_free(Branch *branch) noexcept nogil
cdef void branch_copy(Branch *to, int to_slot, const Branch *source, int slot, int count,
                      Shape shape) noexcept nogil
