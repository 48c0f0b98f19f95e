# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #define LAURELS_NONE ((uint32_t)0xFFFFFFFFu)
    #if defined(__GNUC__)
    /* Without the asm, GCC takes a function that only prefetches for one without effect. */
    #define laurels_prefetch(address) \\
        do { __builtin_prefetch(address); __asm__ volatile(""); } while (0)
    #else
    #define laurels_prefetch(address) ((void)(address))
    #endif
    """
    const uint32_t NONE "LAURELS_NONE"
    void prefetch "laurels_prefetch"(const void *address) noexcept nogil

cdef struct Slot:
    uint32_t tag
    uint32_t value              # NONE: the slot is free

cdef struct Segment:            # followed by Slot[capacity], or by uint32_t[capacity] when dense
    uint32_t used
    uint32_t capacity
    uint32_t depth
    uint32_t dense

cdef struct Table:
    Segment **directory
    uint32_t mask               # directory entries - 1
    uint8_t depth               # directory entries = 2**depth
    uint8_t unique

cdef inline Segment *segment_of(Table *table, uint32_t tag) noexcept nogil:
    return table.directory[tag & table.mask]

cdef inline Slot *slots_of(Segment *segment) noexcept nogil:
    return <Slot *>(segment + 1)

cdef inline uint32_t *places_of(Segment *segment) noexcept nogil:
    return <uint32_t *>(segment + 1)

cdef inline uint32_t home_of(const Segment *segment, uint32_t tag) noexcept nogil:
    """Return the slot where the search for a tag begins. The bits that the directory does not use
    are hashed as in Fibonacci hashing, but with the square root of 2 in place of the golden ratio.
    Tallies order members by the golden ratio. So if it were used here too, the searches for members
    that are added in the order of a tally would all begin at nearly the same slots."""
    cdef uint32_t mixed = (tag >> segment.depth) * <uint32_t>0x6A09E667
    return <uint32_t>((<uint64_t>mixed * segment.capacity) >> 32)

cdef inline uint32_t slot_after(const Segment *segment, uint32_t at) noexcept nogil:
    at += 1
    return 0 if at == segment.capacity else at

cdef inline uint32_t table_get(Table *table, uint32_t tag) noexcept nogil:
    """Return the value of a tag in a table of unique tags, or NONE. O(1)."""
    cdef Segment *segment = segment_of(table, tag)
    cdef uint32_t at
    cdef Slot *slots
    if segment.dense:
        at = tag >> segment.depth
        return places_of(segment)[at] if at < segment.capacity else NONE
    slots = slots_of(segment)
    at = home_of(segment, tag)
    while slots[at].value != NONE:
        if slots[at].tag == tag:
            return slots[at].value
        at = slot_after(segment, at)
    return NONE

cdef inline void table_prefetch(Table *table, uint32_t tag) noexcept nogil:
    """Prefetch the cache line where the search for a tag begins."""
    cdef Segment *segment = segment_of(table, tag)
    if not segment.dense:
        prefetch(slots_of(segment) + home_of(segment, tag))
    elif tag >> segment.depth < segment.capacity:
        prefetch(places_of(segment) + (tag >> segment.depth))

cdef int table_open(Table *table, bint unique) noexcept nogil
cdef void table_close(Table *table) noexcept nogil
cdef int table_add(Table *table, uint32_t tag, uint32_t value) noexcept nogil
cdef int table_set(Table *table, uint32_t tag, uint32_t value) noexcept nogil
cdef void table_drop(Table *table, uint32_t tag) noexcept nogil
cdef uint64_t table_bytes(Table *table) noexcept nogil
cdef const char *table_check(Table *table, uint64_t expected) noexcept nogil
cdef int table_open_for(Table *table, bint unique, uint64_t count, uint32_t tags) noexcept nogil
