# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The cells of a tally: a map from members to rows of words, unordered, as compact as a leaf.

**Structure.** Extendible hashing (Fagin, Nievergelt, Pippenger, Strong 1979) with packed leaves
(`leaf.pyx`) for buckets. A member's *place* is its id times the golden ratio, modulo 2**32: ids are
given in sequence, so the places of all members are spread evenly and no two are the same; even if
members were chosen so that their places are close together, the directory takes less than a byte
for each member of the roster. The directory's 2**depth pointers are indexed by the top bits of the
place; a bucket of depth d holds the cells whose places agree in their top d bits (the *class* of
the bucket), and 2**(depth - d) neighbouring pointers lead to it. A full bucket splits in two, and
the directory doubles when the bucket was as deep as the directory; a bucket of few cells is joined
with its buddy. While all cells fit into one bucket there is no directory.

**Hash order.** The directory has the places in ascending order, and buckets only ever split and
join within it. So a scan that continues from the place it has reached returns each cell that exists
during the whole scan exactly once, whatever else changes meanwhile.

**Draining.** Nothing large is ever freed at once: the buckets of a tally whose step has left the
window are freed as the pass visits them (`drain_to`), their pointers become NULL, and no cell is
added any more.

**Invariants** (`check_cells`): all pointers of a bucket's class point to it; each cell's place is
in its bucket's class and no member is in it twice; `size`, `bytes` and `deepest` are right; no
bucket has more than BUCKET_MOST cells; only a draining tally has NULL in its directory. The depth
of a bucket is stored in the field `slot` of its header.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from laurels.engine.tree.leaf cimport (
    Stage, ids_of, leaf_bytes, leaf_check_form, leaf_find, leaf_insert, leaf_move, leaf_pack,
    leaf_remove, stage_append, stage_insert, stage_load,
)
from laurels.engine.tree.page cimport Leaf
from laurels.engine.tree.tree cimport Spot


cdef void open_cells(Cells *cells, int words) noexcept nogil:
    """Initialize an empty map in place; it allocates nothing."""
    memset(cells, 0, sizeof(Cells))
    cells.directory = &cells.only
    cells.shift = 32
    cells.words = <uint8_t>words


cdef inline uint64_t slots_in(const Cells *cells) noexcept nogil:
    """Return the number of pointers in the directory."""
    return <uint64_t>1 << (32 - cells.shift)


cdef inline uint64_t slots_of(const Cells *cells, const Leaf *leaf) noexcept nogil:
    """Return the number of pointers to a bucket."""
    return <uint64_t>1 << (32 - cells.shift - leaf.slot)


cdef inline uint64_t directory_bytes(const Cells *cells) noexcept nogil:
    return 0 if cells.shift == 32 else slots_in(cells) * sizeof(Leaf *)


cdef void set_bucket_pointers(Cells *cells, uint64_t place, Leaf *leaf) noexcept nogil:
    """Set all pointers of a bucket's class to the bucket; `place` is any place in the class."""
    cdef uint64_t count = slots_of(cells, leaf)
    cdef uint64_t first = (place >> cells.shift) & ~(count - 1)
    cdef uint64_t slot
    for slot in range(first, first + count):
        cells.directory[slot] = leaf


cdef void drop_directory(Cells *cells) noexcept nogil:
    cells.bytes -= directory_bytes(cells)
    if cells.shift < 32:
        free(cells.directory)
    cells.directory = &cells.only
    cells.shift = 32


cdef void close_cells(Cells *cells) noexcept nogil:
    """Free all memory; the map is empty and usable. O(buckets)."""
    cdef uint64_t slot = 0
    cdef uint64_t slots = slots_in(cells)
    cdef uint64_t step
    cdef Leaf *leaf
    while slot < slots:
        leaf = cells.directory[slot]
        step = 1 if leaf == NULL else slots_of(cells, leaf)
        free(leaf)
        slot += step
    drop_directory(cells)
    cells.only = NULL
    cells.bytes = 0
    cells.size = 0
    cells.deepest = 0
    cells.draining = False


# Growing


cdef bint double_directory(Cells *cells) noexcept nogil:
    """Duplicate every pointer of the directory; return False if out of memory."""
    cdef uint64_t slots = slots_in(cells)
    cdef uint64_t slot
    cdef Leaf **wider = <Leaf **>malloc(2 * slots * sizeof(Leaf *))
    if wider == NULL:
        return False
    for slot in range(slots):
        wider[2 * slot] = cells.directory[slot]
        wider[2 * slot + 1] = cells.directory[slot]
    cells.bytes -= directory_bytes(cells)
    if cells.shift < 32:
        free(cells.directory)
    cells.directory = wider
    cells.shift -= 1
    cells.bytes += directory_bytes(cells)
    cells.deepest = 0
    return True


cdef int partition_cells(const Cells *cells, const Leaf *leaf, Stage *stage) noexcept nogil:
    """Stage the cells of a bucket in two parts, by the first bit in which their places differ;
    return the size of the first part."""
    cdef const uint32_t *ids = ids_of(leaf, cells.words)
    cdef uint64_t bit = <uint64_t>1 << (31 - leaf.slot)
    cdef int zeros = 0
    cdef int at
    stage.size = 0
    for at in range(leaf.size):
        if not place_of(ids[at]) & bit:
            stage_append(stage, cells.words, leaf, at)
    zeros = stage.size
    for at in range(leaf.size):
        if place_of(ids[at]) & bit:
            stage_append(stage, cells.words, leaf, at)
    return zeros


cdef bint split_bucket(Cells *cells, uint64_t place, Leaf *leaf) noexcept nogil:
    """Split a bucket in two; `place` is any place in its class. Return False if out of memory."""
    cdef uint8_t depth = <uint8_t>(leaf.slot + 1)
    cdef uint64_t bit = <uint64_t>1 << (32 - depth)
    cdef Stage stage
    cdef int zeros = partition_cells(cells, leaf, &stage)
    cdef Leaf *low = leaf_pack(&stage, cells.words, 0, zeros)
    cdef Leaf *high = leaf_pack(&stage, cells.words, zeros, stage.size)
    if low == NULL or high == NULL or (
            depth > 32 - cells.shift and not double_directory(cells)):
        free(low)
        free(high)
        return False
    low.slot = depth
    high.slot = depth
    set_bucket_pointers(cells, place & ~bit, low)
    set_bucket_pointers(cells, place | bit, high)
    cells.deepest += 2 if depth == 32 - cells.shift else 0
    cells.bytes += leaf_bytes(low, cells.words) + leaf_bytes(high, cells.words)
    cells.bytes -= leaf_bytes(leaf, cells.words)
    free(leaf)
    return True


cdef bint insert_first(Cells *cells, uint32_t member, const int64_t *row) noexcept nogil:
    """Begin an empty map with one cell; return False if out of memory."""
    cdef Stage stage
    stage.size = 0
    stage_insert(&stage, cells.words, 0, member, row)
    cells.only = leaf_pack(&stage, cells.words, 0, 1)
    if cells.only == NULL:
        return False
    cells.bytes = leaf_bytes(cells.only, cells.words)
    cells.size = 1
    cells.deepest = 1
    return True


cdef inline void replace_bucket(Cells *cells, uint64_t place, Leaf *old, Leaf *leaf,
                                uint64_t old_bytes) noexcept nogil:
    """Record a bucket's new address and size."""
    cells.bytes += leaf_bytes(leaf, cells.words) - old_bytes
    if leaf != old:
        set_bucket_pointers(cells, place, leaf)


cdef bint put_cell_at(Cells *cells, uint32_t member, const int64_t *row, Spot *spot,
                      bint present) noexcept nogil:
    """Assign a member's cell, like `put_cell`, given the result of `find_cell` just before."""
    cdef uint64_t place = place_of(member)
    cdef uint64_t old_bytes
    cdef Leaf *leaf
    if cells.draining:
        return False
    if spot.leaf == NULL:
        return insert_first(cells, member, row)
    while not present and spot.leaf.size >= BUCKET_MOST:
        if not split_bucket(cells, place, spot.leaf):
            return False
        spot.leaf = bucket_of(cells, member)
    old_bytes = leaf_bytes(spot.leaf, cells.words)
    if present:
        leaf = leaf_move(spot.leaf, cells.words, spot.at, spot.at, row)
    else:
        leaf = leaf_insert(spot.leaf, cells.words, spot.leaf.size, member, row)
    if leaf == NULL:
        return False
    replace_bucket(cells, place, spot.leaf, leaf, old_bytes)
    cells.size += not present
    return True


cdef bint put_cell(Cells *cells, uint32_t member, const int64_t *row) noexcept nogil:
    """Assign a member's cell. O(1) amortised; return False if out of memory (or while draining),
    with nothing changed."""
    cdef Spot spot
    cdef bint present = find_cell(cells, member, &spot)
    return put_cell_at(cells, member, row, &spot, present)


# Shrinking


cdef bint halve_directory(Cells *cells) noexcept nogil:
    """Halve the directory by dropping every second pointer. Each bucket must have at least two
    pointers. Return False if out of memory."""
    cdef uint64_t slots = slots_in(cells) >> 1
    cdef uint64_t slot
    cdef Leaf **narrower
    cdef Leaf *only = cells.directory[0]
    if slots == 1:
        drop_directory(cells)
        cells.only = only
        cells.deepest = 1
        return True
    narrower = <Leaf **>malloc(slots * sizeof(Leaf *))
    if narrower == NULL:
        return False
    for slot in range(slots):
        narrower[slot] = cells.directory[2 * slot]
    cells.bytes -= directory_bytes(cells)
    free(cells.directory)
    cells.directory = narrower
    cells.shift += 1
    cells.bytes += directory_bytes(cells)
    for slot in range(slots):
        cells.deepest += narrower[slot].slot == 32 - cells.shift
    return True


cdef bint join_buckets(Cells *cells, uint64_t place, Leaf *leaf) noexcept nogil:
    """Join a bucket with its buddy if both together fill at most half a bucket; return whether
    they were joined."""
    cdef uint64_t other = place ^ (<uint64_t>1 << (32 - leaf.slot))
    cdef Leaf *buddy = cells.directory[other >> cells.shift] if leaf.slot else NULL
    cdef Stage stage
    cdef Leaf *joined
    if buddy == NULL or buddy.slot != leaf.slot or leaf.size + buddy.size > BUCKET_MOST // 2:
        return False
    stage.size = 0
    stage_load(&stage, leaf, cells.words)
    stage_load(&stage, buddy, cells.words)
    joined = leaf_pack(&stage, cells.words, 0, stage.size)
    if joined == NULL:
        return False
    joined.slot = <uint8_t>(leaf.slot - 1)
    cells.deepest -= 2 if leaf.slot == 32 - cells.shift else 0
    cells.bytes += leaf_bytes(joined, cells.words)
    cells.bytes -= leaf_bytes(leaf, cells.words) + leaf_bytes(buddy, cells.words)
    set_bucket_pointers(cells, place, joined)
    free(leaf)
    free(buddy)
    return True


cdef void rebalance_bucket(Cells *cells, uint64_t place) noexcept nogil:
    """After a removal, join a bucket of few cells with its buddy, repeatedly while this is
    possible."""
    cdef Leaf *leaf = cells.directory[place >> cells.shift]
    while leaf.size <= BUCKET_MOST // 4 and join_buckets(cells, place, leaf):
        leaf = cells.directory[place >> cells.shift]
    while cells.deepest == 0 and halve_directory(cells):
        pass


cdef bint remove_cell(Cells *cells, uint32_t member) noexcept nogil:
    """Remove a member's cell; return whether it had one. O(1) amortised; never fails."""
    cdef uint64_t place = place_of(member)
    cdef uint64_t old_bytes
    cdef Spot spot
    cdef Leaf *leaf
    if not find_cell(cells, member, &spot):
        return False
    old_bytes = leaf_bytes(spot.leaf, cells.words)
    leaf = leaf_remove(spot.leaf, cells.words, spot.at)
    replace_bucket(cells, place, spot.leaf, leaf, old_bytes)
    cells.size -= 1
    if cells.size == 0:
        close_cells(cells)
    elif not cells.draining:
        rebalance_bucket(cells, place)
    return True


# In hash order


cdef uint64_t bucket_end(const Cells *cells, uint64_t place) noexcept nogil:
    """Return the first place in hash order after the bucket that contains `place`."""
    cdef Leaf *leaf = cells.directory[place >> cells.shift]
    cdef int bits = cells.shift if leaf == NULL else 32 - leaf.slot
    return ((place >> bits) + 1) << bits


cdef int next_bucket(const Cells *cells, uint64_t *place, Spot *spots) noexcept nogil:
    """Find the cells of the bucket at `place`, without those before `place`, at most BUCKET_MOST;
    return their number. Set `place` to the first place after the bucket.
    """
    cdef Leaf *leaf = cells.directory[place[0] >> cells.shift]
    cdef int count = 0
    cdef int at
    if leaf != NULL:
        for at in range(leaf.size):
            if place_of(ids_of(leaf, cells.words)[at]) >= place[0]:
                spots[count].leaf = leaf
                spots[count].at = at
                count += 1
    place[0] = bucket_end(cells, place[0])
    return count


cdef void drain_to(Cells *cells, uint64_t place, uint64_t end) noexcept nogil:
    """Free all buckets between two places in hash order: `place`, where a bucket begins, and `end`,
    where the last of them ends."""
    cdef uint64_t after
    cdef uint64_t slot
    cdef Leaf *leaf
    cells.draining = True
    while place < end and cells.size > 0:
        after = bucket_end(cells, place)
        leaf = cells.directory[place >> cells.shift]
        if leaf != NULL:
            cells.size -= leaf.size
            cells.bytes -= leaf_bytes(leaf, cells.words)
            for slot in range(place >> cells.shift, after >> cells.shift):
                cells.directory[slot] = NULL
            free(leaf)
        place = after
    if cells.size == 0:
        close_cells(cells)


# Checking


cdef const char *check_bucket(const Cells *cells, uint64_t slot, const Leaf *leaf) noexcept nogil:
    cdef const uint32_t *ids = ids_of(leaf, cells.words)
    cdef uint64_t other
    cdef int at
    if leaf.slot > 32 - cells.shift or slot & (slots_of(cells, leaf) - 1):
        return "a bucket is deeper than the directory, or does not begin where its class begins"
    for other in range(slot, slot + slots_of(cells, leaf)):
        if cells.directory[other] != leaf:
            return "the pointers of a class are to different buckets"
    if leaf.size > BUCKET_MOST:
        return "a bucket is too full"
    for at in range(leaf.size):
        if cells.directory[place_of(ids[at]) >> cells.shift] != leaf:
            return "a cell is in the wrong bucket"
        if leaf_find(leaf, cells.words, ids[at]) != at:
            return "a member has two cells"
    return leaf_check_form(leaf, cells.words)


cdef const char *check_cells(const Cells *cells) noexcept nogil:
    """Check every invariant; return the first fault found, or NULL. O(cells)."""
    cdef uint64_t slot = 0
    cdef uint64_t size = 0
    cdef uint64_t deepest = 0
    cdef uint64_t allocated = directory_bytes(cells)
    cdef const char *fault
    cdef Leaf *leaf
    while slot < slots_in(cells):
        leaf = cells.directory[slot]
        if leaf == NULL:
            if cells.size and not cells.draining:
                return "a pointer of the directory is NULL"
            slot += 1
            continue
        fault = check_bucket(cells, slot, leaf)
        if fault != NULL:
            return fault
        size += leaf.size
        allocated += leaf_bytes(leaf, cells.words)
        deepest += leaf.slot == 32 - cells.shift
        slot += slots_of(cells, leaf)
    if size != cells.size or allocated != cells.bytes:
        return "the map's number of cells or of bytes is wrong"
    if deepest != cells.deepest and not cells.draining:
        return "the map's number of deepest buckets is wrong"
    return NULL
