# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Growth and shrinking of a tree: pages are split, joined and dropped; levels are added and
removed.

A full leaf is split in halves. But if the new entry becomes the first or the last of the ranking,
the leaf is split next to this entry, so that appending fills leaves. A full branch above the leaf
is split first, so a parent always has room. Since a leaf's memory follows its size, no entries are
moved to neighbours to save memory. A leaf less than a quarter full is joined with a neighbour under
the same parent if both together fill at most three quarters, and so are branches. Empty pages are
dropped, and a root with one child is replaced by the child. Joining pages only saves memory and
time, so it is skipped if there is no memory for it.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from .branch cimport (
    Shape, branch_bytes, branch_copy, branch_free, branch_new, children_of, counts_of, edges_at,
    edges_of, runs_of, slot_of, total_of,
)
from .directory cimport (
    allocate_number, close_directory, map_members, open_directory, register_leaf, release_number,
)
from .leaf cimport (
    BRANCH_MOST, LEAF_MOST, WORDS_MOST, Stage, leaf_bytes, leaf_insert, leaf_pack, leaf_remove,
    stage_append, stage_load,
)
from .page cimport Branch, Leaf, Page
from laurels.engine.roster.roster cimport Names
from .runs cimport neighbour, runs_in
from laurels.engine.roster.table cimport NONE
from .tree cimport Tree, shape_of


cdef void tree_open(Tree *tree, const Names *names, int columns, int ordered, int words,
                    bint dense) noexcept nogil:
    """Initialize an empty tree; it allocates nothing."""
    memset(tree, 0, sizeof(Tree))
    tree.names = names
    tree.columns = <uint8_t>columns
    tree.ordered = <uint8_t>ordered
    tree.words = <uint8_t>words
    tree.dense = dense
    tree.free_number = NONE


cdef void free_under(Page *page, int level) noexcept nogil:
    """Free a page and all pages under it; leaves are at level 0."""
    cdef int slot
    if level == 0:
        free(page)
        return
    for slot in range(page.size):
        free_under(children_of(page)[slot], level - 1)
    branch_free(page)


cdef void tree_close(Tree *tree) noexcept nogil:
    """Free all memory; the tree is empty and usable. O(leaves)."""
    if tree.root != NULL:
        free_under(tree.root, tree.height)
    close_directory(tree)
    tree.root = NULL
    tree.height = 0
    tree.size = 0
    tree.bytes = 0


# Growing


cdef void set_parents(Branch *branch, int first) noexcept nogil:
    """Set `branch` as the parent of its children, from slot `first` on."""
    cdef int slot
    for slot in range(first, branch.size):
        children_of(branch)[slot].up = branch
        children_of(branch)[slot].slot = <uint8_t>slot


cdef Branch *grow_branch(Tree *tree, Branch *branch, int size) noexcept nogil:
    """Return the branch with the capacity for `size` children, possibly moved, or NULL if out of
    memory."""
    cdef Shape shape = shape_of(tree)
    cdef int capacity = branch.capacity
    cdef Branch *grown
    if size <= capacity:
        return branch
    while capacity < size:
        capacity = min(BRANCH_MOST, 2 * capacity)
    grown = branch_new(capacity, shape)
    if grown == NULL:
        return NULL
    free(edges_of(grown))
    edges_at(grown)[0] = edges_of(branch)
    branch_copy(grown, 0, branch, 0, branch.size, shape)
    grown.size = branch.size
    grown.up = branch.up
    if branch.up == NULL:
        tree.root = grown
    else:
        children_of(branch.up)[slot_of(branch)] = grown
    tree.bytes += branch_bytes(grown, shape) - branch_bytes(branch, shape)
    tree.epoch += 1
    free(branch)
    set_parents(grown, 0)
    return grown


cdef void set_child(Tree *tree, Branch *branch, int slot, Page *child, uint32_t count,
                    uint32_t runs) noexcept nogil:
    """Set a child of a branch and its counts."""
    children_of(branch)[slot] = child
    counts_of(branch)[slot] = count
    if tree.dense:
        runs_of(branch)[slot] = runs
    child.up = branch
    child.slot = <uint8_t>slot


cdef bint open_slot(Tree *tree, Page *page, const Stage *stage, int at) noexcept nogil:
    """Open a slot in the parent of a page, directly after the page. The edge between the page and
    the new slot is the key of the staged entry `at`. Return False if out of memory.

    The parent must have room. The caller sets the new child next, by `set_child`.
    """
    cdef Branch *branch = page.up
    cdef Shape shape = shape_of(tree)
    cdef uint64_t old_bytes = leaf_bytes(edges_of(branch), shape.words)
    cdef int slot = slot_of(page) + 1
    cdef int64_t words[WORDS_MOST]
    cdef Leaf *edges
    cdef int word
    for word in range(shape.words):
        words[word] = stage.words[word][at]
    edges = leaf_insert(edges_of(branch), shape.words, slot - 1, stage.ids[at], words)
    if edges == NULL:
        return False
    edges_at(branch)[0] = edges
    tree.bytes += leaf_bytes(edges, shape.words) - old_bytes
    branch_copy(branch, slot + 1, branch, slot, branch.size - slot, shape)
    branch.size += 1
    return True


cdef uint32_t runs_under_root(const Tree *tree) noexcept nogil:
    if not tree.dense:
        return 0
    if tree.height == 0:
        return runs_in(tree, tree.root)
    return total_of(runs_of(tree.root), tree.root.size)


cdef bint raise_root(Tree *tree) noexcept nogil:
    """Add a new branch above the root; return False if out of memory."""
    cdef Branch *branch = branch_new(4, shape_of(tree))
    if branch == NULL or (tree.height == 0 and not open_directory(tree)):
        branch_free(branch)
        return False
    tree.bytes += branch_bytes(branch, shape_of(tree))
    branch.size = 1
    set_child(tree, branch, 0, tree.root, tree.size, runs_under_root(tree))
    tree.root = branch
    tree.height += 1
    return True


cdef bint ensure_slot(Tree *tree, Page *page) noexcept nogil:
    """Ensure that a page has a parent with room for one more child; return False if out of
    memory."""
    if page.up == NULL and not raise_root(tree):
        return False
    if page.up.size < BRANCH_MOST:
        return grow_branch(tree, page.up, page.up.size + 1) != NULL
    return ensure_slot(tree, page.up) and split_branch(tree, page.up)


cdef bint split_branch(Tree *tree, Branch *branch) noexcept nogil:
    """Split a full branch whose parent has room; return False if out of memory."""
    cdef Shape shape = shape_of(tree)
    cdef int half = branch.size // 2
    cdef Branch *right = branch_new(branch.capacity, shape)
    cdef Leaf *left_edges
    cdef Leaf *right_edges
    cdef Stage stage
    stage.size = 0
    stage_load(&stage, edges_of(branch), shape.words)
    left_edges = leaf_pack(&stage, shape.words, 0, half - 1)
    right_edges = leaf_pack(&stage, shape.words, half, stage.size)
    if right == NULL or left_edges == NULL or right_edges == NULL or (
            not open_slot(tree, branch, &stage, half - 1)):
        branch_free(right)
        free(left_edges)
        free(right_edges)
        return False
    tree.bytes -= branch_bytes(branch, shape)
    free(edges_of(right))
    free(edges_of(branch))
    edges_at(right)[0] = right_edges
    edges_at(branch)[0] = left_edges
    split_children(tree, branch, right, half)
    tree.bytes += branch_bytes(branch, shape) + branch_bytes(right, shape)
    return True


cdef void split_children(Tree *tree, Branch *branch, Branch *right, int half) noexcept nogil:
    """Move the children of `branch` at `half` and after it to the new branch `right`. Their parent
    already has an open slot for `right`."""
    cdef Branch *parent = branch.up
    cdef int slot = slot_of(branch)
    cdef uint32_t count
    cdef uint32_t runs = 0
    right.size = <uint8_t>(branch.size - half)
    branch_copy(right, 0, branch, half, right.size, shape_of(tree))
    branch.size = <uint8_t>half
    set_parents(right, 0)
    count = total_of(counts_of(right), right.size)
    counts_of(parent)[slot] -= count
    if tree.dense:
        runs = total_of(runs_of(right), right.size)
        runs_of(parent)[slot] -= runs
    set_child(tree, parent, slot + 1, right, count, runs)


cdef int split_position(Leaf *leaf, int at) noexcept nogil:
    """Return the size of the left part if a full leaf is split to insert at a position."""
    if at == LEAF_MOST and neighbour(leaf, 1) == NULL:
        return LEAF_MOST - 1
    if at == 0 and neighbour(leaf, -1) == NULL:
        return 1
    return LEAF_MOST // 2


cdef bint split_leaf(Tree *tree, Leaf *leaf, int at) noexcept nogil:
    """Split a full leaf, before inserting at a position; return False if out of memory."""
    cdef int cut = split_position(leaf, at)
    cdef uint32_t number = NONE
    cdef Leaf *left
    cdef Leaf *right
    cdef Stage stage
    if not ensure_slot(tree, leaf):
        lower_root(tree)
        return False
    stage.size = 0
    stage_load(&stage, leaf, tree.words)
    left = leaf_pack(&stage, tree.words, 0, cut)
    right = leaf_pack(&stage, tree.words, cut, stage.size)
    if left != NULL and right != NULL:
        number = allocate_number(tree)
    if number == NONE or not open_slot(tree, leaf, &stage, cut):
        if number != NONE:
            release_number(tree, number)
        free(left)
        free(right)
        lower_root(tree)
        return False
    right.number = number
    place_halves(tree, leaf, left, right)
    return True


cdef void place_halves(Tree *tree, Leaf *old, Leaf *left, Leaf *right) noexcept nogil:
    """Replace the leaf `old` by `left` and `right`. The parent of `old` must already have an open
    slot for `right`."""
    cdef Branch *branch = old.up
    cdef int slot = slot_of(old)
    cdef uint32_t runs = runs_of(branch)[slot] if tree.dense else 0
    cdef uint32_t right_runs = 0
    tree.bytes += leaf_bytes(left, tree.words) + leaf_bytes(right, tree.words)
    tree.bytes -= leaf_bytes(old, tree.words)
    register_leaf(tree, left, old.number)
    register_leaf(tree, right, right.number)
    map_members(tree, right, right.number)
    free(old)
    set_child(tree, branch, slot, left, left.size, 0)
    set_child(tree, branch, slot + 1, right, right.size, 0)
    if tree.dense:
        right_runs = runs_in(tree, right)
        runs_of(branch)[slot] = runs - right_runs
        runs_of(branch)[slot + 1] = right_runs


# Shrinking


cdef inline void release_branch(Tree *tree, Branch *branch) noexcept nogil:
    branch_free(branch)
    tree.epoch += 1


cdef void lower_root(Tree *tree) noexcept nogil:
    """While the root has only one child, replace the root by this child. If the root has no
    children, make the tree empty.

    This also removes a root that was added for a split that then failed for lack of memory.
    """
    cdef Branch *branch
    while tree.height > 0 and tree.root.size <= 1:
        branch = tree.root
        tree.bytes -= branch_bytes(branch, shape_of(tree))
        tree.height -= 1
        tree.root = NULL
        if branch.size:
            tree.root = children_of(branch)[0]
            tree.root.up = NULL
        release_branch(tree, branch)
        if tree.root == NULL:
            tree.height = 0
        if tree.height == 0:
            close_directory(tree)


cdef void drop_child(Tree *tree, Branch *branch, int slot) noexcept nogil:
    """Remove the slot of a child that was freed. If the branch has no other children, free it and
    remove its slot, too."""
    cdef Shape shape = shape_of(tree)
    cdef Branch *parent = branch.up
    tree.bytes -= branch_bytes(branch, shape)
    branch.size -= 1
    branch_copy(branch, slot, branch, slot + 1, branch.size - slot, shape)
    if branch.size:
        edges_at(branch)[0] = leaf_remove(edges_of(branch), shape.words, slot - 1 if slot else 0)
    tree.bytes += branch_bytes(branch, shape)
    if parent == NULL:
        lower_root(tree)
    elif branch.size == 0:
        tree.bytes -= branch_bytes(branch, shape)
        slot = slot_of(branch)
        release_branch(tree, branch)
        drop_child(tree, parent, slot)
    elif branch.size < BRANCH_MOST // 4:
        rebalance_branch(tree, branch)


cdef Page *mergeable_sibling(Page *page, int most) noexcept nogil:
    """Return a sibling to join a page with, if both together have at most `most` items, or NULL."""
    cdef Page **siblings = children_of(page.up)
    cdef int slot = slot_of(page)
    if slot + 1 < page.up.size and page.size + siblings[slot + 1].size <= most:
        return siblings[slot + 1]
    if slot > 0 and page.size + siblings[slot - 1].size <= most:
        return siblings[slot - 1]
    return NULL


cdef void rebalance_branch(Tree *tree, Branch *branch) noexcept nogil:
    """Join a branch with few children with a sibling, if both fit well."""
    cdef Branch *other = mergeable_sibling(branch, BRANCH_MOST // 4 * 3)
    if other == NULL:
        return
    if slot_of(other) < slot_of(branch):
        join_branches(tree, other, branch)
    else:
        join_branches(tree, branch, other)


cdef void join_branches(Tree *tree, Branch *branch, Branch *right) noexcept nogil:
    """Move the children of a branch to the previous sibling."""
    cdef Branch *parent = branch.up
    cdef Shape shape = shape_of(tree)
    cdef int slot = slot_of(right)
    cdef int size = branch.size
    cdef Leaf *edges
    cdef Stage stage
    stage.size = 0
    stage_load(&stage, edges_of(branch), shape.words)
    stage_append(&stage, shape.words, edges_of(parent), slot - 1)
    stage_load(&stage, edges_of(right), shape.words)
    edges = leaf_pack(&stage, shape.words, 0, stage.size)
    if edges == NULL:
        return
    branch = grow_branch(tree, branch, size + right.size)
    if branch == NULL:
        free(edges)
        return
    tree.bytes -= branch_bytes(branch, shape) + branch_bytes(right, shape)
    free(edges_of(branch))
    edges_at(branch)[0] = edges
    branch_copy(branch, size, right, 0, right.size, shape)
    branch.size += right.size
    tree.bytes += branch_bytes(branch, shape)
    set_parents(branch, size)
    merge_slots(tree, parent, slot)
    release_branch(tree, right)
    drop_child(tree, parent, slot)


cdef inline void merge_slots(Tree *tree, Branch *branch, int slot) noexcept nogil:
    """Add the counts of a slot to the previous slot."""
    counts_of(branch)[slot - 1] += counts_of(branch)[slot]
    if tree.dense:
        runs_of(branch)[slot - 1] += runs_of(branch)[slot]


cdef void rebalance_leaf(Tree *tree, Leaf *leaf) noexcept nogil:
    """Join a leaf with few entries with a sibling; drop it if it is empty."""
    cdef Leaf *other
    if leaf.size == 0:
        drop_leaf(tree, leaf)
        return
    other = mergeable_sibling(leaf, LEAF_MOST // 4 * 3)
    if other == NULL:
        return
    if slot_of(other) < slot_of(leaf):
        join_leaves(tree, other, leaf)
    else:
        join_leaves(tree, leaf, other)


cdef void drop_leaf(Tree *tree, Leaf *leaf) noexcept nogil:
    """Remove an empty leaf."""
    cdef Branch *branch = leaf.up
    cdef int slot = slot_of(leaf)
    tree.bytes -= leaf_bytes(leaf, tree.words)
    release_number(tree, leaf.number)
    free(leaf)
    drop_child(tree, branch, slot)


cdef void join_leaves(Tree *tree, Leaf *leaf, Leaf *right) noexcept nogil:
    """Move the entries of a leaf to the previous sibling."""
    cdef Branch *branch = leaf.up
    cdef int slot = slot_of(right)
    cdef Leaf *joined
    cdef Stage stage
    stage.size = 0
    stage_load(&stage, leaf, tree.words)
    stage_load(&stage, right, tree.words)
    joined = leaf_pack(&stage, tree.words, 0, stage.size)
    if joined == NULL:
        return
    map_members(tree, right, leaf.number)
    tree.bytes += leaf_bytes(joined, tree.words) - leaf_bytes(leaf, tree.words)
    register_leaf(tree, joined, leaf.number)
    merge_slots(tree, branch, slot)
    joined.up = branch
    joined.slot = <uint8_t>(slot - 1)
    children_of(branch)[slot - 1] = joined
    free(leaf)
    drop_leaf(tree, right)
