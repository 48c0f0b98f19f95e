# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""A table from 32-bit tags to 32-bit values that never stalls and whose memory follows its size.

**Structure.** Extendible hashing (Fagin, Nievergelt, Pippenger, Strong 1979): a directory of
2**depth pointers, indexed by the low bits of the tag, leads to segments; a segment of local depth
d holds the tags that agree in their low d bits, and 2**(depth - d) directory entries point to it.
A small table is one segment that grows in place. A segment that would have more than `HASHED_MOST`
slots splits in two, and the directory doubles if the segment was as deep as the directory. So no
single insert rebuilds more than one segment (tens of microseconds), however large the table.

**Segments** come in two forms, chosen anew whenever one is rebuilt:
- *hashed*: open addressing with linear probing, 8 bytes a slot, 62 to 80 % of the slots taken.
  A removal shifts later slots back, so there are no tombstones.
- *dense*: an array indexed by the bits of the tag that the directory does not use, 4 bytes an item.
A segment is dense if at least two in five items are used, because it is then smaller, and also
faster. Only tables of unique tags have dense segments.

**Tags.** The roster's tags are hashes and may repeat. So the roster itself walks the slots with the
same tag, and compares the members' bytes. The ranked set's tags are the member ids: ids are
assigned in sequence, so their low bits spread them evenly over the segments. A segment that has
most of the ids with its low bits is dense, whatever form other segments have.

**Invariants** (`table_check`): the indexes of directory entries that share a segment have the same
low bits, as many as its depth; every tag is in the segment of its low bits, reachable from its home
(the slot where its search begins) without crossing a free slot; `used` counts the taken slots; a
hashed segment has a free slot; unique tags occur once.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef enum:
    SMALLEST = 8            # the least capacity of a segment, in slots
    HASHED_MOST = 8192      # the most slots of a hashed segment; it splits rather than grow further
    DENSE_MOST = 20480      # the most places of a dense segment; it splits rather than grow further
    DEEPEST = 20            # a segment of this depth does not split, but grows
    MERGE_BELOW = 1024      # the size below which a segment may be joined with its buddy


cdef inline uint64_t size_of(bint dense, uint64_t capacity) noexcept nogil:
    return sizeof(Segment) + capacity * (sizeof(uint32_t) if dense else sizeof(Slot))


cdef inline bint is_hashed_full(const Segment *segment) noexcept nogil:
    return (<uint64_t>segment.used + 1) * 5 > <uint64_t>segment.capacity * 4


cdef void insert_slot(Segment *segment, uint32_t tag, uint32_t value) noexcept nogil:
    """Add a new tag to a segment that has a free slot for it."""
    cdef uint32_t at
    cdef Slot *slots
    segment.used += 1
    if segment.dense:
        places_of(segment)[tag >> segment.depth] = value
        return
    slots = slots_of(segment)
    at = home_of(segment, tag)
    while slots[at].value != NONE:
        at = slot_after(segment, at)
    slots[at].tag = tag
    slots[at].value = value


cdef void choose_form(const Slot *entries, uint32_t count, uint32_t low, uint32_t depth,
                      bint unique,
                      bint *dense, uint32_t *capacity) noexcept nogil:
    """Choose the smaller form for these tags, with room to grow by about an eighth.

    The exact capacity depends on `low`: segments fill evenly, and with equal capacities all would
    be rebuilt within one batch of inserts.
    """
    cdef uint32_t widest = 0
    cdef uint64_t spread = low * <uint32_t>0x9E3779B1
    cdef uint32_t i
    for i in range(count):
        if entries[i].tag >> depth > widest:
            widest = entries[i].tag >> depth
    dense[0] = unique and count > 0 and <uint64_t>(widest + 1) * 2 <= <uint64_t>count * 5
    if dense[0]:
        capacity[0] = widest + 1 + (widest >> 4) + <uint32_t>(spread * (widest >> 3) >> 32)
    else:
        capacity[0] = max(<uint32_t>SMALLEST, <uint32_t>(
            count + (count >> 1) + (spread * (count >> 3) >> 32) + 1))


cdef Segment *build(const Slot *entries, uint32_t count, uint32_t low, uint32_t depth,
                    bint unique) noexcept nogil:
    """Return a segment of these entries in the form that suits them, or NULL if out of memory."""
    cdef bint dense = False
    cdef uint32_t capacity = 0
    cdef uint32_t i
    cdef Segment *segment
    choose_form(entries, count, low, depth, unique, &dense, &capacity)
    segment = <Segment *>malloc(size_of(dense, capacity))
    if segment == NULL:
        return NULL
    segment.used = 0
    segment.capacity = capacity
    segment.depth = depth
    segment.dense = dense
    memset(segment + 1, 0xFF, size_of(dense, capacity) - sizeof(Segment))
    for i in range(count):
        insert_slot(segment, entries[i].tag, entries[i].value)
    return segment


cdef uint32_t copy_entries(Segment *segment, uint32_t low, Slot *entries) noexcept nogil:
    """Copy the entries of a segment whose tags end in the bits `low`; return their number."""
    cdef uint32_t count = 0
    cdef uint32_t i
    for i in range(segment.capacity):
        if not segment.dense:
            entries[count] = slots_of(segment)[i]
        else:
            entries[count].tag = (i << segment.depth) | low
            entries[count].value = places_of(segment)[i]
        count += entries[count].value != NONE
    return count


cdef void set_pointers(Table *table, uint32_t low, uint32_t depth, Segment *segment) noexcept nogil:
    """Set every directory entry whose index ends in the `depth` bits `low` to the segment."""
    cdef uint64_t i = low
    while i <= table.mask:
        table.directory[i] = segment
        i += <uint64_t>1 << depth


cdef bint double_directory(Table *table) noexcept nogil:
    cdef uint64_t size = <uint64_t>table.mask + 1
    cdef Segment **wider = <Segment **>malloc(2 * size * sizeof(Segment *))
    if wider == NULL:
        return False
    memcpy(wider, table.directory, size * sizeof(Segment *))
    memcpy(wider + size, table.directory, size * sizeof(Segment *))
    free(table.directory)
    table.directory = wider
    table.mask = <uint32_t>(2 * size - 1)
    table.depth += 1
    return True


cdef void halve_directory(Table *table) noexcept nogil:
    """Halve the directory while its upper half repeats the lower one."""
    cdef uint32_t half, i
    cdef Segment **narrower
    while table.depth > 0:
        half = (table.mask + 1) >> 1
        for i in range(half):
            if table.directory[i] != table.directory[i + half]:
                return
        narrower = <Segment **>malloc(half * sizeof(Segment *))
        if narrower == NULL:
            return
        memcpy(narrower, table.directory, half * sizeof(Segment *))
        free(table.directory)
        table.directory = narrower
        table.mask = half - 1
        table.depth -= 1


cdef bint split(Table *table, uint32_t low, uint32_t depth, Slot *entries,
                uint32_t count) noexcept nogil:
    """Divide the entries of a segment between two of the next depth; return False if out of
    memory."""
    cdef uint32_t zeros = 0
    cdef uint32_t i
    cdef Slot swapped
    cdef Segment *even
    cdef Segment *odd
    if depth == table.depth and not double_directory(table):
        return False
    for i in range(count):
        if not entries[i].tag >> depth & 1:
            swapped = entries[zeros]
            entries[zeros] = entries[i]
            entries[i] = swapped
            zeros += 1
    even = build(entries, zeros, low, depth + 1, table.unique)
    odd = build(entries + zeros, count - zeros, low | <uint32_t>1 << depth, depth + 1, table.unique)
    if even == NULL or odd == NULL:
        free(even)
        free(odd)
        return False
    set_pointers(table, low, depth + 1, even)
    set_pointers(table, low | <uint32_t>1 << depth, depth + 1, odd)
    return True


cdef bint rebuild(Table *table, uint32_t tag, uint32_t value) noexcept nogil:
    """Rebuild the segment of a tag, adding the tag (unless value is NONE); return False if out of
    memory."""
    cdef Segment *old = segment_of(table, tag)
    cdef Segment *new
    cdef uint32_t low = tag & ((<uint32_t>1 << old.depth) - 1)
    cdef uint32_t count, capacity = 0
    cdef bint dense = False
    cdef bint done
    cdef Slot *entries = <Slot *>malloc((<uint64_t>old.capacity + 1) * sizeof(Slot))
    if entries == NULL:
        return False
    count = copy_entries(old, low, entries)
    if value != NONE:
        entries[count].tag = tag
        entries[count].value = value
        count += 1
    choose_form(entries, count, low, old.depth, table.unique, &dense, &capacity)
    if capacity > <uint32_t>(DENSE_MOST if dense else HASHED_MOST) and old.depth < DEEPEST:
        done = split(table, low, old.depth, entries, count)
    else:
        new = build(entries, count, low, old.depth, table.unique)
        done = new != NULL
        if done:
            set_pointers(table, low, old.depth, new)
    free(entries)
    if done:
        free(old)
    return done


cdef void merge(Table *table, uint32_t tag) noexcept nogil:
    """Join the segment of a tag with its buddy if both together are small."""
    cdef Segment *segment = segment_of(table, tag)
    cdef Segment *buddy
    cdef Segment *joined
    cdef Slot *entries
    cdef uint32_t low, count
    if segment.depth == 0:
        return
    buddy = segment_of(table, tag ^ <uint32_t>1 << segment.depth - 1)
    if buddy.depth != segment.depth or segment.used + buddy.used > 2 * MERGE_BELOW:
        return
    entries = <Slot *>malloc((<uint64_t>segment.capacity + buddy.capacity + 1) * sizeof(Slot))
    if entries == NULL:
        return
    low = tag & ((<uint32_t>1 << segment.depth) - 1)
    count = copy_entries(segment, low, entries)
    count += copy_entries(buddy, low ^ <uint32_t>1 << segment.depth - 1, entries + count)
    low &= (<uint32_t>1 << segment.depth - 1) - 1
    joined = build(entries, count, low, segment.depth - 1, table.unique)
    free(entries)
    if joined == NULL:
        return
    set_pointers(table, low, joined.depth, joined)
    free(segment)
    free(buddy)
    halve_directory(table)


cdef int table_open(Table *table, bint unique) noexcept nogil:
    """Make an empty table; return -1 if out of memory."""
    table.depth = 0
    table.mask = 0
    table.unique = unique
    table.directory = <Segment **>calloc(1, sizeof(Segment *))
    if table.directory == NULL:
        return -1
    table.directory[0] = build(NULL, 0, 0, 0, unique)
    if table.directory[0] == NULL:
        free(table.directory)
        table.directory = NULL
        return -1
    return 0


cdef void table_close(Table *table) noexcept nogil:
    """Free all memory; do nothing for a table that was never opened (directory NULL)."""
    cdef uint64_t i
    if table.directory == NULL:
        return
    for i in range(<uint64_t>table.mask + 1):
        if i >> table.directory[i].depth == 0:
            continue
        table.directory[i] = NULL
    for i in range(<uint64_t>table.mask + 1):
        free(table.directory[i])
    free(table.directory)
    table.directory = NULL


cdef int table_add(Table *table, uint32_t tag, uint32_t value) noexcept nogil:
    """Add an entry without looking for its tag. O(1) amortised; return -1 if out of memory, with
    the table unchanged."""
    cdef Segment *segment = segment_of(table, tag)
    if segment.dense:
        if tag >> segment.depth < segment.capacity:
            insert_slot(segment, tag, value)
            return 0
    elif not is_hashed_full(segment):
        insert_slot(segment, tag, value)
        return 0
    return 0 if rebuild(table, tag, value) else -1


cdef int table_set(Table *table, uint32_t tag, uint32_t value) noexcept nogil:
    """Assign the value of a unique tag. This cannot fail if the tag exists. A new tag is added,
    with the result of `table_add`."""
    cdef Segment *segment = segment_of(table, tag)
    cdef uint32_t at
    cdef Slot *slots
    if segment.dense:
        at = tag >> segment.depth
        if at < segment.capacity and places_of(segment)[at] != NONE:
            places_of(segment)[at] = value
            return 0
        return table_add(table, tag, value)
    slots = slots_of(segment)
    at = home_of(segment, tag)
    while slots[at].value != NONE:
        if slots[at].tag == tag:
            slots[at].value = value
            return 0
        at = slot_after(segment, at)
    return table_add(table, tag, value)


cdef void close_gap(Segment *segment, uint32_t gap) noexcept nogil:
    """Shift the slots after a freed one back, so that each tag stays reachable from its home."""
    cdef Slot *slots = slots_of(segment)
    cdef uint32_t at = gap
    cdef uint32_t home
    while True:
        at = slot_after(segment, at)
        if slots[at].value == NONE:
            break
        home = home_of(segment, slots[at].tag)
        if (gap < home <= at) if gap < at else (home > gap or home <= at):
            continue
        slots[gap] = slots[at]
        gap = at
    slots[gap].value = NONE


cdef void table_drop(Table *table, uint32_t tag) noexcept nogil:
    """Remove an existing unique tag. O(1) amortised; shrinks and joins segments if possible."""
    cdef Segment *segment = segment_of(table, tag)
    cdef uint32_t at
    if segment.dense:
        places_of(segment)[tag >> segment.depth] = NONE
    else:
        at = home_of(segment, tag)
        while slots_of(segment)[at].tag != tag or slots_of(segment)[at].value == NONE:
            at = slot_after(segment, at)
        close_gap(segment, at)
    segment.used -= 1
    if <uint64_t>segment.used * 4 < segment.capacity and segment.capacity > SMALLEST:
        if rebuild(table, tag, NONE) and segment_of(table, tag).used < MERGE_BELOW:
            merge(table, tag)


cdef uint64_t table_bytes(Table *table) noexcept nogil:
    """Return the bytes allocated, without the Table itself. O(directory)."""
    cdef uint64_t i
    cdef uint64_t total = 0
    cdef Segment *segment
    if table.directory == NULL:
        return 0
    for i in range(<uint64_t>table.mask + 1):
        segment = table.directory[i]
        total += sizeof(Segment *)
        if i >> segment.depth == 0:
            total += size_of(segment.dense, segment.capacity)
    return total


cdef const char *check_hashed(Table *table, Segment *segment, uint32_t low) noexcept nogil:
    cdef Slot *slots = slots_of(segment)
    cdef uint32_t used = 0
    cdef uint32_t i, at
    for i in range(segment.capacity):
        if slots[i].value == NONE:
            continue
        used += 1
        if slots[i].tag & ((<uint32_t>1 << segment.depth) - 1) != low:
            return "a tag is in the wrong segment"
        at = home_of(segment, slots[i].tag)
        while at != i:
            if slots[at].value == NONE:
                return "a tag cannot be reached from its home"
            if table.unique and slots[at].tag == slots[i].tag:
                return "a unique tag occurs twice"
            at = slot_after(segment, at)
    if used != segment.used:
        return "the number of used slots of a hashed segment is wrong"
    if used >= segment.capacity:
        return "a hashed segment has no free slot"
    return NULL


cdef const char *check_dense(Table *table, Segment *segment) noexcept nogil:
    cdef uint32_t used = 0
    cdef uint32_t i
    for i in range(segment.capacity):
        used += places_of(segment)[i] != NONE
    if not table.unique:
        return "a table of repeated tags has a dense segment"
    if used != segment.used:
        return "the number of used places of a dense segment is wrong"
    return NULL


cdef const char *table_check(Table *table, uint64_t expected) noexcept nogil:
    """Check every invariant and the number of entries; return the first fault found, or NULL.
    O(n)."""
    cdef uint64_t i
    cdef uint64_t total = 0
    cdef uint32_t low
    cdef Segment *segment
    cdef const char *fault
    if <uint64_t>table.mask + 1 != <uint64_t>1 << table.depth:
        return "the directory's mask and depth differ"
    for i in range(<uint64_t>table.mask + 1):
        segment = table.directory[i]
        if segment.depth > table.depth:
            return "a segment is deeper than the directory"
        low = <uint32_t>i & ((<uint32_t>1 << segment.depth) - 1)
        if table.directory[low] != segment:
            return "directory entries of one class point to different segments"
        if low != i:
            continue
        total += segment.used
        fault = check_dense(table, segment) if segment.dense else check_hashed(table, segment, low)
        if fault != NULL:
            return fault
    if total != expected:
        return "the table does not have the expected number of entries"
    return NULL


# Tables of a known size


cdef uint32_t capacity_for_many(bint dense, uint64_t count, uint32_t tags, uint32_t low,
                                uint32_t depth) noexcept nogil:
    """Return the capacity of a segment if the entries are spread evenly over all segments, with
    some room to grow, as in `choose_form`."""
    cdef uint64_t spread = low * <uint32_t>0x9E3779B1
    cdef uint64_t share = (tags if dense else count) >> depth
    if dense:
        return <uint32_t>(share + 1 + (share >> 4) + (spread * (share >> 3) >> 32))
    return <uint32_t>(share + (share >> 2) + (share >> 4) + (spread * (share >> 3) >> 32) + SMALLEST)


cdef int table_open_for(Table *table, bint unique, uint64_t count, uint32_t tags) noexcept nogil:
    """Make an empty table that can take about `count` entries without splitting. If tags are
    unique, each of them must be less than `tags`. Return -1 if out of memory, with no table."""
    cdef bint dense = unique and count > 0 and <uint64_t>tags * 2 <= count * 5
    cdef uint32_t most = DENSE_MOST if dense else HASHED_MOST
    cdef uint32_t depth = 0
    cdef uint64_t low, size
    cdef Segment *segment
    while depth < DEEPEST and capacity_for_many(dense, count, tags, 0xFFFFFFFF, depth) > most:
        depth += 1
    table.depth = <uint8_t>depth
    table.mask = (<uint32_t>1 << depth) - 1
    table.unique = unique
    table.directory = <Segment **>calloc(<uint64_t>1 << depth, sizeof(Segment *))
    if table.directory == NULL:
        return -1
    for low in range(<uint64_t>1 << depth):
        size = size_of(dense, capacity_for_many(dense, count, tags, <uint32_t>low, depth))
        segment = <Segment *>malloc(size)
        if segment == NULL:
            close_until(table, low)
            return -1
        segment.used = 0
        segment.capacity = capacity_for_many(dense, count, tags, <uint32_t>low, depth)
        segment.depth = depth
        segment.dense = dense
        memset(segment + 1, 0xFF, size - sizeof(Segment))
        table.directory[low] = segment
    return 0


cdef void close_until(Table *table, uint64_t stop) noexcept nogil:
    """Free a table of which only the first `stop` segments were made."""
    cdef uint64_t low
    for low in range(stop):
        free(table.directory[low])
    free(table.directory)
    table.directory = NULL
