# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint8_t, uint32_t

from laurels.engine.tally.cells cimport Cells
from laurels.engine.tree.leaf cimport WORDS_MOST
from laurels.engine.tree.tree cimport Tree

cdef struct UndoRecord:         # a member's entry or cell before a write
    Tree *tree                  # the ranking written to, or NULL
    Cells *cells                # the tally written to, or NULL
    uint32_t member
    uint8_t present
    int64_t words[WORDS_MOST]

cdef struct UndoLog:            # the records of a journal
    UndoRecord *records         # oldest first
    Py_ssize_t count
    Py_ssize_t capacity

cdef class Journal:
    cdef UndoLog undo_log
    cdef set owners             # the objects that own the structures in the records

cdef bint save_entry(UndoLog *undo_log, Tree *tree, uint32_t member) noexcept nogil
cdef bint save_cell(UndoLog *undo_log, Cells *cells, uint32_t member) noexcept nogil
