# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The roster: assigns each member a permanent, dense 32-bit id.

Rankings store ids of four bytes instead of members. Ids are assigned in the order in which members
are first seen, and never change or are reused, so an id may be stored anywhere.

**Structure.** Sixteen consecutive members are a group: sixteen 16-bit ends, then the members' bytes
one after another. Groups are in an arena of chunks that are never moved, so an insert copies only
its own bytes; the pointers to groups are on shelves of 4,096 members each. So a member's bytes are
one cache miss away (the shelves are small), and locating them takes 2.5 bytes per member. A table
(`table.pyx`) maps the hash of the bytes to the ids with that hash; then the bytes are compared. The
overhead is about 15 bytes per member in total.

**Hash.** 64-bit multiply and fold over words of eight bytes (after Lehmer; the mixing step of
wyhash), begun from a secret seed, so that nobody can choose members that collide.

**Invariants** (`check`): the ends of a group ascend and each group is in one chunk; every member is
found under its own hash with its own id; the table has exactly the members.
"""
from cpython cimport array
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, release_buffers, uints
from .table cimport (
    NONE, Segment, Slot, home_of, prefetch, segment_of, slot_after, slots_of, table_add,
    table_bytes, table_check, table_close, table_open, table_prefetch,
)

from laurels.errors import CheckFailed

cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    char *PyByteArray_AS_STRING(object array) noexcept

cdef enum:
    SMALLEST_CHUNK = 16384      # in bytes; each chunk is twice as large as the last, up to 1 MiB
    AHEAD = 16                  # how many members' cache lines are prefetched together
    MANY = 1000                 # the number of members from which the GIL is released

cdef array.array IDS = array.array("I")
cdef array.array FOUND = array.array("q")


cdef inline uint64_t fold_multiply(uint64_t left, uint64_t right) noexcept nogil:
    cdef uint128_t product = <uint128_t>left * right
    return <uint64_t>product ^ <uint64_t>(product >> 64)


cdef uint32_t hash_bytes(const uint8_t *start, uint32_t length, uint64_t seed) noexcept nogil:
    """Return the tag of a member: 32 bits of a seeded hash of its bytes."""
    cdef uint64_t mixed = seed ^ (length * <uint64_t>0x9E3779B97F4A7C15)
    cdef uint64_t word
    cdef uint32_t left = length
    while left >= 8:
        memcpy(&word, start, 8)
        mixed = fold_multiply(mixed ^ word, <uint64_t>0xA0761D6478BD642F)
        start += 8
        left -= 8
    if left:
        word = 0
        memcpy(&word, start, left)
        mixed = fold_multiply(mixed ^ word, <uint64_t>0xE7037ED1A0B428DB)
    return <uint32_t>(fold_multiply(mixed ^ seed, <uint64_t>0x8EBC6AF09C88C6E3) >> 32)


cdef inline bint are_same(const uint8_t *left, const uint8_t *right, uint32_t length) noexcept nogil:
    """Return whether `length` bytes are equal; inlined, since they are few."""
    cdef uint64_t one, other
    while length >= 8:
        memcpy(&one, left, 8)
        memcpy(&other, right, 8)
        if one != other:
            return False
        left += 8
        right += 8
        length -= 8
    while length:
        length -= 1
        if left[length] != right[length]:
            return False
    return True


cdef inline bint is_named(const Names *names, uint32_t member, const uint8_t *start,
                          uint32_t length) noexcept nogil:
    """Return whether a member of the roster has these bytes."""
    cdef uint32_t its_length = 0
    cdef const uint8_t *its = name_of(names, member, &its_length)
    return its_length == length and are_same(its, start, length)


cdef uint32_t find_member(Names *names, const uint8_t *start, uint32_t length,
                          uint32_t tag) noexcept nogil:
    """Return the id of a member, or NONE."""
    cdef Segment *segment = segment_of(&names.table, tag)
    cdef Slot *slots = slots_of(segment)
    cdef uint32_t at = home_of(segment, tag)
    while slots[at].value != NONE:
        if slots[at].tag == tag and is_named(names, slots[at].value, start, length):
            return slots[at].value
        at = slot_after(segment, at)
    return NONE


cdef uint32_t guess_member(Names *names, uint32_t tag) noexcept nogil:
    """Return the first id with a tag, almost always the only one, or NONE; used for prefetching."""
    cdef Segment *segment = segment_of(&names.table, tag)
    cdef Slot *slots = slots_of(segment)
    cdef uint32_t at = home_of(segment, tag)
    while slots[at].value != NONE:
        if slots[at].tag == tag:
            return slots[at].value
        at = slot_after(segment, at)
    return NONE


cdef inline uint64_t chunk_size(uint32_t number) noexcept nogil:
    return <uint64_t>SMALLEST_CHUNK << min(number, <uint32_t>6)


cdef bint add_chunk(Names *names) noexcept nogil:
    cdef uint64_t size = chunk_size(names.chunk_count)
    cdef uint8_t **chunks
    if names.chunk_count == names.chunk_capacity:
        chunks = <uint8_t **>realloc(names.chunks,
                                     (2 * names.chunk_capacity + 4) * sizeof(uint8_t *))
        if chunks == NULL:
            return False
        names.chunks = chunks
        names.chunk_capacity = 2 * names.chunk_capacity + 4
    names.free_start = <uint8_t *>malloc(size)
    if names.free_start == NULL:
        names.free_end = NULL
        return False
    names.free_end = names.free_start + size
    names.chunks[names.chunk_count] = names.free_start
    names.chunk_count += 1
    names.chunk_bytes += size
    return True


cdef bint add_shelf(Names *names) noexcept nogil:
    cdef uint32_t shelf = names.count // SHELF
    cdef Group ***shelves
    if shelf == names.shelf_capacity:
        shelves = <Group ***>realloc(names.shelves,
                                     (2 * names.shelf_capacity + 4) * sizeof(Group **))
        if shelves == NULL:
            return False
        names.shelves = shelves
        names.shelf_capacity = 2 * names.shelf_capacity + 4
    names.shelves[shelf] = <Group **>malloc(SHELF // GROUP * sizeof(Group *))
    return names.shelves[shelf] != NULL


cdef uint32_t shelves_made(const Names *names) noexcept nogil:
    return (names.groups * GROUP + SHELF - 1) // SHELF


cdef bint begin_group(Names *names) noexcept nogil:
    """Allocate the next group of sixteen members; return False if out of memory."""
    if names.free_end - names.free_start < <int64_t>(sizeof(Group) + GROUP * LONGEST):
        if not add_chunk(names):
            return False
    if names.count % SHELF == 0 and not add_shelf(names):
        return False
    names.free_start += <uintptr_t>names.free_start & 1
    names.shelves[names.count // SHELF][names.count % SHELF // GROUP] = <Group *>names.free_start
    names.free_start += sizeof(Group)
    return True


cdef uint32_t add_member(Names *names, const uint8_t *start, uint32_t length,
                         uint32_t tag) noexcept nogil:
    """Add a new member; return its id, or NONE if out of memory."""
    cdef uint32_t member = names.count
    cdef uint32_t place = member % GROUP
    cdef Group *group
    if member == NONE - 1:
        return NONE
    if place == 0 and names.groups == member // GROUP:
        if not begin_group(names):
            return NONE
        names.groups += 1
    if table_add(&names.table, tag, member) < 0:
        return NONE
    group = group_of(names, member)
    group.ends[place] = <uint16_t>((group.ends[place - 1] if place else 0) + length)
    memcpy(names.free_start, start, length)
    names.free_start += length
    names.count += 1
    return member


cdef int intern_all(Names *names, const uint8_t *arena, const uint8_t *lengths, Py_ssize_t count,
                    uint32_t *members) noexcept nogil:
    """Find or add the members in an arena, and set their ids; return -1 if out of memory.

    A search waits for the table, the group and the bytes, one after the other. So members are
    handled in blocks: each block prefetches all cache lines of one kind before it uses the first.
    """
    cdef uint32_t tags[AHEAD]
    cdef uint32_t guesses[AHEAD]
    cdef uint32_t length = 0
    cdef const uint8_t *start
    cdef Py_ssize_t first = 0
    cdef Py_ssize_t block, i
    while first < count:
        block = min(count - first, <Py_ssize_t>AHEAD)
        start = arena
        for i in range(block):
            tags[i] = hash_bytes(start, lengths[first + i], names.seed)
            table_prefetch(&names.table, tags[i])
            start += lengths[first + i]
        for i in range(block):
            guesses[i] = guess_member(names, tags[i])
            if guesses[i] != NONE:
                prefetch(group_of(names, guesses[i]))
        for i in range(block):
            if guesses[i] != NONE:
                prefetch(name_of(names, guesses[i], &length))
        for i in range(block):
            length = lengths[first + i]
            members[first + i] = guesses[i]
            if guesses[i] == NONE or not is_named(names, guesses[i], arena, length):
                members[first + i] = find_member(names, arena, length, tags[i])
            if members[first + i] == NONE:
                members[first + i] = add_member(names, arena, length, tags[i])
                if members[first + i] == NONE:
                    return -1
            arena += length
        first += block
    return 0


cdef const uint8_t *bytes_of_text(object text, Py_ssize_t *length) except NULL:
    """Return the bytes of a member that is a str or bytes."""
    if PyBytes_Check(text):
        length[0] = PyBytes_GET_SIZE(text)
        return <const uint8_t *>PyBytes_AS_STRING(text)
    return <const uint8_t *>PyUnicode_AsUTF8AndSize(text, length)


cdef uint32_t find_name(Names *names, object text) except? 0:
    """Return the id of a member that is a str or bytes, or NONE."""
    cdef Py_ssize_t length = 0
    cdef const uint8_t *start = bytes_of_text(text, &length)
    if not 0 < length <= LONGEST:
        return NONE
    return find_member(names, start, <uint32_t>length,
                       hash_bytes(start, <uint32_t>length, names.seed))


cdef int find_block(Names *names, list texts, Py_ssize_t first, Py_ssize_t count,
                    uint32_t *found) except -1:
    """Find the ids of up to AHEAD members from position `first` on, prefetching as in
    `intern_all`."""
    cdef const uint8_t *starts[AHEAD]
    cdef Py_ssize_t lengths[AHEAD]
    cdef uint32_t tags[AHEAD]
    cdef uint32_t guesses[AHEAD]
    cdef uint32_t member
    cdef uint32_t length = 0
    cdef Py_ssize_t i
    for i in range(count):
        prefetch(<void *>PyList_GET_ITEM(texts, first + i))
    for i in range(count):
        starts[i] = bytes_of_text(texts[first + i], &lengths[i])
        tags[i] = 0
        if 0 < lengths[i] <= LONGEST:
            tags[i] = hash_bytes(starts[i], <uint32_t>lengths[i], names.seed)
            table_prefetch(&names.table, tags[i])
    for i in range(count):
        guesses[i] = guess_member(names, tags[i])
        if guesses[i] != NONE:
            prefetch(group_of(names, guesses[i]))
    for i in range(count):
        if guesses[i] != NONE:
            prefetch(name_of(names, guesses[i], &length))
    for i in range(count):
        member = guesses[i] if 0 < lengths[i] <= LONGEST else NONE
        if member != NONE and not is_named(names, member, starts[i], <uint32_t>lengths[i]):
            member = find_member(names, starts[i], <uint32_t>lengths[i], tags[i])
        found[i] = member
    return 0


cdef int find_names(Names *names, list texts, Py_ssize_t first, Py_ssize_t count,
                    uint32_t *found) except -1:
    """Find the ids of `count` members (str or bytes) from position `first` on; set NONE for each
    unknown member."""
    cdef Py_ssize_t done
    for done in range(0, count, AHEAD):
        find_block(names, texts, first + done, min(count - done, <Py_ssize_t>AHEAD), found + done)
    return 0


cdef bint are_lengths_sound(const uint8_t *lengths, Py_ssize_t count,
                            Py_ssize_t total) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if lengths[i] == 0:
            return False
        total -= lengths[i]
    return total == 0


cdef bint is_in_chunk(const Names *names, const uint8_t *start, uint32_t length) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t size
    for i in range(names.chunk_count):
        size = chunk_size(i)
        if names.chunks[i] <= start and start + length <= names.chunks[i] + size:
            return True
    return False


cdef const char *check_names(Names *names) noexcept nogil:
    """Check every invariant of a roster; return the first fault found, or NULL."""
    cdef const char *fault = table_check(&names.table, names.count)
    cdef const uint8_t *start
    cdef uint32_t length = 0
    cdef uint32_t member
    if fault != NULL:
        return fault
    for member in range(names.count):
        start = name_of(names, member, &length)
        if not 0 < length <= LONGEST or not is_in_chunk(names, start, length):
            return "the bytes of a member are misplaced"
        if find_member(names, start, length, hash_bytes(start, length, names.seed)) != member:
            return "a member is not found by its bytes"
    return NULL


cdef str text_of(const Names *names, uint32_t member):
    cdef uint32_t length = 0
    cdef const uint8_t *start = name_of(names, member, &length)
    return PyUnicode_DecodeUTF8(<const char *>start, length, NULL)


cdef class Roster:
    """Members of 1 to 255 bytes and their ids. Not thread safe by itself.

    `seed` (64 bits) keys the hash; choose it at random if members come from untrusted sources.
    """

    def __cinit__(self, seed: int) -> None:
        self.registry.seed = <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)
        if table_open(&self.registry.table, False) < 0:
            raise MemoryError

    def __dealloc__(self) -> None:
        cdef uint32_t i
        for i in range(shelves_made(&self.registry)):
            free(self.registry.shelves[i])
        for i in range(self.registry.chunk_count):
            free(self.registry.chunks[i])
        free(self.registry.shelves)
        free(self.registry.chunks)
        table_close(&self.registry.table)

    def __len__(self) -> int:
        return self.registry.count

    @property
    def nbytes(self) -> int:
        """Bytes allocated. O(number of table segments)."""
        return (sizeof(Names) + table_bytes(&self.registry.table) + self.registry.chunk_bytes
                + shelves_made(&self.registry) * (SHELF // GROUP) * sizeof(Group *)
                + self.registry.shelf_capacity * sizeof(Group **)
                + self.registry.chunk_capacity * sizeof(uint8_t *))

    def intern(self, arena: object, lengths: object) -> array.array:
        """Return the ids of members that are concatenated in `arena` (lengths: one byte each).

        New members are added. O(bytes). Raises ValueError if the lengths do not add up or one is 0.
        """
        cdef BufferViews buffers
        cdef Py_ssize_t count
        cdef array.array members
        cdef const uint8_t *sizes
        cdef int outcome
        buffers.count = 0
        try:
            acquire_buffer(&buffers, arena, c'B')
            acquire_buffer(&buffers, lengths, c'B')
            count = items(&buffers, 1)
            sizes = <const uint8_t *>buffers.views[1].buf
            if not are_lengths_sound(sizes, count, items(&buffers, 0)):
                raise ValueError("expected lengths from 1 to 255 that add up to the arena")
            members = array.clone(IDS, count, False)
            if count < MANY:
                outcome = intern_all(&self.registry, <const uint8_t *>buffers.views[0].buf, sizes,
                                     count, members.data.as_uints)
            else:
                with nogil:
                    outcome = intern_all(&self.registry, <const uint8_t *>buffers.views[0].buf,
                                         sizes,
                                         count, members.data.as_uints)
            if outcome < 0:
                raise MemoryError
            return members
        finally:
            release_buffers(&buffers)

    def find(self, member: bytes) -> int:
        """Return the id of a member, -1 if it is unknown. O(bytes)."""
        cdef uint32_t found = find_name(&self.registry, member)
        return -1 if found == NONE else <int64_t>found

    def find_many(self, members: object) -> array.array:
        """Return the ids of members (str or bytes), -1 for each unknown one. O(bytes)."""
        cdef list texts = list(members)
        cdef array.array ids = array.clone(IDS, len(texts), False)
        cdef array.array found = array.clone(FOUND, len(texts), False)
        cdef uint32_t member
        cdef Py_ssize_t i
        find_names(&self.registry, texts, 0, len(texts), ids.data.as_uints)
        for i in range(len(texts)):
            member = ids.data.as_uints[i]
            found.data.as_longlongs[i] = -1 if member == NONE else <int64_t>member
        return found

    def name(self, id: int) -> str:
        """Return the member with an id. Raises IndexError for an unknown id. O(bytes)."""
        if not 0 <= id < self.registry.count:
            raise IndexError(f"no member has the id {id}")
        return text_of(&self.registry, id)

    def names(self, ids: object) -> list[str]:
        """Return the members with the ids in a u32 buffer, in its order. Raises IndexError for an
        unknown id. O(bytes)."""
        cdef BufferViews buffers
        cdef const uint32_t *wanted
        cdef Py_ssize_t i, count
        cdef list found
        buffers.count = 0
        try:
            acquire_buffer(&buffers, ids, c'I')
            count = items(&buffers, 0)
            wanted = uints(&buffers, 0)
            found = [None] * count
            for i in range(count):
                if i + AHEAD < count and wanted[i + AHEAD] < self.registry.count:
                    prefetch(group_of(&self.registry, wanted[i + AHEAD]))
                if wanted[i] >= self.registry.count:
                    raise IndexError(f"no member has the id {wanted[i]}")
                found[i] = text_of(&self.registry, wanted[i])
            return found
        finally:
            release_buffers(&buffers)

    def export(self, bytearray flags not None, Py_ssize_t start,
               Py_ssize_t stop) -> tuple[array.array, bytes, bytes]:
        """Return the members whose flag is 1 and whose id is at least `start` and less than `stop`,
        as three arrays: ids, concatenated bytes, number of bytes of each. Set these flags to 2.
        O(bytes)."""
        cdef Py_ssize_t last = min(stop, min(<Py_ssize_t>len(flags),
                                             <Py_ssize_t>self.registry.count))
        cdef list arena = []
        cdef bytearray lengths = bytearray()
        cdef list ids = []
        cdef const uint8_t *bytes_of
        cdef uint32_t length = 0
        cdef Py_ssize_t id
        for id in range(start, last):
            if flags[id] == 1:
                flags[id] = 2
                bytes_of = name_of(&self.registry, <uint32_t>id, &length)
                arena.append(PyBytes_FromStringAndSize(<const char *>bytes_of, length))
                lengths.append(length)
                ids.append(id)
        return array.array("I", ids), b"".join(arena), bytes(lengths)

    def check(self) -> None:
        """Check every invariant; CheckFailed names the first that does not hold. O(bytes)."""
        cdef const char *fault
        with nogil:
            fault = check_names(&self.registry)
        if fault != NULL:
            raise CheckFailed(f"roster: {fault.decode()}")


def set_flags(bytearray flags not None, object ids) -> None:
    """Set the flag of each id (u32) to 1 where it is 0. Raises IndexError for an id without a
    flag."""
    cdef BufferViews buffers
    cdef Py_ssize_t i, count
    cdef Py_ssize_t most = len(flags)
    cdef uint8_t *marks = <uint8_t *>PyByteArray_AS_STRING(flags)
    buffers.count = 0
    try:
        acquire_buffer(&buffers, ids, c'I')
        count = items(&buffers, 0)
        for i in range(count):
            if uints(&buffers, 0)[i] >= most:
                raise IndexError(f"no flag for the id {uints(&buffers, 0)[i]}")
            if marks[uints(&buffers, 0)[i]] == 0:
                marks[uints(&buffers, 0)[i]] = 1
    finally:
        release_buffers(&buffers)


def renumber(object ids, object numbers) -> array.array:
    """Return the item of `numbers` (u32) at the index of each id (u32). Raises IndexError for an id
    beyond the last number."""
    cdef BufferViews buffers
    cdef Py_ssize_t i, count, most
    cdef array.array found
    buffers.count = 0
    try:
        acquire_buffer(&buffers, ids, c'I')
        acquire_buffer(&buffers, numbers, c'I')
        count = items(&buffers, 0)
        most = items(&buffers, 1)
        found = array.clone(IDS, count, False)
        for i in range(count):
            if uints(&buffers, 0)[i] >= most:
                raise IndexError(f"no number for the id {uints(&buffers, 0)[i]}")
            found.data.as_uints[i] = uints(&buffers, 1)[uints(&buffers, 0)[i]]
        return found
    finally:
        release_buffers(&buffers)
