# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The journal: what a batch overwrites, for a batch that is to count whole or not at all.

Before each write of an entry or a cell, what the member had there is noted; undoing puts all back,
newest first. Of several notes of one entry the oldest is put back last, so nothing need be sought.
"""
cimport cython
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc

from laurels.engine.tally.cells cimport put_cell, read_cell, remove_cell
from laurels.engine.tree.entries cimport assign_at, discard, insert, seek
from laurels.engine.tree.leaf cimport leaf_read
from laurels.engine.tree.tree cimport Spot


cdef Note *add_note(Notes *book, uint32_t member) noexcept nogil:
    """Return room for one more note, or NULL without memory."""
    cdef Py_ssize_t room = 2 * book.room + 64
    cdef Note *notes
    if book.count == book.room:
        notes = <Note *>realloc(book.notes, room * sizeof(Note))
        if notes == NULL:
            return NULL
        book.notes = notes
        book.room = room
    book.count += 1
    book.notes[book.count - 1].tree = NULL
    book.notes[book.count - 1].cells = NULL
    book.notes[book.count - 1].member = member
    return &book.notes[book.count - 1]


cdef bint note_entry(Notes *book, Tree *tree, uint32_t member) noexcept nogil:
    """Before a write: note a member's entry (book NULL: nothing is kept). Return False without
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
    """As `note_entry`, of a member's cell."""
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
    """Undo one write; return False without memory."""
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
    """Undo every write, newest first; return False without memory."""
    while book.count > 0:
        book.count -= 1
        if not put_back(&book.notes[book.count]):
            return False
    return True


@cython.final
cdef class Journal:
    """Notes of what `apply` overwrote, in one or more calls."""

    def __cinit__(self) -> None:
        self.kept = set()

    def __dealloc__(self) -> None:
        free(self.book.notes)

    def __len__(self) -> int:
        return self.book.count

    def undo(self) -> None:
        """Put back all that was overwritten; the journal is empty then. O(log n) a write.

        This also takes back the half of a batch that was counted when `apply` ran out of memory.
        Between the calls noted and this one nothing else may have changed the rankings and
        tallies, nor a rolling window have turned or gone on with its pass.
        """
        cdef bint done
        with nogil:
            done = put_all_back(&self.book)
        if not done:
            raise MemoryError
        self.kept.clear()
