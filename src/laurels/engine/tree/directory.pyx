# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The directory of a tree's leaves: numbers that stay the same when leaves move in memory.

The table maps a member to the number of its leaf, and the directory maps the number to the leaf. So
when a leaf moves in memory, only one pointer changes, and the table changes only for members that
go to another leaf. Pointers are in chunks of 32, which are never moved. The item of a used number
is the address of its leaf, which is even. The item of a free number is odd, and has the next free
number: the free numbers form a linked list.
"""
from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc

from .leaf cimport ids_of
from .page cimport Leaf
from laurels.engine.roster.table cimport NONE, table_close, table_open, table_prefetch, table_set
from .tree cimport CHUNK, Tree, leaf_numbered


cdef bint add_chunk(Tree *tree) noexcept nogil:
    """Allocate a chunk for more numbers; return False if out of memory."""
    cdef uint32_t chunk = tree.numbers // CHUNK
    cdef uint32_t capacity = 2 * tree.chunk_capacity + 1
    cdef Leaf ***leaves
    if chunk == tree.chunk_capacity:
        leaves = <Leaf ***>realloc(tree.leaves, capacity * sizeof(Leaf **))
        if leaves == NULL:
            return False
        tree.bytes += (capacity - tree.chunk_capacity) * sizeof(Leaf **)
        tree.leaves = leaves
        tree.chunk_capacity = capacity
    tree.leaves[chunk] = <Leaf **>malloc(CHUNK * sizeof(Leaf *))
    if tree.leaves[chunk] == NULL:
        return False
    tree.bytes += CHUNK * sizeof(Leaf *)
    return True


cdef uint32_t allocate_number(Tree *tree) noexcept nogil:
    """Return a number that no leaf has, or NONE if out of memory."""
    cdef uint32_t number = tree.free_number
    if number != NONE:
        tree.free_number = <uint32_t>(<uintptr_t>leaf_numbered(tree, number) >> 1)
        return number
    if tree.numbers % CHUNK == 0 and not add_chunk(tree):
        return NONE
    tree.numbers += 1
    return tree.numbers - 1


cdef void release_number(Tree *tree, uint32_t number) noexcept nogil:
    tree.leaves[number // CHUNK][number % CHUNK] = <Leaf *>(
        <uintptr_t>tree.free_number << 1 | 1)
    tree.free_number = number
    tree.epoch += 1


cdef void register_leaf(Tree *tree, Leaf *leaf, uint32_t number) noexcept nogil:
    """Give a leaf a number."""
    leaf.number = number
    tree.leaves[number // CHUNK][number % CHUNK] = leaf


cdef bint map_members(Tree *tree, const Leaf *leaf, uint32_t number) noexcept nogil:
    """Set the leaf's number for all its members in the table. This cannot fail if the members are
    in the table already."""
    cdef uint32_t *members = ids_of(leaf, tree.words)
    cdef int i
    for i in range(leaf.size):
        table_prefetch(&tree.places, members[i])
    for i in range(leaf.size):
        if table_set(&tree.places, members[i], number) < 0:
            return False
    return True


cdef bint open_directory(Tree *tree) noexcept nogil:
    """Create a directory and a table for a tree of one leaf; return False if out of memory, with
    the tree unchanged."""
    cdef uint32_t number
    if table_open(&tree.places, True) < 0:
        return False
    number = allocate_number(tree)
    if number == NONE or not map_members(tree, tree.root, number):
        close_directory(tree)
        return False
    register_leaf(tree, tree.root, number)
    return True


cdef void close_directory(Tree *tree) noexcept nogil:
    """Free the directory and the table: the tree is one leaf again, or empty."""
    cdef uint32_t chunk
    for chunk in range((tree.numbers + CHUNK - 1) // CHUNK):
        free(tree.leaves[chunk])
        tree.bytes -= CHUNK * sizeof(Leaf *)
    free(tree.leaves)
    tree.bytes -= tree.chunk_capacity * sizeof(Leaf **)
    tree.leaves = NULL
    tree.numbers = 0
    tree.chunk_capacity = 0
    tree.free_number = NONE
    tree.epoch += 1
    table_close(&tree.places)
