# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t

from laurels.engine.writing.journal cimport UndoLog
from .ring cimport Rolling

cdef enum:
    SAME = 0                    # the candidates are unchanged
    OTHER = 1                   # a cell was written
    FAILED = -1                 # out of memory

cdef int add_candidate(Rolling *rolling, uint32_t member, const int64_t *row, int64_t step,
                       const int64_t *live, UndoLog *undo_log) noexcept nogil
