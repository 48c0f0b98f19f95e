# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The journal: the data that a batch overwrites, for undoing an all-or-nothing batch.

Before each write of an entry or a cell its old content is recorded; an undo restores the old
contents, newest first. If an entry has several records, the oldest is restored last, so no search
is needed.
"""
cimport cython
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc

from laurels.engine.tally.cells cimport put_cell, read_cell, remove_cell
from laurels.engine.tree.entries cimport assign_at, discard, insert, seek
from laurels.engine.tree.leaf cimport leaf_read
from laurels.engine.tree.tree cimport Spot


cdef UndoRecord *add_record(UndoLog *undo_log, uint32_t member) noexcept nogil:
    """Append a record and return it, or NULL if out of memory."""
    cdef Py_ssize_t capacity = 2 * undo_log.capacity + 64
    cdef UndoRecord *records
    if undo_log.count == undo_log.capacity:
        records = <UndoRecord *>realloc(undo_log.records, capacity * sizeof(UndoRecord))
        if records == NULL:
            return NULL
        undo_log.records = records
        undo_log.capacity = capacity
    undo_log.count += 1
    undo_log.records[undo_log.count - 1].tree = NULL
    undo_log.records[undo_log.count - 1].cells = NULL
    undo_log.records[undo_log.count - 1].member = member
    return &undo_log.records[undo_log.count - 1]


cdef bint save_entry(UndoLog *undo_log, Tree *tree, uint32_t member) noexcept nogil:
    """Record a member's entry before a write (undo_log NULL: do nothing). Return False if out of
    memory."""
    cdef UndoRecord *record
    cdef Spot spot
    if undo_log == NULL:
        return True
    record = add_record(undo_log, member)
    if record == NULL:
        return False
    record.tree = tree
    record.present = seek(tree, member, &spot)
    if record.present:
        leaf_read(spot.leaf, tree.words, spot.at, record.words)
    return True


cdef bint save_cell(UndoLog *undo_log, Cells *cells, uint32_t member) noexcept nogil:
    """Record a member's cell before a write, like `save_entry`."""
    cdef UndoRecord *record
    if undo_log == NULL:
        return True
    record = add_record(undo_log, member)
    if record == NULL:
        return False
    record.cells = cells
    record.present = read_cell(cells, member, record.words)
    return True


cdef bint restore_record(const UndoRecord *record) noexcept nogil:
    """Undo one write; return False if out of memory."""
    cdef Spot spot
    if record.tree == NULL:
        if record.present:
            return put_cell(record.cells, record.member, record.words)
        remove_cell(record.cells, record.member)
        return True
    if not record.present:
        discard(record.tree, record.member)
        return True
    if seek(record.tree, record.member, &spot):
        return assign_at(record.tree, record.member, record.words, &spot, NULL)
    return insert(record.tree, record.member, record.words, NULL)


cdef bint restore_all(UndoLog *undo_log) noexcept nogil:
    """Undo every write, newest first; return False if out of memory."""
    while undo_log.count > 0:
        undo_log.count -= 1
        if not restore_record(&undo_log.records[undo_log.count]):
            return False
    return True


@cython.final
cdef class Journal:
    """A record of the data that `apply` has overwritten, in one or more calls."""

    def __cinit__(self) -> None:
        self.owners = set()

    def __dealloc__(self) -> None:
        free(self.undo_log.records)

    def __len__(self) -> int:
        return self.undo_log.count

    def undo(self) -> None:
        """Restore everything that was overwritten; the journal is empty then. O(log n) per write.

        This also undoes the part of a batch that was counted before `apply` ran out of memory.
        Since the recorded calls, nothing else may have changed the rankings and tallies, and no
        rolling window may have moved on or continued its pass.
        """
        cdef bint done
        with nogil:
            done = restore_all(&self.undo_log)
        if not done:
            raise MemoryError
        self.owners.clear()
