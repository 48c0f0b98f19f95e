# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from laurels.engine.tree.leaf cimport ids_of, leaf_find, leaf_read
from laurels.engine.tree.page cimport Leaf
from laurels.engine.roster.table cimport prefetch
from laurels.engine.tree.tree cimport Spot

cdef extern from *:
    """
    #define LAURELS_PLACES ((uint64_t)1 << 32)
    #ifndef LAURELS_BUCKET_MOST /* scripts/sanitize.sh also builds tiny ones, for large directories */
    #define LAURELS_BUCKET_MOST 128
    #endif
    """
    const uint64_t PLACES "LAURELS_PLACES"  # the number of places in hash order
    const int BUCKET_MOST "LAURELS_BUCKET_MOST"     # the most cells of a bucket

cdef enum:
    BUCKET_LINES = 8            # how many cache lines of a bucket to prefetch: its head and most ids

cdef struct Cells:
    Leaf *only                  # the one bucket while there is no directory; NULL: no cells
    Leaf **directory            # by the top bits of a place; with one bucket it points to `only`
    void *owner                 # the Tally whose cells these are
    int64_t number              # the number of the step
    uint64_t bytes              # the size of buckets and the directory
    uint32_t size               # the number of cells
    uint32_t deepest            # the number of buckets as deep as the directory
    uint8_t shift               # a place >> shift is its slot in the directory
    uint8_t words               # the number of words of a cell
    uint8_t draining            # whether buckets were freed: no cell is added any more

cdef inline uint64_t place_of(uint32_t member) noexcept nogil:
    """Return the place of a member in hash order, below PLACES."""
    return <uint32_t>(member * <uint32_t>0x9E3779B1)

cdef inline Leaf *bucket_of(const Cells *cells, uint32_t member) noexcept nogil:
    """Return the bucket in which a member's cell is, or in which it would be inserted; NULL if
    there is none."""
    return cells.directory[place_of(member) >> cells.shift]

cdef inline bint find_cell(const Cells *cells, uint32_t member, Spot *spot) noexcept nogil:
    """Find a member's cell; return False when it has none. O(1)."""
    spot.leaf = bucket_of(cells, member)
    if spot.leaf == NULL:
        return False
    spot.at = leaf_find(spot.leaf, cells.words, member)
    return spot.at >= 0

cdef inline bint read_cell(const Cells *cells, uint32_t member, int64_t *row) noexcept nogil:
    """Read all words of a member's cell; return False when it has none. O(1)."""
    cdef Spot spot
    if not find_cell(cells, member, &spot):
        return False
    leaf_read(spot.leaf, cells.words, spot.at, row)
    return True

cdef inline void prefetch_slot(const Cells *cells, uint32_t member) noexcept nogil:
    """Prefetch the directory's pointer to a member's bucket, well before its cell is used."""
    prefetch(cells.directory + (place_of(member) >> cells.shift))

cdef inline void prefetch_cell(const Cells *cells, uint32_t member) noexcept nogil:
    """Prefetch a member's bucket, shortly before its cell is used."""
    cdef Leaf *leaf = bucket_of(cells, member)
    cdef int line
    if leaf != NULL:
        for line in range(BUCKET_LINES):
            prefetch(<char *>leaf + 64 * line)

cdef void open_cells(Cells *cells, int words) noexcept nogil
cdef void close_cells(Cells *cells) noexcept nogil
cdef bint put_cell_at(Cells *cells, uint32_t member, const int64_t *row, Spot *spot,
                      bint present) noexcept nogil
cdef bint put_cell(Cells *cells, uint32_t member, const int64_t *row) noexcept nogil
cdef bint remove_cell(Cells *cells, uint32_t member) noexcept nogil
cdef uint64_t bucket_end(const Cells *cells, uint64_t place) noexcept nogil
cdef int next_bucket(const Cells *cells, uint64_t *place, Spot *spots) noexcept nogil
cdef void drain_to(Cells *cells, uint64_t place, uint64_t end) noexcept nogil
cdef const char *check_cells(const Cells *cells) noexcept nogil
