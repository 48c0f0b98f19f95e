# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""Entries of a tree: find them by member, insert, change and remove them.

An entry whose new key stays within its leaf's edges moves inside the leaf; otherwise it is removed
and inserted where it belongs. The position of a new key is found from the root, or by a hint. The
loop over a batch *predicts* each write a few events ahead: it finds the two leaves that the write
will use, and prefetches them. By the time of the write the tree may have changed, so a hint is
always verified. The predicted leaf for a new key is right if the key sorts between two of the
leaf's entries; the predicted position of an entry is right if it has the id of the entry's member.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from .branch cimport children_of, counts_of, edges_of, slot_of
from .growth cimport rebalance_leaf, split_leaf, tree_close
from .leaf cimport (
    LEAF_MOST, Stage, ids_of, leaf_bound, leaf_bytes, leaf_find, leaf_get, leaf_insert, leaf_move,
    leaf_pack, leaf_remove,
)
from .page cimport Branch, Leaf, Page
from .runs cimport count_runs_from
from .search cimport Key, order_to_member
from laurels.engine.roster.table cimport NONE, prefetch, table_drop, table_get, table_set
from .tree cimport Spot, Tree, leaf_numbered, replace_leaf, set_key


cdef inline Leaf *descend(const Tree *tree, Key *key) noexcept nogil:
    """Return the leaf in which a new key belongs."""
    cdef Page *page = tree.root
    cdef int level
    for level in range(tree.height):
        page = children_of(page)[leaf_bound(edges_of(page), tree.ordered, tree.names, key, True)]
    return page


cdef bint seek(Tree *tree, uint32_t member, Spot *spot) noexcept nogil:
    """Find a member's entry; return False when it has none. O(1)."""
    cdef uint32_t number
    spot.leaf = tree.root
    if tree.root == NULL:
        return False
    if tree.height:
        number = table_get(&tree.places, member)
        if number == NONE:
            return False
        spot.leaf = leaf_numbered(tree, number)
    spot.at = leaf_find(spot.leaf, tree.words, member)
    return spot.at >= 0


cdef inline void add_above(Page *page, int entries) noexcept nogil:
    """Add a number of entries to the counts of all branches above a page."""
    while page.up != NULL:
        counts_of(page.up)[slot_of(page)] += entries
        page = page.up


cdef inline void unmap_member(Tree *tree, uint32_t member) noexcept nogil:
    """Remove a member from the table, if it is there."""
    if tree.height and table_get(&tree.places, member) != NONE:
        table_drop(&tree.places, member)


cdef bint insert_first(Tree *tree, uint32_t member, const int64_t *entry) noexcept nogil:
    """Begin an empty tree with one entry; return False if out of memory."""
    cdef Stage stage
    cdef int word
    stage.size = 1
    stage.ids[0] = member
    for word in range(tree.words):
        stage.words[word][0] = entry[word]
    tree.root = leaf_pack(&stage, tree.words, 0, 1)
    if tree.root == NULL:
        return False
    tree.bytes += leaf_bytes(tree.root, tree.words)
    tree.size = 1
    return True


cdef inline bint find_hinted(const Tree *tree, Key *key, const Hint *hint,
                             Spot *gap) noexcept nogil:
    """Find the gap for a key in the leaf that a hint predicts; return False when the gap is not
    between two entries of this leaf."""
    if hint == NULL or hint.target == NULL or hint.epoch != tree.epoch or (
            hint.slot >= hint.target.size):
        return False
    gap.leaf = children_of(hint.target)[hint.slot]
    gap.at = leaf_bound(gap.leaf, tree.words, tree.names, key, True)
    return 0 < gap.at < gap.leaf.size


cdef void find_gap(const Tree *tree, Key *key, Spot *gap) noexcept nogil:
    """Find the gap for a new key, from the root."""
    gap.leaf = descend(tree, key)
    gap.at = leaf_bound(gap.leaf, tree.words, tree.names, key, True)


cdef bint fill_gap(Tree *tree, Key *key, Spot *gap) noexcept nogil:
    """Insert an entry in its gap; return False if out of memory."""
    cdef Leaf *leaf
    cdef uint64_t old_bytes
    if gap.leaf.size == LEAF_MOST:
        if not split_leaf(tree, gap.leaf, gap.at):
            return False
        find_gap(tree, key, gap)
    if tree.height and table_set(&tree.places, key.member, gap.leaf.number) < 0:
        return False
    old_bytes = leaf_bytes(gap.leaf, tree.words)
    leaf = leaf_insert(gap.leaf, tree.words, gap.at, key.member, key.words)
    if leaf == NULL:
        return False
    replace_leaf(tree, gap.leaf, leaf, old_bytes)
    tree.size += 1
    add_above(leaf, 1)
    count_runs_from(tree, leaf)
    return True


cdef bint insert(Tree *tree, uint32_t member, const int64_t *entry,
                 const Hint *hint) noexcept nogil:
    """Insert the entry of a member that has none. O(log n); return False if out of memory."""
    cdef Key key
    cdef Spot gap
    if tree.root == NULL:
        return insert_first(tree, member, entry)
    set_key(&key, tree, member, entry)
    if not find_hinted(tree, &key, hint, &gap):
        find_gap(tree, &key, &gap)
    if fill_gap(tree, &key, &gap):
        return True
    unmap_member(tree, member)
    return False


cdef void remove_entry(Tree *tree, const Spot *spot) noexcept nogil:
    """Remove an entry, but leave its member in the table."""
    cdef uint64_t old_bytes = leaf_bytes(spot.leaf, tree.words)
    cdef Leaf *leaf
    leaf = leaf_remove(spot.leaf, tree.words, spot.at)
    replace_leaf(tree, spot.leaf, leaf, old_bytes)
    tree.size -= 1
    if tree.height == 0:
        if leaf.size == 0:
            tree_close(tree)
        return
    add_above(leaf, -1)
    count_runs_from(tree, leaf)
    if leaf.size < LEAF_MOST // 4:
        rebalance_leaf(tree, leaf)


cdef bint move_to_leaf(Tree *tree, const Spot *spot, Key *key, Spot *gap) noexcept nogil:
    """Move an entry to a gap in another leaf; `gap` is NULL if the gap is not known yet. Return
    False if out of memory."""
    cdef uint32_t epoch = tree.epoch
    remove_entry(tree, spot)
    if tree.root == NULL:
        return insert_first(tree, key.member, key.words)
    if gap.leaf == NULL or tree.epoch != epoch:
        find_gap(tree, key, gap)
    if fill_gap(tree, key, gap):
        return True
    unmap_member(tree, key.member)
    return False


cdef int edge_order(const Tree *tree, const Branch *branch, int edge, Key *key) noexcept nogil:
    """Compare a full key with an edge of a branch: return a negative number, 0 or a positive
    one."""
    cdef Leaf *edges = edges_of(branch)
    cdef int word
    cdef int64_t its
    for word in range(tree.ordered):
        its = leaf_get(edges, word, edge)
        if key.words[word] != its:
            return -1 if key.words[word] < its else 1
    return order_to_member(tree.names, key, ids_of(edges, tree.ordered)[edge])


cdef bint is_within_edges(const Tree *tree, Page *page, Key *key) noexcept nogil:
    """Return whether a key belongs in a leaf, by the edges above it."""
    cdef bint above = False
    cdef bint below = False
    cdef int slot
    while page.up != NULL and not (above and below):
        slot = slot_of(page)
        if not above and slot > 0:
            if edge_order(tree, page.up, slot - 1, key) < 0:
                return False
            above = True
        if not below and slot + 1 < page.up.size:
            if edge_order(tree, page.up, slot, key) >= 0:
                return False
            below = True
        page = page.up
    return True


cdef inline int side_of(const Leaf *leaf, const int64_t *entry) noexcept nogil:
    """Return -1 if an entry's first word is less than the first word of every entry in the leaf, 1
    if it is greater than all of them, else 0."""
    if entry[0] < leaf_get(leaf, 0, 0):
        return -1
    return entry[0] > leaf_get(leaf, 0, leaf.size - 1)


cdef inline int position_in(const Tree *tree, const Leaf *leaf, Key *key) noexcept nogil:
    """Return the number of a leaf's entries that sort before a key; the leaf's first and last
    entry are compared first, which often suffices."""
    cdef int side = side_of(leaf, key.words)
    if side:
        return 0 if side < 0 else leaf.size
    return leaf_bound(leaf, tree.words, tree.names, key, False)


cdef bint are_ordered_alike(const Tree *tree, const Spot *spot,
                            const int64_t *entry) noexcept nogil:
    cdef int word
    for word in range(tree.ordered):
        if leaf_get(spot.leaf, word, spot.at) != entry[word]:
            return False
    return True


cdef bint move_within(Tree *tree, const Spot *spot, int to, const int64_t *entry) noexcept nogil:
    """Set the words of an entry that stays in its leaf; return False if out of memory."""
    cdef uint64_t old_bytes = leaf_bytes(spot.leaf, tree.words)
    cdef Leaf *leaf
    leaf = leaf_move(spot.leaf, tree.words, spot.at, to, entry)
    if leaf == NULL:
        return False
    replace_leaf(tree, spot.leaf, leaf, old_bytes)
    count_runs_from(tree, leaf)
    return True


cdef bint assign_at(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                    const Hint *hint) noexcept nogil:
    """Set the words of a member's entry at a spot. O(log n); return False if out of memory."""
    cdef Key key
    cdef Spot gap
    cdef int to
    if are_ordered_alike(tree, spot, entry):
        return move_within(tree, spot, spot.at, entry)
    set_key(&key, tree, member, entry)
    if find_hinted(tree, &key, hint, &gap) and gap.leaf != spot.leaf:
        return move_to_leaf(tree, spot, &key, &gap)
    to = position_in(tree, spot.leaf, &key)
    if (to == 0 or to == spot.leaf.size) and not is_within_edges(tree, spot.leaf, &key):
        gap.leaf = NULL
        return move_to_leaf(tree, spot, &key, &gap)
    return move_within(tree, spot, to - (to > spot.at), entry)


cdef inline void prefetch_parent(const Leaf *leaf) noexcept nogil:
    """Prefetch the memory that a change of a leaf's count will use first, without waiting for
    it."""
    prefetch(leaf.up)
    prefetch(children_of(leaf.up) + leaf.slot)


cdef void predict_write(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                        Hint *hint) noexcept nogil:
    """Set a hint to the position of an entry (spot NULL: a new entry) and to the leaf that it will
    move to, and prefetch that leaf.

    The leaf itself is not read, since that would wait for it.
    """
    cdef Key key
    cdef Branch *branch = tree.root
    cdef int to, level
    hint.epoch = tree.epoch
    hint.source = NONE
    hint.target = NULL
    if tree.height == 0:
        return
    set_key(&key, tree, member, entry)
    if spot != NULL:
        hint.source = spot.leaf.number
        hint.at = spot.at
        to = position_in(tree, spot.leaf, &key)
        if 0 < to < spot.leaf.size:
            return
        prefetch_parent(spot.leaf)
    for level in range(tree.height):
        if level > 0:
            branch = children_of(branch)[hint.slot]
        hint.slot = leaf_bound(edges_of(branch), tree.ordered, tree.names, &key, True)
    hint.target = branch
    prefetch_leaf(children_of(branch)[hint.slot])
    prefetch(counts_of(branch) + hint.slot)


cdef bint discard(Tree *tree, uint32_t member) noexcept nogil:
    """Remove a member's entry; return whether it had one. O(log n)."""
    cdef Spot spot
    if not seek(tree, member, &spot):
        return False
    unmap_member(tree, member)
    remove_entry(tree, &spot)
    return True
