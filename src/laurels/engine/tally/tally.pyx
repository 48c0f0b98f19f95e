# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The tally: the members' totals in one step, unordered.

This is the Python interface of `cells.pyx`: it takes and returns whole columns as buffers and loops
in C. A cell is a row of 64-bit words: the columns, then the tie (if ties go by time), then the
stamp (if `last` columns need it), then two links (with `best` columns: the number of steps back to
the member's previous candidate and on to the next one, 0 for none). A cell is the entry that the
step's events alone would make in an empty ranking. Not thread safe by itself.
"""
cimport cython
from cpython cimport array
from libc.stdint cimport int64_t, uint32_t, uint64_t

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, release_buffers, uints
from .cells cimport (
    BUCKET_MOST, PLACES, Cells, check_cells, close_cells, next_bucket, open_cells, prefetch_cell,
    prefetch_slot, put_cell, read_cell, remove_cell,
)
from laurels.engine.tree.entries cimport FAR, NEAR
from laurels.engine.tree.leaf cimport WORDS_MOST, ids_of, leaf_get
from laurels.engine.tree.rows cimport (
    Rows, acquire_rows, new_columns, new_ids, read_bounds, read_row,
)
from laurels.engine.tree.tree cimport Spot

from laurels.errors import CheckFailed

cdef extern from "Python.h":
    char *PyByteArray_AS_STRING(object array) noexcept nogil

cdef enum:
    MANY = 1000                 # the number of cells from which the GIL is released


cdef inline void prefetch_ahead(const Cells *cells, const uint32_t *ids, Py_ssize_t at,
                                Py_ssize_t last) noexcept nogil:
    """Prefetch the memory that the next cells will need."""
    if at + FAR < last:
        prefetch_slot(cells, ids[at + FAR])
    if at + NEAR < last:
        prefetch_cell(cells, ids[at + NEAR])


cdef bint put_cells(Cells *cells, const uint32_t *ids, const Rows *rows, Py_ssize_t first,
                    Py_ssize_t last) noexcept nogil:
    """Assign cells in order; return False if out of memory."""
    cdef int64_t row[WORDS_MOST]
    cdef Py_ssize_t i
    for i in range(first, last):
        prefetch_ahead(cells, ids, i, last)
        read_row(rows, cells.words, i, row)
        if not put_cell(cells, ids[i], row):
            return False
    return True


cdef Py_ssize_t remove_cells(Cells *cells, const uint32_t *ids, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t removed = 0
    cdef Py_ssize_t i
    for i in range(count):
        prefetch_ahead(cells, ids, i, count)
        removed += remove_cell(cells, ids[i])
    return removed


cdef void read_cells(const Cells *cells, const uint32_t *ids, Py_ssize_t count, char *present,
                     int64_t **columns) noexcept nogil:
    cdef int64_t row[WORDS_MOST]
    cdef Py_ssize_t i
    cdef int word
    for i in range(count):
        prefetch_ahead(cells, ids, i, count)
        present[i] = read_cell(cells, ids[i], row)
        for word in range(cells.words):
            columns[word][i] = row[word] if present[i] else 0


cdef Py_ssize_t copy_cells(const Cells *cells, uint64_t *place, Py_ssize_t limit, uint32_t *ids,
                           int64_t **columns) noexcept nogil:
    """Copy whole buckets in hash order until there are `limit` cells; return their number."""
    cdef Spot spots[BUCKET_MOST]
    cdef Py_ssize_t done = 0
    cdef int i, count, word
    if cells.size == 0:
        place[0] = PLACES
    while place[0] < PLACES and done < limit:
        count = next_bucket(cells, place, spots)
        for i in range(count):
            ids[done] = ids_of(spots[i].leaf, cells.words)[spots[i].at]
            for word in range(cells.words):
                columns[word][done] = leaf_get(spots[i].leaf, word, spots[i].at)
            done += 1
    return done


cdef Tally new_tally(int words, int64_t number):
    """Return the empty tally of a step."""
    cdef Tally tally = Tally.__new__(Tally, columns=1, tie=False, stamped=False, linked=False)
    tally.cells.words = <unsigned char>words
    tally.cells.number = number
    return tally


@cython.final
@cython.no_gc
cdef class Tally:
    """An unordered map from members, by id, to rows of words.

    `columns` words (1 to 4), then one if `tie`, then one if `stamped`, then two if `linked`.
    """

    def __cinit__(self, *, int columns, bint tie, bint stamped, bint linked) -> None:
        open_cells(&self.cells, columns + tie + stamped + 2 * linked)
        if not 1 <= columns <= 4 or (stamped and linked):
            raise ValueError("expected 1 to 4 columns, and not both stamps and links")
        self.cells.owner = <void *>self

    def __dealloc__(self) -> None:
        if self.cells.size < MANY:
            close_cells(&self.cells)
        else:
            with nogil:
                close_cells(&self.cells)

    def __len__(self) -> int:
        return self.cells.size

    @property
    def width(self) -> int:
        """The number of words of a cell."""
        return self.cells.words

    @property
    def number(self) -> int:
        """The number of the step; 0 for a tally outside of a rolling window."""
        return self.cells.number

    @property
    def nbytes(self) -> int:
        """Bytes allocated, including this object. O(1)."""
        return <uint64_t>Tally.__basicsize__ + self.cells.bytes

    def put(self, ids: object, words: object, start: int = 0, stop: int | None = None) -> None:
        """Assign the cells of members. O(1) each.

        `words` is one buffer of int64 per word, `ids` one of uint32; only the items at the
        positions `start` to `stop - 1` are read. Raises ValueError for a tally whose step has left
        its window.
        """
        cdef BufferViews buffers
        cdef Rows rows
        cdef Py_ssize_t first, last
        cdef bint done
        buffers.count = 0
        try:
            acquire_rows(&buffers, ids, words, self.cells.words, &rows)
            read_bounds(&buffers, start, stop, &first, &last)
            if self.cells.draining:
                raise ValueError("the step of this tally has left its window")
            if last - first < MANY:
                done = put_cells(&self.cells, uints(&buffers, 0), &rows, first, last)
            else:
                with nogil:
                    done = put_cells(&self.cells, uints(&buffers, 0), &rows, first, last)
            if not done:
                raise MemoryError
        finally:
            release_buffers(&buffers)

    def discard(self, ids: object) -> int:
        """Remove members; return how many of them were there. O(1) each."""
        cdef BufferViews buffers
        cdef Py_ssize_t removed
        buffers.count = 0
        try:
            acquire_buffer(&buffers, ids, c'I')
            if items(&buffers, 0) < MANY:
                removed = remove_cells(&self.cells, uints(&buffers, 0), items(&buffers, 0))
            else:
                with nogil:
                    removed = remove_cells(&self.cells, uints(&buffers, 0), items(&buffers, 0))
            return removed
        finally:
            release_buffers(&buffers)

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
            words = new_columns(self.cells.words, count, columns)
            if count < MANY:
                read_cells(&self.cells, uints(&buffers, 0), count, PyByteArray_AS_STRING(present),
                           columns)
            else:
                with nogil:
                    read_cells(&self.cells, uints(&buffers, 0), count,
                               PyByteArray_AS_STRING(present), columns)
            return present, words
        finally:
            release_buffers(&buffers)

    def scan(self, position: int, limit: int) -> tuple[array.array, list[array.array], int]:
        """Return ids and words of cells in hash order, from a place (`position`, 0 to 2**32) on.

        Whole buckets are returned, until there are `limit` cells or more. The last item is the
        place from which to continue, 2**32 at the end. Between calls cells may be added, changed
        and removed; a cell that exists during the whole scan is returned exactly once. O(cells +
        buckets).
        """
        cdef int64_t *columns[WORDS_MOST]
        cdef uint64_t place
        cdef Py_ssize_t most, count
        cdef array.array ids
        if not 0 <= position <= PLACES or limit < 1:
            raise ValueError("expected a position from 0 to 2**32, and a limit of 1 or more")
        place = position
        most = max(1, min(limit, <Py_ssize_t>self.cells.size))
        ids = new_ids(most + BUCKET_MOST)
        words = new_columns(self.cells.words, most + BUCKET_MOST, columns)
        with nogil:
            count = copy_cells(&self.cells, &place, most, ids.data.as_uints, columns)
        array.resize(ids, count)
        for column in words:
            array.resize(column, count)
        return ids, words, place

    def check(self) -> None:
        """Check every invariant; CheckFailed names the first that does not hold. O(cells)."""
        cdef const char *fault
        with nogil:
            fault = check_cells(&self.cells)
        if fault != NULL:
            raise CheckFailed(f"tally: {fault.decode()}")
