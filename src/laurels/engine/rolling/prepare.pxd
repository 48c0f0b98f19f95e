# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.tree.entries cimport Hint
from laurels.engine.writing.journal cimport UndoLog
from .ring cimport Rolling

cdef bint row_after(const Rolling *rolling, uint32_t member, const int64_t *live,
                    int64_t *row) noexcept nogil
cdef bint prepare(Rolling *rolling, uint32_t member, const int64_t *live, const Hint *hint,
                  UndoLog *undo_log) noexcept nogil
cdef void predict_prepared(Rolling *rolling, uint32_t member, const int64_t *live,
                           Hint *hint) noexcept nogil
cdef bint continue_pass(Rolling *rolling, int64_t limit) noexcept nogil
