# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The ranked set: members in ranking order, found by rank and by member, in O(log n).

This is the Python interface of `tree.pxd`: it takes and returns whole columns as buffers and loops
in C. An entry is a row of 64-bit words: first the columns, then the tie (if ties go by time), then
the stamp (if `last` columns need it), then the newest step (in rolling windows). Entries are in
ascending order of the columns and the tie, then of the member's bytes. The meaning of the words,
including their direction, is up to the caller.

Ranks and positions start at 0. A member is identified by its id in the roster and is in the set at
most once. Not thread safe by itself: threads that share a set need a lock around each call. Calls
over many entries release the GIL.
"""
cimport cython
from cpython cimport array
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .appending cimport append_leaf
from .audit cimport tree_check
from laurels.engine.buffers cimport (
    BufferViews, acquire_buffer, items, longs, release_buffers, uints,
)
from .entries cimport (
    FAR, LARGE, NEAR, NEXT, Hint, assign_at, discard, insert, predict_write, prefetch_entry,
    prefetch_place, seek, seek_near,
)
from .growth cimport tree_close, tree_open
from .leaf cimport WORDS_MOST, ids_of, leaf_read, leaf_unpack
from .order cimport bound, rank_of, select
from laurels.engine.roster.roster cimport Roster, find_name, find_names, text_of
from .rows cimport Rows, acquire_rows, check_ids, new_columns, new_ids, read_bounds, read_row
from .runs cimport neighbour
from .search cimport Key
from laurels.engine.roster.table cimport NONE, table_bytes
from .tree cimport Spot, Tree

from laurels.errors import CheckFailed

cdef extern from "Python.h":
    char *PyByteArray_AS_STRING(object array) noexcept nogil

ORDINAL = 0
COMPETITION = 1
DENSE = 2

cdef enum:
    MANY = 1000                 # the number of entries from which the GIL is released
    BLOCK = 256                 # how many members are looked up and ranked in one block

cdef array.array LONGS = array.array("q")


cdef inline void prefetch_ahead(Tree *tree, const uint32_t *ids, Py_ssize_t at,
                                Py_ssize_t stop) noexcept nogil:
    """Prefetch the memory that the next entries will need."""
    if at + FAR < stop:
        prefetch_place(tree, ids[at + FAR])
    if at + NEAR < stop:
        prefetch_entry(tree, ids[at + NEAR])


cdef void predict_put(Tree *tree, uint32_t member, const int64_t *entry, Hint *hint) noexcept nogil:
    cdef Spot spot
    if seek(tree, member, &spot):
        predict_write(tree, member, entry, &spot, hint)
    else:
        predict_write(tree, member, entry, NULL, hint)


cdef bint put_all(Tree *tree, const uint32_t *ids, const Rows *rows, Py_ssize_t start,
                  Py_ssize_t stop) noexcept nogil:
    """Assign the entries of rows, in their order. Rows at the beginning that sort after all entries
    of the tree are appended as whole leaves. Return False if out of memory."""
    cdef int64_t entry[WORDS_MOST]
    cdef Hint hints[NEXT]
    cdef Py_ssize_t i
    cdef Spot spot
    cdef bint done
    cdef int appended = append_leaf(tree, ids, rows, start, stop)
    while appended:
        start += appended
        appended = append_leaf(tree, ids, rows, start, stop)
    for i in range(NEXT):
        hints[i].source = NONE
        hints[i].target = NULL
    for i in range(start, stop):
        read_row(rows, tree.words, i, entry)
        if seek_near(tree, ids[i], &hints[i % NEXT], &spot):
            done = assign_at(tree, ids[i], entry, &spot, &hints[i % NEXT])
        else:
            done = insert(tree, ids[i], entry, &hints[i % NEXT])
        if not done:
            return False
        prefetch_ahead(tree, ids, i, stop)
        if tree.size > LARGE and i + NEXT < stop:
            read_row(rows, tree.words, i + NEXT, entry)
            predict_put(tree, ids[i + NEXT], entry, &hints[i % NEXT])
    return True


cdef Py_ssize_t discard_all(Tree *tree, const uint32_t *ids, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t removed = 0
    cdef Py_ssize_t i
    for i in range(count):
        prefetch_ahead(tree, ids, i, count)
        removed += discard(tree, ids[i])
    return removed


cdef void read_all(Tree *tree, const uint32_t *ids, Py_ssize_t count, char *present,
                   int64_t **columns) noexcept nogil:
    cdef int64_t entry[WORDS_MOST]
    cdef Py_ssize_t i
    cdef int word
    cdef Spot spot
    for i in range(count):
        prefetch_ahead(tree, ids, i, count)
        present[i] = seek(tree, ids[i], &spot)
        for word in range(tree.words):
            entry[word] = 0
        if present[i]:
            leaf_read(spot.leaf, tree.words, spot.at, entry)
        for word in range(tree.words):
            columns[word][i] = entry[word]


cdef void rank_all(Tree *tree, const uint32_t *ids, Py_ssize_t count, int style,
                   int64_t *ranks) noexcept nogil:
    cdef Py_ssize_t i
    cdef Spot spot
    for i in range(count):
        prefetch_ahead(tree, ids, i, count)
        ranks[i] = <int64_t>rank_of(tree, &spot, style) if seek(tree, ids[i], &spot) else -1


cdef void slice_all(Tree *tree, uint64_t start, uint64_t count, uint32_t *ids,
                    int64_t **columns) noexcept nogil:
    """Copy entries in order, leaf by leaf."""
    cdef uint64_t done = 0
    cdef Spot spot
    cdef int word, size
    if count:
        select(tree, start, &spot)
    while done < count:
        size = <int>min(<uint64_t>(spot.leaf.size - spot.at), count - done)
        memcpy(ids + done, ids_of(spot.leaf, tree.words) + spot.at, size * sizeof(uint32_t))
        for word in range(tree.words):
            leaf_unpack(spot.leaf, word, spot.at, spot.at + size, columns[word] + done)
        done += size
        if done < count:
            spot.leaf = neighbour(spot.leaf, 1)
            spot.at = 0


cdef bint are_columns_equal(Tree *tree, const Spot *left, const Spot *right) noexcept nogil:
    cdef int64_t entry[WORDS_MOST]
    cdef int64_t other[WORDS_MOST]
    cdef int column
    leaf_read(left.leaf, tree.columns, left.at, entry)
    leaf_read(right.leaf, tree.columns, right.at, other)
    for column in range(tree.columns):
        if entry[column] != other[column]:
            return False
    return True


cdef void ranks_in_order(Tree *tree, uint64_t start, uint64_t count, int style,
                         int64_t *ranks) noexcept nogil:
    """Compute the ranks of `count` consecutive entries from position `start`. Style 0 is the
    positions themselves. In the other styles only the first rank is searched for; the next ranks
    follow from comparing each entry with the previous one."""
    cdef uint64_t i
    cdef Spot spot, before
    if style == 0:
        for i in range(count):
            ranks[i] = <int64_t>(start + i)
        return
    if count:
        select(tree, start, &spot)
        ranks[0] = <int64_t>rank_of(tree, &spot, style)
    for i in range(1, count):
        before = spot
        spot.at += 1
        if spot.at == spot.leaf.size:
            spot.leaf = neighbour(spot.leaf, 1)
            spot.at = 0
        if are_columns_equal(tree, &before, &spot):
            ranks[i] = ranks[i - 1]
        else:
            ranks[i] = <int64_t>(start + i) if style == 1 else ranks[i - 1] + 1


cdef int check_style(Tree *tree, int style) except -1:
    if not 0 <= style <= 2:
        raise ValueError("expected the style ORDINAL, COMPETITION or DENSE")
    if style == 2 and not tree.dense:
        raise ValueError("this set was made without dense ranks")
    return 0


cdef list ranks_of(RankedSet ranked, list members, int style, int first, object absent):
    """Return the ranks of members, counted from `first`, and `absent` for each member that is not
    in the set."""
    cdef uint32_t ids[BLOCK]
    cdef int64_t ranks[BLOCK]
    cdef list found = []
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t count, i
    check_style(&ranked.tree, style)
    while place < len(members):
        count = min(len(members) - place, <Py_ssize_t>BLOCK)
        find_names(&ranked.roster.registry, members, place, count, ids)
        rank_all(&ranked.tree, ids, count, style, ranks)
        for i in range(count):
            found.append(absent if ranks[i] < 0 else ranks[i] + first)
        place += count
    return found


cdef int add_all(list items, const int64_t *values, uint64_t count) except -1:
    cdef uint64_t i
    for i in range(count):
        items.append(values[i])
    return 0


@cython.final
@cython.no_gc
cdef class RankedSet:
    """An ordered set of members of a roster.

    An entry has `columns` words of score (1 to 4) and, with `tie`, one word for the tie. With
    `stamped` and with `stepped` it has one more word each, which does not affect the order. With
    `dense` the set maintains the counts for dense ranks, which cost 4 bytes per hundred entries,
    and time in each write. The garbage collector does not track a set, since it refers only to its
    roster.
    """

    def __cinit__(self, Roster roster not None, *, int columns, bint tie, bint stamped,
                  bint dense, bint stepped = False) -> None:
        if not 1 <= columns <= 4:
            raise ValueError("expected 1 to 4 columns of a ranked set")
        self.roster = roster
        self.stamped = stamped
        self.stepped = stepped
        tree_open(&self.tree, &roster.registry, columns, columns + tie,
                  columns + tie + stamped + stepped, dense)

    def __dealloc__(self) -> None:
        if self.tree.size < MANY:
            tree_close(&self.tree)
        else:
            with nogil:
                tree_close(&self.tree)

    def __len__(self) -> int:
        return self.tree.size

    @property
    def width(self) -> int:
        """The number of words of an entry."""
        return self.tree.words

    @property
    def ordered(self) -> int:
        """The number of words that decide the order of an entry, before its member."""
        return self.tree.ordered

    @property
    def nbytes(self) -> int:
        """Bytes allocated, including this object. O(segments of the table)."""
        return <uint64_t>RankedSet.__basicsize__ + self.tree.bytes + table_bytes(&self.tree.places)

    def put(self, ids: object, words: object, start: int = 0, stop: int | None = None) -> None:
        """Assign the entries of members: insert them, or change their words. O(log n) each.

        `words` is one buffer of int64 per word, `ids` one of uint32; only the items at the
        positions `start` to `stop - 1` are read. Raises IndexError for an id that the roster has
        not assigned.
        """
        cdef BufferViews buffers
        cdef Rows rows
        cdef Py_ssize_t first, last
        cdef bint done
        buffers.count = 0
        try:
            acquire_rows(&buffers, ids, words, self.tree.words, &rows)
            read_bounds(&buffers, start, stop, &first, &last)
            check_ids(self.tree.names.count, uints(&buffers, 0) + first, last - first)
            if last - first < MANY:
                done = put_all(&self.tree, uints(&buffers, 0), &rows, first, last)
            else:
                with nogil:
                    done = put_all(&self.tree, uints(&buffers, 0), &rows, first, last)
            if not done:
                raise MemoryError
        finally:
            release_buffers(&buffers)

    def discard(self, ids: object) -> int:
        """Remove members; return how many of them were there. O(log n) each."""
        cdef BufferViews buffers
        cdef Py_ssize_t removed
        buffers.count = 0
        try:
            acquire_buffer(&buffers, ids, c'I')
            if items(&buffers, 0) < MANY:
                removed = discard_all(&self.tree, uints(&buffers, 0), items(&buffers, 0))
            else:
                with nogil:
                    removed = discard_all(&self.tree, uints(&buffers, 0), items(&buffers, 0))
            return removed
        finally:
            release_buffers(&buffers)

    def clear(self) -> None:
        """Remove every member and free the memory. O(n / 100)."""
        with nogil:
            tree_close(&self.tree)

    def words(self, ids: object) -> tuple[bytearray, list[array.array]]:
        """Return which of the members are there (1 or 0), and their words, 0 where absent. O(1)
        each."""
        cdef BufferViews buffers
        cdef int64_t *columns[WORDS_MOST]
        cdef Py_ssize_t count
        buffers.count = 0
        try:
            acquire_buffer(&buffers, ids, c'I')
            count = items(&buffers, 0)
            present = bytearray(count)
            words = new_columns(self.tree.words, count, columns)
            if count < MANY:
                read_all(&self.tree, uints(&buffers, 0), count, PyByteArray_AS_STRING(present),
                         columns)
            else:
                with nogil:
                    read_all(&self.tree, uints(&buffers, 0), count, PyByteArray_AS_STRING(present),
                             columns)
            return present, words
        finally:
            release_buffers(&buffers)

    def rank(self, uint32_t id, int style) -> int:
        """Return the rank of a member, from 0, or -1 if it is absent. O(log n).

        ORDINAL is the number of entries before the member's. COMPETITION is the number of entries
        whose columns sort before the member's columns. DENSE counts the same entries, but those
        with equal columns as one; it raises ValueError unless the set is dense.
        """
        cdef Spot spot
        check_style(&self.tree, style)
        return <int64_t>rank_of(&self.tree, &spot, style) if (
            seek(&self.tree, id, &spot)) else -1

    def ranks(self, ids: object, int style) -> array.array:
        """Return the ranks of members, like `rank`. O(log n) each."""
        cdef BufferViews buffers
        cdef array.array ranks
        cdef Py_ssize_t count
        check_style(&self.tree, style)
        buffers.count = 0
        try:
            acquire_buffer(&buffers, ids, c'I')
            count = items(&buffers, 0)
            ranks = array.clone(LONGS, count, False)
            if count < MANY:
                rank_all(&self.tree, uints(&buffers, 0), count, style,
                         <int64_t *>ranks.data.as_longlongs)
            else:
                with nogil:
                    rank_all(&self.tree, uints(&buffers, 0), count, style,
                             <int64_t *>ranks.data.as_longlongs)
            return ranks
        finally:
            release_buffers(&buffers)

    def rank_of(self, member: object, int style) -> int:
        """Return the rank of a member (str or bytes), like `rank`; also -1 for one that is not in
        the roster. O(log n)."""
        cdef uint32_t id = find_name(&self.roster.registry, member)
        cdef Spot spot
        check_style(&self.tree, style)
        return <int64_t>rank_of(&self.tree, &spot, style) if (
            seek(&self.tree, id, &spot)) else -1

    def ranks_of(self, members: object, int style) -> list[int]:
        """Return the ranks of members (str or bytes), like `rank`; also -1 for those that are not
        in the roster. O(log n) each."""
        return ranks_of(self, list(members), style, 0, -1)

    def ranks_from(self, members: object, int style, int first) -> list[int | None]:
        """Return the ranks of members, like `ranks_of`, but counted from `first`, and None for
        absent members."""
        return ranks_of(self, list(members), style, first, None)

    def slice(self, start: int, stop: int) -> tuple[array.array, list[array.array]]:
        """Return the ids and words of the entries at the positions `start` to `stop - 1`, in order.

        Positions past the end are left out, as in a slice of a list. O(log n + entries).
        """
        cdef int64_t *columns[WORDS_MOST]
        cdef uint64_t first = max(0, min(start, self.tree.size))
        cdef uint64_t count = max(0, min(stop, self.tree.size) - <int64_t>first)
        cdef array.array ids = new_ids(count)
        words = new_columns(self.tree.words, count, columns)
        if count < MANY:
            slice_all(&self.tree, first, count, ids.data.as_uints, columns)
        else:
            with nogil:
                slice_all(&self.tree, first, count, ids.data.as_uints, columns)
        return ids, words

    def list_entries(self, start: int, stop: int, int style) -> tuple[
            list[str], list[int], list[list[int]]]:
        """Return the members, the ranks and, column by column, the words of the entries that
        `slice` would return. O(log n + entries)."""
        cdef uint32_t ids[BLOCK]
        cdef int64_t ranks[BLOCK]
        cdef int64_t words[WORDS_MOST][BLOCK]
        cdef int64_t *columns[WORDS_MOST]
        cdef uint64_t first = max(0, min(start, self.tree.size))
        cdef uint64_t last = max(first, min(stop, self.tree.size))
        cdef uint64_t count, i
        cdef int word
        cdef list names = []
        cdef list places = []
        cdef list word_lists = []
        check_style(&self.tree, style)
        for word in range(self.tree.words):
            columns[word] = words[word]
            word_lists.append([])
        while first < last:
            count = min(last - first, <uint64_t>BLOCK)
            slice_all(&self.tree, first, count, ids, columns)
            ranks_in_order(&self.tree, first, count, style, ranks)
            for i in range(count):
                names.append(text_of(&self.roster.registry, ids[i]))
                places.append(ranks[i])
            for word in range(self.tree.words):
                add_all(<list>word_lists[word], words[word], count)
            first += count
        return names, places, word_lists

    def bound(self, words: object, member: bytes | None = None, *, bint right = False) -> int:
        """Return the number of entries before a key; with `right` also count equal ones. O(log n).

        The key has one or more of the words that decide the order, beginning with the first. If it
        has all of these words, it may also have the bytes of a member, which need not be in the
        roster. A key without a member is equal to every entry that begins with the words of the
        key.
        """
        cdef int64_t entry[WORDS_MOST]
        cdef Key key
        cdef int word = 0
        if len(words) > self.tree.ordered or (
                member is not None and len(words) != self.tree.ordered):
            raise ValueError(f"expected up to {self.tree.ordered} words, a member only after all")
        for value in words:
            entry[word] = value
            word += 1
        key.words = entry
        key.count = word
        key.named = member is not None
        key.member = NONE
        if member is not None:
            key.start = member
            key.length = <uint32_t>len(member)
        return bound(&self.tree, &key, right)

    def check(self) -> None:
        """Check every invariant; CheckFailed names the first that does not hold. O(n)."""
        cdef const char *fault
        with nogil:
            fault = tree_check(&self.tree)
        if fault != NULL:
            raise CheckFailed(f"ranked set: {fault.decode()}")
