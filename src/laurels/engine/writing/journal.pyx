# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The journal: the data that a batch overwrites, for undoing an all-or-nothing batch.

Before each write of an entry or a cell its old content is noted; undoing restores these, newest
first. If an entry has several notes, the oldest is restored last, so no search is needed.
"""
cimport cython
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc

from laurels.engine.tally.cells cimport put_cell, read_cell, remove_cell
from laurels.engine.tree.entries cimport assign_at, discard, insert, seek
from laurels.engine.tree.leaf cimport leaf_read
from laurels.engine.tree.tree cimport Spot


cdef Note *add_note(Notes *book, uint32_t member) noexcept nogil:
    """Return room for one more note, or NULL if out of memory."""
    cdef Py_ssize_t capacity = 2 * book.capacity + 64
    cdef Note *notes
    if book.count == book.capacity:
        notes = <Note *>realloc(book.notes, capacity * sizeof(Note))
        if notes == NULL:
            return NULL
        book.notes = notes
        book.capacity = capacity
    book.count += 1
    book.notes[book.count - 1].tree = NULL
    book.notes[book.count - 1].cells = NULL
    book.notes[book.count - 1].member = member
    return &book.notes[book.count - 1]


cdef bint note_entry(Notes *book, Tree *tree, uint32_t member) noexcept nogil:
    """Note a member's entry before a write (book NULL: do nothing). Return False if out of
    memory."""
    cdef Note *note
    cdef Spot spot
    if book == NULL:
        return True
    note = add_note(book, member)
    if note == NULL:
        return False
    note.tree = tree
    note.present = seek(tree, member, &spot)
    if note.present:
        leaf_read(spot.leaf, tree.words, spot.at, note.words)
    return True


cdef bint note_cell(Notes *book, Cells *cells, uint32_t member) noexcept nogil:
    """Note a member's cell before a write, like `note_entry`."""
    cdef Note *note
    if book == NULL:
        return True
    note = add_note(book, member)
    if note == NULL:
        return False
    note.cells = cells
    note.present = read_cell(cells, member, note.words)
    return True


cdef bint put_back(const Note *note) noexcept nogil:
    """Undo one write; return False if out of memory."""
    cdef Spot spot
    if note.tree == NULL:
        if note.present:
            return put_cell(note.cells, note.member, note.words)
        remove_cell(note.cells, note.member)
        return True
    if not note.present:
        discard(note.tree, note.member)
        return True
    if seek(note.tree, note.member, &spot):
        return assign_at(note.tree, note.member, note.words, &spot, NULL)
    return insert(note.tree, note.member, note.words, NULL)


cdef bint put_all_back(Notes *book) noexcept nogil:
    """Undo every write, newest first; return False if out of memory."""
    while book.count > 0:
        book.count -= 1
        if not put_back(&book.notes[book.count]):
            return False
    return True


@cython.final
cdef class Journal:
    """Notes of the data that `apply` has overwritten, in one or more calls."""

    def __cinit__(self) -> None:
        self.kept = set()

    def __dealloc__(self) -> None:
        free(self.book.notes)

    def __len__(self) -> int:
        return self.book.count

    def undo(self) -> None:
        """Restore everything that was overwritten; the journal is empty then. O(log n) per write.

        This also undoes the part of a batch that was counted before `apply` ran out of memory.
        Since the noted calls, nothing else may have changed the rankings and tallies, and no
        rolling window may have turned or continued its pass.
        """
        cdef bint done
        with nogil:
            done = put_all_back(&self.book)
        if not done:
            raise MemoryError
        self.kept.clear()
