# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
from libc.stdint cimport int64_t, uint32_t

from .ring cimport Rolling
from laurels.engine.writing.rule cimport Rule
from laurels.engine.tree.tree cimport Tree

cdef void add_cell(const Rule *rule, int64_t *words, const int64_t *cell,
                   bint first) noexcept nogil
cdef bint is_entry_equal(Tree *tree, uint32_t member, const int64_t *expected) noexcept nogil
cdef const char *recount(Rolling *rolling) noexcept nogil
