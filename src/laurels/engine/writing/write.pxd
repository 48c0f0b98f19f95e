# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Writing an entry: find it, draft the new one, record the old one in the journal, and write."""
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.tree.entries cimport Hint, assign_at, insert, seek_near
from .journal cimport UndoLog, save_entry
from laurels.engine.tree.leaf cimport WORDS_MOST, leaf_read
from .rule cimport Draft
from laurels.engine.roster.table cimport NONE
from laurels.engine.tree.tree cimport Spot, Tree

cdef struct Write:              # an entry being written
    Tree *tree                  # the ranking; NULL: nothing is read or written
    Spot spot                   # where the entry is, if present
    Hint hint                   # where the entry is expected to be, and where it will move
    Draft draft

cdef inline void clear_hint(Hint *hint) noexcept nogil:
    hint.source = NONE
    hint.target = NULL

cdef inline void read_entry(Tree *tree, uint32_t member, Write *write) noexcept nogil:
    """Read the member's entry in a ranking (NULL: none)."""
    cdef Draft *draft = &write.draft
    cdef int word
    write.tree = tree
    draft.changed = False
    draft.write = False
    draft.present = tree != NULL and seek_near(tree, member, &write.hint, &write.spot)
    if draft.present:
        leaf_read(write.spot.leaf, tree.words, write.spot.at, draft.old)
        return
    for word in range(WORDS_MOST):
        draft.old[word] = 0

cdef inline bint write_entry(Write *write, uint32_t member, const int64_t *entry,
                             UndoLog *undo_log) noexcept nogil:
    """Write a member's entry that `read_entry` has found; return False if out of memory."""
    if not save_entry(undo_log, write.tree, member):
        return False
    if write.draft.present:
        return assign_at(write.tree, member, entry, &write.spot, &write.hint)
    return insert(write.tree, member, entry, &write.hint)
