# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from .table cimport Table

cdef enum:
    GROUP = 16                  # how many members share a pointer into the arena
    SHELF = 4096                # how many members share an allocation of such pointers
    LONGEST = 255               # the most bytes of a member

cdef struct Group:              # followed by its members' bytes, one after another
    uint16_t ends[GROUP]        # the bytes of member j are from ends[j - 1] (or 0) to ends[j]

cdef struct Names:
    Group ***shelves            # arrays of pointers to SHELF // GROUP groups each
    uint32_t count
    uint32_t groups             # the number of groups
    uint32_t shelf_capacity     # the number of pointers allocated in shelves
    uint8_t **chunks
    uint32_t chunk_count
    uint32_t chunk_capacity     # the number of pointers allocated in chunks
    uint8_t *free_start         # the unused rest of the last chunk
    uint8_t *free_end
    uint64_t seed
    uint64_t chunk_bytes
    Table table

cdef inline Group *group_of(const Names *names, uint32_t member) noexcept nogil:
    return names.shelves[member // SHELF][member % SHELF // GROUP]

cdef inline const uint8_t *name_of(const Names *names, uint32_t member,
                                   uint32_t *length) noexcept nogil:
    """Return a pointer to the bytes of a member of the roster, and set `length` to their number.
    O(1)."""
    cdef const Group *group = group_of(names, member)
    cdef uint32_t place = member % GROUP
    cdef uint32_t start = group.ends[place - 1] if place else 0
    length[0] = group.ends[place] - start
    return <const uint8_t *>(group + 1) + start

cdef inline int compare_bytes(const uint8_t *left, uint32_t left_length,
                              const uint8_t *right, uint32_t right_length) noexcept nogil:
    """Compare bytes in ascending order, where a prefix is less than a longer text: return a
    negative number, 0 or a positive one."""
    cdef int order = memcmp(left, right, min(left_length, right_length))
    if order != 0:
        return order
    return (left_length > right_length) - (left_length < right_length)

cdef class Roster:
    cdef Names registry

cdef uint32_t find_name(Names *names, object text) except? 0

cdef int find_names(Names *names, list texts, Py_ssize_t first, Py_ssize_t count,
                    uint32_t *found) except -1

cdef str text_of(const Names *names, uint32_t member)
