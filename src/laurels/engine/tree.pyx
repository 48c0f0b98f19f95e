# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The ranked set's tree: entries in order, counted, and found by member.

**Structure.** A counted B+ tree: leaves (`leaf.pyx`) hold the entries, branches (`branch.pyx`) the
number of entries under each child, so that a rank is a walk from a leaf up its parents and a
select a walk down. A table (`table.pyx`) leads from a member to the page of its leaf; within the
leaf the member is found among at most 128 ids. While all entries fit into one leaf there is
neither branch nor page nor table: a small ranking is one block of memory.

**Pages.** Leaves and branches are named by page numbers; the addresses stand in small chunks, so
a leaf may be laid out anew elsewhere without anyone being told, and no growth copies more than an
index of chunks.

**Writing.** An entry whose new key stays within its leaf's edges moves inside the leaf; otherwise
it is taken out and put in from the root. A full leaf is split in halves (at the ends of the ranking
beside the new entry, so that appending fills leaves); a full branch above it is split first, so a
parent always has room. Since a leaf's memory follows its size, splitting needs no help from the
neighbours to keep memory down. A leaf under a quarter full is joined with a neighbour under the
same parent when both fill at most three quarters; so are branches; what is empty is dropped, and a
root with one child gives way to it.

**Runs** (only for dense ranks): after each change the runs of the leaf and of the leaf after it are
counted anew (the latter's first entry has a new predecessor) and the difference is added above.

**Memory failures.** Every step that can fail comes before the first change of the step it serves;
-1 then means that the entry was not put in. Only an entry on its way to another leaf may be lost.

**Invariants** (`tree_check`): entries ascend through all leaves; each edge is at or before all
entries of its child and after those of the child before; counts and runs equal what lies under
them; parents and children name each other; the table leads each member to the leaf that holds it
and to nothing else; no leaf is empty and no branch has fewer than one child (the root: two).
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from .branch cimport (
    Shape, branch_bytes, branch_copy, branch_free, branch_new, children_of, counts_of,
    edges_at, edges_of, runs_of, total_of,
)
from .leaf cimport (
    BRANCH_MOST, LEAF_MOST, STAGE_MOST, WORDS_MOST, Stage, ids_of, leaf_bound, leaf_breaks,
    leaf_bytes, leaf_check,
    leaf_find, leaf_get, leaf_insert, leaf_move, leaf_pack, leaf_read, leaf_remove, stage_append,
    stage_load,
)
from .page cimport Branch, Leaf, Page
from .roster cimport Names
from .search cimport Key, find_id, order_to_member
from .table cimport (
    NONE, Table, table_bytes, table_check, table_close, table_drop, table_get, table_open,
    table_set,
)

# Pages


cdef inline Shape shape_of(const Tree *tree) noexcept nogil:
    cdef Shape shape
    shape.words = tree.ordered
    shape.dense = tree.dense
    return shape


cdef inline Branch *branch_at(const Tree *tree, uint32_t page) noexcept nogil:
    return page_at(tree, page)


cdef inline int slot_of(const Tree *tree, uint32_t page) noexcept nogil:
    """The slot in its parent of a page that has one; mostly where it was the last time."""
    cdef Page *child = page_at(tree, page)
    cdef Branch *parent = page_at(tree, child.up)
    if child.slot >= parent.size or children_of(parent)[child.slot] != page:
        child.slot = <uint8_t>find_id(children_of(parent), parent.size, page)
    return child.slot


cdef inline void set_page(Tree *tree, uint32_t page, Page *block) noexcept nogil:
    tree.pages[page // PAGES][page % PAGES] = block
    if page == tree.root_page:
        tree.root = block


cdef uint32_t take_page(Tree *tree) noexcept nogil:
    """A page number that is not in use, or NONE without memory."""
    cdef uint32_t page = tree.free_page
    cdef uint32_t room
    cdef Page ***pages
    if page != NONE:
        tree.free_page = <uint32_t>(<uintptr_t>page_at(tree, page) >> 1)
        return page
    page = tree.page_count
    if page % PAGES == 0:
        if page // PAGES == tree.page_room:
            room = 2 * tree.page_room + 1
            pages = <Page ***>realloc(tree.pages, room * sizeof(Page **))
            if pages == NULL:
                return NONE
            tree.bytes += (room - tree.page_room) * sizeof(Page **)
            tree.pages = pages
            tree.page_room = room
        tree.pages[page // PAGES] = <Page **>malloc(PAGES * sizeof(Page *))
        if tree.pages[page // PAGES] == NULL:
            return NONE
        tree.bytes += PAGES * sizeof(Page *)
    tree.page_count += 1
    return page


cdef void give_page(Tree *tree, uint32_t page) noexcept nogil:
    """Take a page number back; free pages are a list, marked by odd addresses."""
    tree.pages[page // PAGES][page % PAGES] = <Page *>(<uintptr_t>tree.free_page << 1 | 1)
    tree.free_page = page
    tree.epoch += 1


cdef void close_pages(Tree *tree) noexcept nogil:
    """Forget all pages (not what they hold): the tree is one leaf again, or empty."""
    cdef uint32_t i
    for i in range((tree.page_count + PAGES - 1) // PAGES):
        free(tree.pages[i])
        tree.bytes -= PAGES * sizeof(Page *)
    free(tree.pages)
    tree.bytes -= tree.page_room * sizeof(Page **)
    tree.pages = NULL
    tree.page_count = 0
    tree.page_room = 0
    tree.free_page = NONE
    tree.root_page = NONE
    tree.epoch += 1
    table_close(&tree.places)


cdef void tree_open(Tree *tree, const Names *names, int columns, int ordered, int words,
                    bint dense) noexcept nogil:
    """Make an empty tree; it allocates nothing."""
    memset(tree, 0, sizeof(Tree))
    tree.names = names
    tree.columns = <uint8_t>columns
    tree.ordered = <uint8_t>ordered
    tree.words = <uint8_t>words
    tree.dense = dense
    tree.free_page = NONE
    tree.root_page = NONE


cdef void free_under(Tree *tree, uint32_t page, int level) noexcept nogil:
    """Free a page and all under it; leaves are at level 0."""
    cdef Branch *branch = page_at(tree, page)
    cdef int slot
    if level == 0:
        free(branch)
        return
    for slot in range(branch.size):
        free_under(tree, children_of(branch)[slot], level - 1)
    branch_free(branch)


cdef void tree_close(Tree *tree) noexcept nogil:
    """Give all memory back; the tree is empty and usable. O(leaves)."""
    if tree.height:
        free_under(tree, tree.root_page, tree.height)
    else:
        free(tree.root)
    close_pages(tree)
    tree.root = NULL
    tree.height = 0
    tree.size = 0
    tree.bytes = 0


cdef uint64_t tree_bytes(Tree *tree) noexcept nogil:
    """Bytes allocated, without the Tree itself. O(segments of the table)."""
    return tree.bytes + table_bytes(&tree.places)


cdef inline void keep_leaf(Tree *tree, uint32_t page, Leaf *leaf, uint64_t old_bytes) noexcept nogil:
    """Take note of a leaf's present address and size."""
    tree.bytes += leaf_bytes(leaf, tree.words) - old_bytes
    if tree.height:
        set_page(tree, page, leaf)
    else:
        tree.root = leaf


# Counts and runs


cdef inline void add_above(Tree *tree, uint32_t page, int entries) noexcept nogil:
    """Add to the counts of all branches above a page."""
    cdef uint32_t up = leaf_at(tree, page).up
    while up != NONE:
        counts_of(branch_at(tree, up))[slot_of(tree, page)] += entries
        page = up
        up = branch_at(tree, up).up


cdef uint32_t neighbour(Tree *tree, uint32_t page, int step) noexcept nogil:
    """The leaf before (-1) or after (1) a leaf, or NONE."""
    cdef uint32_t up
    cdef Branch *branch = NULL
    cdef int slot = 0
    cdef int levels = 0
    if tree.height == 0:
        return NONE
    up = leaf_at(tree, page).up
    while up != NONE:
        branch = branch_at(tree, up)
        slot = slot_of(tree, page) + step
        levels += 1
        if 0 <= slot < branch.size:
            break
        page = up
        up = branch.up
    if up == NONE:
        return NONE
    page = children_of(branch)[slot]
    while levels > 1:
        branch = branch_at(tree, page)
        page = children_of(branch)[0 if step > 0 else branch.size - 1]
        levels -= 1
    return page


cdef uint32_t leaf_after(Tree *tree, uint32_t page) noexcept nogil:
    """The page of the leaf after a leaf, or NONE. O(1) amortised over a scan."""
    return neighbour(tree, page, 1)


cdef bint begins_run(Tree *tree, uint32_t page) noexcept nogil:
    """Whether the columns of a leaf's first entry differ from those of the entry before it."""
    cdef Leaf *leaf = leaf_at(tree, page)
    cdef Leaf *before
    cdef int column
    page = neighbour(tree, page, -1)
    while page != NONE and leaf_at(tree, page).size == 0:
        page = neighbour(tree, page, -1)
    if page == NONE:
        return True
    before = leaf_at(tree, page)
    for column in range(tree.columns):
        if leaf_get(leaf, column, 0) != leaf_get(before, column, before.size - 1):
            return True
    return False


cdef uint32_t inner_runs(const Tree *tree, const Leaf *leaf, int at) noexcept nogil:
    """The runs that begin at the positions from 1 to `at` of a leaf."""
    cdef uint8_t marks[STAGE_MOST]
    cdef uint32_t runs = 0
    cdef int i
    leaf_breaks(leaf, tree.columns, marks)
    for i in range(1, at + 1):
        runs += marks[i]
    return runs


cdef void count_runs(Tree *tree, uint32_t page) noexcept nogil:
    """Count the runs of a leaf anew and correct all branches above it."""
    cdef Leaf *leaf
    cdef Branch *branch
    cdef uint32_t runs = 0
    cdef uint32_t old, up
    if page == NONE or tree.height == 0:
        return
    leaf = leaf_at(tree, page)
    if leaf.size:
        runs = begins_run(tree, page) + inner_runs(tree, leaf, leaf.size - 1)
    up = leaf.up
    branch = branch_at(tree, up)
    old = runs_of(branch)[slot_of(tree, page)]
    while runs != old and up != NONE:
        branch = branch_at(tree, up)
        runs_of(branch)[slot_of(tree, page)] += runs - old
        page = up
        up = branch.up


cdef inline void count_runs_from(Tree *tree, uint32_t page) noexcept nogil:
    """After a change in a leaf: its runs, and those of the leaf after it."""
    if tree.dense and tree.height:
        count_runs(tree, page)
        count_runs(tree, leaf_after(tree, page))


# Growing


cdef void adopt(Tree *tree, uint32_t page, int first) noexcept nogil:
    """Tell the children of a branch, from a slot on, whose they are."""
    cdef Branch *branch = branch_at(tree, page)
    cdef int slot
    for slot in range(first, branch.size):
        page_at(tree, children_of(branch)[slot]).up = page


cdef bint widen(Tree *tree, uint32_t page, int size) noexcept nogil:
    """See that a branch has room for so many children; False without memory."""
    cdef Branch *branch = branch_at(tree, page)
    cdef Branch *wider
    cdef Shape shape = shape_of(tree)
    cdef int room = branch.room
    if size <= room:
        return True
    while room < size:
        room = min(BRANCH_MOST, 2 * room)
    wider = branch_new(room, shape)
    if wider == NULL:
        return False
    free(edges_of(wider))
    edges_at(wider)[0] = edges_of(branch)
    branch_copy(wider, 0, branch, 0, branch.size, shape)
    wider.up = branch.up
    wider.size = branch.size
    tree.bytes += branch_bytes(wider, shape) - branch_bytes(branch, shape)
    free(branch)
    set_page(tree, page, wider)
    return True


cdef void set_child(Tree *tree, uint32_t page, int slot, uint32_t child, uint32_t count,
                    uint32_t runs) noexcept nogil:
    """Name a child of a branch and what is under it."""
    cdef Branch *branch = branch_at(tree, page)
    children_of(branch)[slot] = child
    counts_of(branch)[slot] = count
    if tree.dense:
        runs_of(branch)[slot] = runs
    page_at(tree, child).up = page


cdef bint add_edge(Tree *tree, uint32_t page, int slot, const int64_t *words,
                   uint32_t member) noexcept nogil:
    """Open a slot after the first in a branch with room, behind an edge; False without memory.

    The child is named next, by `set_child`.
    """
    cdef Branch *branch = branch_at(tree, page)
    cdef Shape shape = shape_of(tree)
    cdef uint64_t old_bytes = leaf_bytes(edges_of(branch), shape.words)
    cdef Leaf *edges = leaf_insert(edges_of(branch), shape.words, slot - 1, member, words)
    if edges == NULL:
        return False
    edges_at(branch)[0] = edges
    tree.bytes += leaf_bytes(edges, shape.words) - old_bytes
    branch_copy(branch, slot + 1, branch, slot, branch.size - slot, shape)
    branch.size += 1
    return True


cdef bint map_members(Tree *tree, const Leaf *leaf, uint32_t page) noexcept nogil:
    """Lead all members of a leaf to a page; cannot fail when the table knows them already."""
    cdef uint32_t *members = ids_of(leaf, tree.words)
    cdef int i
    for i in range(leaf.size):
        if table_set(&tree.places, members[i], page) < 0:
            return False
    return True


cdef bint open_places(Tree *tree) noexcept nogil:
    """From one leaf to pages and a table; False without memory, the tree as it was."""
    cdef uint32_t page
    if table_open(&tree.places, True) < 0:
        return False
    page = take_page(tree)
    if page == NONE or not map_members(tree, tree.root, page):
        close_pages(tree)
        return False
    tree.root_page = page
    set_page(tree, page, tree.root)
    return True


cdef uint32_t runs_under_root(const Tree *tree) noexcept nogil:
    cdef Leaf *leaf
    cdef Branch *branch
    if not tree.dense:
        return 0
    if tree.height == 0:
        leaf = tree.root
        return 1 + inner_runs(tree, leaf, leaf.size - 1)
    branch = tree.root
    return total_of(runs_of(branch), branch.size)


cdef bint raise_root(Tree *tree) noexcept nogil:
    """Put a new branch above the root; False without memory."""
    cdef uint32_t page
    cdef uint32_t under
    cdef uint32_t runs = runs_under_root(tree)
    cdef Branch *branch
    if tree.height == 0 and not open_places(tree):
        return False
    branch = branch_new(4, shape_of(tree))
    page = NONE if branch == NULL else take_page(tree)
    if page == NONE:
        branch_free(branch)
        if tree.height == 0:
            close_pages(tree)
        return False
    tree.bytes += branch_bytes(branch, shape_of(tree))
    under = tree.root_page
    tree.root_page = page
    set_page(tree, page, branch)
    tree.height += 1
    branch.size = 1
    set_child(tree, page, 0, under, tree.size, runs)
    return True


cdef bint make_room(Tree *tree, uint32_t page) noexcept nogil:
    """See that a branch has room for one more child (it may split); False without memory."""
    cdef Branch *branch = branch_at(tree, page)
    if branch.size < BRANCH_MOST:
        return widen(tree, page, branch.size + 1)
    if branch.up == NONE:
        if not raise_root(tree):
            return False
    elif not make_room(tree, branch.up):
        return False
    return split_branch(tree, page)


cdef bint split_branch(Tree *tree, uint32_t page) noexcept nogil:
    """Split a full branch whose parent has room; False without memory."""
    cdef Branch *branch = branch_at(tree, page)
    cdef Shape shape = shape_of(tree)
    cdef int half = branch.size // 2
    cdef Branch *right = branch_new(branch.room, shape)
    cdef Leaf *left_edges
    cdef Leaf *right_edges
    cdef uint32_t right_page = NONE
    cdef Stage stage
    stage.size = 0
    stage_load(&stage, edges_of(branch), shape.words)
    left_edges = leaf_pack(&stage, shape.words, 0, half - 1)
    right_edges = leaf_pack(&stage, shape.words, half, stage.size)
    if right != NULL and left_edges != NULL and right_edges != NULL:
        right_page = take_page(tree)
    if right_page == NONE or not add_staged_edge(tree, page, &stage, half - 1):
        if right_page != NONE:
            give_page(tree, right_page)
        branch_free(right)
        free(left_edges)
        free(right_edges)
        return False
    tree.bytes -= branch_bytes(branch, shape)
    free(edges_of(right))
    edges_at(right)[0] = right_edges
    free(edges_of(branch))
    edges_at(branch)[0] = left_edges
    set_page(tree, right_page, right)
    part_children(tree, page, right_page, half)
    tree.bytes += branch_bytes(branch, shape) + branch_bytes(right, shape)
    return True


cdef bint add_staged_edge(Tree *tree, uint32_t page, const Stage *stage, int at) noexcept nogil:
    """Open a slot after a page in its parent, behind a staged key; False without memory."""
    cdef int64_t words[WORDS_MOST]
    cdef int word
    for word in range(tree.ordered):
        words[word] = stage.words[word][at]
    return add_edge(tree, page_at(tree, page).up, slot_of(tree, page) + 1, words, stage.ids[at])


cdef void part_children(Tree *tree, uint32_t page, uint32_t right_page, int half) noexcept nogil:
    """Move the children from a slot on to a new branch, for which the parent has a slot open."""
    cdef Branch *branch = branch_at(tree, page)
    cdef Branch *right = branch_at(tree, right_page)
    cdef Branch *parent = branch_at(tree, branch.up)
    cdef int slot = slot_of(tree, page)
    cdef uint32_t count
    cdef uint32_t runs = 0
    right.size = <uint8_t>(branch.size - half)
    branch_copy(right, 0, branch, half, right.size, shape_of(tree))
    branch.size = <uint8_t>half
    adopt(tree, right_page, 0)
    count = total_of(counts_of(right), right.size)
    counts_of(parent)[slot] -= count
    if tree.dense:
        runs = total_of(runs_of(right), right.size)
        runs_of(parent)[slot] -= runs
    set_child(tree, branch.up, slot + 1, right_page, count, runs)


cdef int where_to_cut(Tree *tree, uint32_t page, int at) noexcept nogil:
    """The size of the left part when a full leaf is split to insert at a position."""
    if at == LEAF_MOST and leaf_after(tree, page) == NONE:
        return LEAF_MOST - 1
    if at == 0 and neighbour(tree, page, -1) == NONE:
        return 1
    return LEAF_MOST // 2


cdef bint split_leaf(Tree *tree, uint32_t page, int at) noexcept nogil:
    """Split a full leaf in which an entry is to go to a position; False without memory."""
    cdef Leaf *left
    cdef Leaf *right
    cdef uint32_t right_page = NONE
    cdef Stage stage
    cdef int cut
    if tree.height == 0:
        if not raise_root(tree):
            return False
        page = tree.root_page
        page = children_of(branch_at(tree, page))[0]
    if not make_room(tree, leaf_at(tree, page).up):
        return False
    cut = where_to_cut(tree, page, at)
    stage.size = 0
    stage_load(&stage, leaf_at(tree, page), tree.words)
    left = leaf_pack(&stage, tree.words, 0, cut)
    right = leaf_pack(&stage, tree.words, cut, stage.size)
    if left != NULL and right != NULL:
        right_page = take_page(tree)
    if right_page == NONE or not add_staged_edge(tree, page, &stage, cut):
        if right_page != NONE:
            give_page(tree, right_page)
        free(left)
        free(right)
        return False
    place_halves(tree, page, left, right_page, right)
    return True


cdef void place_halves(Tree *tree, uint32_t page, Leaf *left, uint32_t right_page,
                       Leaf *right) noexcept nogil:
    """Put two leaves in the place of one, for which the parent has a slot open."""
    cdef Leaf *old = leaf_at(tree, page)
    cdef Branch *branch = branch_at(tree, old.up)
    cdef int slot = slot_of(tree, page)
    cdef uint32_t runs = 0
    left.up = old.up
    tree.bytes += leaf_bytes(left, tree.words) + leaf_bytes(right, tree.words)
    tree.bytes -= leaf_bytes(old, tree.words)
    free(old)
    set_page(tree, page, left)
    set_page(tree, right_page, right)
    map_members(tree, right, right_page)
    counts_of(branch)[slot] -= right.size
    set_child(tree, left.up, slot + 1, right_page, right.size, 0)
    if tree.dense:
        runs = begins_run(tree, right_page) + inner_runs(tree, right, right.size - 1)
        runs_of(branch)[slot + 1] = runs
        runs_of(branch)[slot] -= runs


# Shrinking


cdef void lower_root(Tree *tree) noexcept nogil:
    """While the root has a single child, let the child be the root; without any, be empty."""
    cdef Branch *branch
    cdef uint32_t page
    while tree.height > 0:
        branch = tree.root
        if branch.size > 1:
            return
        page = tree.root_page
        tree.bytes -= branch_bytes(branch, shape_of(tree))
        tree.root_page = children_of(branch)[0] if branch.size else NONE
        tree.root = page_at(tree, tree.root_page) if branch.size else NULL
        tree.height -= 1 if branch.size else tree.height
        if tree.root != NULL:
            tree.root.up = NONE
        branch_free(branch)
        give_page(tree, page)
        if tree.height == 0:
            close_pages(tree)


cdef void drop_child(Tree *tree, uint32_t page, int slot) noexcept nogil:
    """Remove a child that is given up from a branch, and the branch when it was the last."""
    cdef Branch *branch = branch_at(tree, page)
    cdef Shape shape = shape_of(tree)
    cdef uint32_t up = branch.up
    tree.bytes -= branch_bytes(branch, shape)
    branch.size -= 1
    branch_copy(branch, slot, branch, slot + 1, branch.size - slot, shape)
    if branch.size:
        edges_at(branch)[0] = leaf_remove(edges_of(branch), shape.words, slot - 1 if slot else 0)
    tree.bytes += branch_bytes(branch, shape)
    if up == NONE:
        lower_root(tree)
    elif branch.size == 0:
        slot = slot_of(tree, page)
        tree.bytes -= branch_bytes(branch, shape)
        branch_free(branch)
        give_page(tree, page)
        drop_child(tree, up, slot)
    elif branch.size < BRANCH_MOST // 4:
        thin_branch(tree, page)


cdef void thin_branch(Tree *tree, uint32_t page) noexcept nogil:
    """Join a branch of few children with a neighbour under its parent where both fit well."""
    cdef Branch *parent = branch_at(tree, branch_at(tree, page).up)
    cdef uint32_t *children = children_of(parent)
    cdef int slot = slot_of(tree, page)
    cdef int size = branch_at(tree, page).size
    if slot + 1 < parent.size and (
            size + branch_at(tree, children[slot + 1]).size <= BRANCH_MOST // 4 * 3):
        join_branches(tree, page, children[slot + 1], slot + 1)
    elif slot > 0 and size + branch_at(tree, children[slot - 1]).size <= BRANCH_MOST // 4 * 3:
        join_branches(tree, children[slot - 1], page, slot)


cdef void join_branches(Tree *tree, uint32_t page, uint32_t right_page, int slot) noexcept nogil:
    """Move the children of a branch, at a slot of the parent, to the branch before it."""
    cdef Branch *right = branch_at(tree, right_page)
    cdef Branch *branch
    cdef Branch *parent = branch_at(tree, right.up)
    cdef Shape shape = shape_of(tree)
    cdef int size = branch_at(tree, page).size
    cdef Leaf *edges
    cdef Stage stage
    if not widen(tree, page, size + right.size):
        return
    branch = branch_at(tree, page)
    stage.size = 0
    stage_load(&stage, edges_of(branch), shape.words)
    stage_append(&stage, shape.words, edges_of(parent), slot - 1)
    stage_load(&stage, edges_of(right), shape.words)
    edges = leaf_pack(&stage, shape.words, 0, stage.size)
    if edges == NULL:
        return
    tree.bytes -= branch_bytes(branch, shape) + branch_bytes(right, shape)
    free(edges_of(branch))
    edges_at(branch)[0] = edges
    branch_copy(branch, size, right, 0, right.size, shape)
    branch.size += right.size
    tree.bytes += branch_bytes(branch, shape)
    adopt(tree, page, size)
    merge_slots(tree, parent, slot)
    branch_free(right)
    give_page(tree, right_page)
    drop_child(tree, branch.up, slot)


cdef inline void merge_slots(Tree *tree, Branch *branch, int slot) noexcept nogil:
    """Add what is counted under a slot to the slot before it."""
    counts_of(branch)[slot - 1] += counts_of(branch)[slot]
    if tree.dense:
        runs_of(branch)[slot - 1] += runs_of(branch)[slot]


cdef void thin_leaf(Tree *tree, uint32_t page) noexcept nogil:
    """Join a leaf of few entries with a neighbour under its parent; drop it when empty."""
    cdef Leaf *leaf = leaf_at(tree, page)
    cdef uint32_t up = leaf.up
    cdef Branch *parent = branch_at(tree, up)
    cdef uint32_t *children = children_of(parent)
    cdef int slot = slot_of(tree, page)
    if leaf.size == 0:
        tree.bytes -= leaf_bytes(leaf, tree.words)
        free(leaf)
        give_page(tree, page)
        drop_child(tree, up, slot)
    elif slot + 1 < parent.size and (
            leaf.size + leaf_at(tree, children[slot + 1]).size <= LEAF_MOST // 4 * 3):
        join_leaves(tree, page, children[slot + 1], slot + 1)
    elif slot > 0 and leaf.size + leaf_at(tree, children[slot - 1]).size <= LEAF_MOST // 4 * 3:
        join_leaves(tree, children[slot - 1], page, slot)


cdef void join_leaves(Tree *tree, uint32_t page, uint32_t right_page, int slot) noexcept nogil:
    """Move the entries of a leaf, at a slot of the parent, to the leaf before it."""
    cdef Leaf *leaf = leaf_at(tree, page)
    cdef Leaf *right = leaf_at(tree, right_page)
    cdef Leaf *joined
    cdef uint32_t up = leaf.up
    cdef Stage stage
    stage.size = 0
    stage_load(&stage, leaf, tree.words)
    stage_load(&stage, right, tree.words)
    joined = leaf_pack(&stage, tree.words, 0, stage.size)
    if joined == NULL:
        return
    map_members(tree, right, page)
    joined.up = up
    tree.bytes += leaf_bytes(joined, tree.words)
    tree.bytes -= leaf_bytes(leaf, tree.words) + leaf_bytes(right, tree.words)
    free(leaf)
    free(right)
    set_page(tree, page, joined)
    give_page(tree, right_page)
    merge_slots(tree, branch_at(tree, up), slot)
    drop_child(tree, up, slot)


# Entries


cdef inline void set_key(Key *key, const Tree *tree, uint32_t member,
                         const int64_t *entry) noexcept nogil:
    key.words = entry
    key.count = tree.ordered
    key.named = True
    key.member = member
    key.start = NULL
    key.length = 0


cdef inline int slot_for(const Tree *tree, uint32_t page, Key *key, bint right) noexcept nogil:
    """The slot of the child in which the key's place is: before its equals, or after (right)."""
    return leaf_bound(edges_of(branch_at(tree, page)), tree.ordered, tree.names, key, right)


cdef int edge_order(const Tree *tree, const Branch *branch, int slot, Key *key) noexcept nogil:
    """Negative, 0 or positive as a full key stands before, at or after the edge before a slot."""
    cdef Leaf *edges = edges_of(branch)
    cdef int word
    cdef int64_t its
    for word in range(tree.ordered):
        its = leaf_get(edges, word, slot - 1)
        if key.words[word] != its:
            return -1 if key.words[word] < its else 1
    return order_to_member(tree.names, key, ids_of(edges, tree.ordered)[slot - 1])


cdef uint32_t descend(const Tree *tree, Key *key, bint right) noexcept nogil:
    """The page of the leaf in which the key's place is."""
    cdef uint32_t page = tree.root_page
    cdef int level
    for level in range(tree.height):
        page = children_of(branch_at(tree, page))[slot_for(tree, page, key, right)]
    return page


cdef bint tree_seek(Tree *tree, uint32_t member, Spot *spot) noexcept nogil:
    """Find a member's entry; False when it has none. O(1)."""
    spot.page = NONE
    if tree.root == NULL:
        return False
    if tree.height:
        spot.page = table_get(&tree.places, member)
        if spot.page == NONE:
            return False
    spot.at = leaf_find(leaf_at(tree, spot.page), tree.words, member)
    return spot.at >= 0


cdef bint plant(Tree *tree, uint32_t member, const int64_t *entry) noexcept nogil:
    """Begin an empty tree with one entry."""
    cdef Stage stage
    cdef Leaf *leaf
    cdef int word
    stage.size = 1
    stage.ids[0] = member
    for word in range(tree.words):
        stage.words[word][0] = entry[word]
    leaf = leaf_pack(&stage, tree.words, 0, 1)
    if leaf == NULL:
        return False
    leaf.up = NONE
    tree.root = leaf
    tree.bytes += leaf_bytes(leaf, tree.words)
    tree.size = 1
    return True


cdef inline bint find_gap(Tree *tree, Key *key, const Hint *hint, Spot *gap) noexcept nogil:
    """Where a key that is not there belongs; whether the hint was right.

    Between two entries of one leaf there is no other place for it, so a hint that names a leaf
    with the key inside needs no walk from the root.
    """
    cdef Leaf *leaf
    if hint != NULL and hint.page != NONE and hint.epoch == tree.epoch:
        leaf = leaf_at(tree, hint.page)
        gap.page = hint.page
        gap.at = leaf_bound(leaf, tree.words, tree.names, key, True)
        if 0 < gap.at < leaf.size:
            return True
    gap.page = descend(tree, key, True)
    gap.at = leaf_bound(leaf_at(tree, gap.page), tree.words, tree.names, key, True)
    return False


cdef bint insert_at(Tree *tree, Key *key, Spot *gap) noexcept nogil:
    """Put in an entry where it belongs; False without memory."""
    cdef Leaf *leaf
    cdef uint64_t old_bytes
    if leaf_at(tree, gap.page).size == LEAF_MOST:
        if not split_leaf(tree, gap.page, gap.at):
            return False
        find_gap(tree, key, NULL, gap)
    if tree.height and table_set(&tree.places, key.member, gap.page) < 0:
        return False
    leaf = leaf_at(tree, gap.page)
    old_bytes = leaf_bytes(leaf, tree.words)
    leaf = leaf_insert(leaf, tree.words, gap.at, key.member, key.words)
    if leaf == NULL:
        return False
    keep_leaf(tree, gap.page, leaf, old_bytes)
    tree.size += 1
    add_above(tree, gap.page, 1)
    count_runs_from(tree, gap.page)
    return True


cdef void take_out(Tree *tree, const Spot *spot) noexcept nogil:
    """Remove an entry, but not its place from the table."""
    cdef Leaf *leaf = leaf_at(tree, spot.page)
    cdef uint64_t old_bytes = leaf_bytes(leaf, tree.words)
    leaf = leaf_remove(leaf, tree.words, spot.at)
    keep_leaf(tree, spot.page, leaf, old_bytes)
    tree.size -= 1
    if tree.height == 0:
        if leaf.size == 0:
            tree_close(tree)
        return
    add_above(tree, spot.page, -1)
    count_runs_from(tree, spot.page)
    if leaf.size < LEAF_MOST // 4:
        thin_leaf(tree, spot.page)


cdef bint owns(const Tree *tree, uint32_t page, Key *key) noexcept nogil:
    """Whether the key's place is in a leaf, by the edges above it."""
    cdef uint32_t up = leaf_at(tree, page).up
    cdef bint above = False
    cdef bint below = False
    cdef Branch *branch
    cdef int slot
    while up != NONE and not (above and below):
        branch = branch_at(tree, up)
        slot = slot_of(tree, page)
        if not above and slot > 0:
            if edge_order(tree, branch, slot, key) < 0:
                return False
            above = True
        if not below and slot + 1 < branch.size:
            if edge_order(tree, branch, slot + 1, key) >= 0:
                return False
            below = True
        page = up
        up = branch.up
    return True


cdef inline void forget(Tree *tree, uint32_t member) noexcept nogil:
    """Remove a member's place from the table, if it has one."""
    if tree.height and table_get(&tree.places, member) != NONE:
        table_drop(&tree.places, member)


cdef bint are_ordered_alike(const Tree *tree, const Leaf *leaf, int at, const int64_t *entry) noexcept nogil:
    cdef int word
    for word in range(tree.ordered):
        if leaf_get(leaf, word, at) != entry[word]:
            return False
    return True


cdef int tree_insert(Tree *tree, uint32_t member, const int64_t *entry,
                     const Hint *hint) noexcept nogil:
    """Put in the entry of a member who has none. O(log n); -1 without memory."""
    cdef Key key
    cdef Spot gap
    if tree.root == NULL:
        return 0 if plant(tree, member, entry) else -1
    set_key(&key, tree, member, entry)
    find_gap(tree, &key, hint, &gap)
    if insert_at(tree, &key, &gap):
        return 0
    forget(tree, member)
    return -1


cdef int send_away(Tree *tree, const Spot *spot, Key *key, Spot *gap) noexcept nogil:
    """Move an entry to a gap in another leaf; -1 without memory (the entry is lost)."""
    cdef uint32_t epoch = tree.epoch
    take_out(tree, spot)
    if tree.root == NULL:
        return 0 if plant(tree, key.member, key.words) else -1
    if tree.epoch != epoch or gap.page == NONE:
        find_gap(tree, key, NULL, gap)
    if insert_at(tree, key, gap):
        return 0
    forget(tree, key.member)
    return -1


cdef inline int side_of(const Leaf *leaf, const int64_t *entry) noexcept nogil:
    """-1 or 1 when an entry's first word stands before or after all of the leaf's, else 0."""
    if entry[0] < leaf_get(leaf, 0, 0):
        return -1
    return entry[0] > leaf_get(leaf, 0, leaf.size - 1)


cdef inline int where_in(const Tree *tree, const Leaf *leaf, Key *key) noexcept nogil:
    """How many entries of a leaf stand before the key; told by its ends where they suffice."""
    cdef int side = side_of(leaf, key.words)
    if side:
        return 0 if side < 0 else leaf.size
    return leaf_bound(leaf, tree.words, tree.names, key, False)


cdef int tree_assign_at(Tree *tree, uint32_t member, const int64_t *entry, const Spot *spot,
                        const Hint *hint) noexcept nogil:
    """Give a member's entry at a spot new words. O(log n); -1 without memory."""
    cdef Key key
    cdef Spot gap
    cdef Leaf *leaf = leaf_at(tree, spot.page)
    cdef uint64_t old_bytes = leaf_bytes(leaf, tree.words)
    cdef int to = spot.at
    if not are_ordered_alike(tree, leaf, spot.at, entry):
        set_key(&key, tree, member, entry)
        gap.page = NONE
        if hint != NULL and hint.page != NONE and hint.page != spot.page and (
                hint.epoch == tree.epoch) and find_gap(tree, &key, hint, &gap):
            return send_away(tree, spot, &key, &gap)
        to = where_in(tree, leaf, &key)
        if (to == 0 or to == leaf.size) and not owns(tree, spot.page, &key):
            gap.page = NONE
            return send_away(tree, spot, &key, &gap)
        to -= to > spot.at
    leaf = leaf_move(leaf, tree.words, spot.at, to, entry)
    if leaf == NULL:
        return -1
    keep_leaf(tree, spot.page, leaf, old_bytes)
    count_runs_from(tree, spot.page)
    return 0


cdef int tree_assign(Tree *tree, uint32_t member, const int64_t *entry,
                     const Hint *hint) noexcept nogil:
    """Put in a member's entry, or give it new words. O(log n); -1 without memory."""
    cdef Spot spot
    if tree_seek(tree, member, &spot):
        return tree_assign_at(tree, member, entry, &spot, hint)
    return tree_insert(tree, member, entry, hint)


cdef void tree_foresee(Tree *tree, uint32_t member, const int64_t *entry,
                       Hint *hint) noexcept nogil:
    """Find the leaf an entry will go to from the hint's spot, and ask for it.

    A hint stays safe whatever happens before it is used, and useful unless the leaf is split.
    """
    cdef Key key
    cdef Leaf *leaf
    cdef int at
    hint.page = NONE
    hint.epoch = tree.epoch
    if tree.height == 0:
        return
    set_key(&key, tree, member, entry)
    if hint.spot.page != NONE:
        leaf = leaf_at(tree, hint.spot.page)
        at = where_in(tree, leaf, &key)
        if 0 < at < leaf.size:
            return
    hint.page = descend(tree, &key, True)
    ask_for_leaf(tree, hint.page)


cdef bint tree_discard(Tree *tree, uint32_t member) noexcept nogil:
    """Remove a member's entry; whether it had one. O(log n)."""
    cdef Spot spot
    if not tree_seek(tree, member, &spot):
        return False
    forget(tree, member)
    take_out(tree, &spot)
    return True


# Ranks


cdef uint64_t rank_of_leaf(Tree *tree, uint32_t page) noexcept nogil:
    """The number of entries before a leaf."""
    cdef uint32_t up = leaf_at(tree, page).up
    cdef uint64_t before = 0
    cdef Branch *branch
    while up != NONE:
        branch = branch_at(tree, up)
        before += total_of(counts_of(branch), slot_of(tree, page))
        page = up
        up = branch.up
    return before


cdef uint64_t runs_before_leaf(Tree *tree, uint32_t page) noexcept nogil:
    """The number of runs that begin before a leaf."""
    cdef uint32_t up = leaf_at(tree, page).up
    cdef uint64_t before = 0
    cdef Branch *branch
    while up != NONE:
        branch = branch_at(tree, up)
        before += total_of(runs_of(branch), slot_of(tree, page))
        page = up
        up = branch.up
    return before


cdef uint64_t rank_by_columns(Tree *tree, const Spot *spot) noexcept nogil:
    """The number of entries whose columns stand before those of an entry."""
    cdef Leaf *leaf = leaf_at(tree, spot.page)
    cdef int64_t entry[WORDS_MOST]
    cdef Key key
    cdef int at
    leaf_read(leaf, tree.words, spot.at, entry)
    set_key(&key, tree, NONE, entry)
    key.count = tree.columns
    key.named = False
    at = leaf_bound(leaf, tree.words, tree.names, &key, False)
    return rank_of_leaf(tree, spot.page) + at if at else tree_bound(tree, &key, False)


cdef uint64_t tree_rank(Tree *tree, const Spot *spot, int style) noexcept nogil:
    """The rank from 0 of an entry in a style. O(log n)."""
    cdef Leaf *leaf
    cdef uint64_t runs
    if style == ORDINAL:
        return rank_of_leaf(tree, spot.page) + spot.at
    if style == COMPETITION:
        return rank_by_columns(tree, spot)
    leaf = leaf_at(tree, spot.page)
    runs = runs_before_leaf(tree, spot.page) + inner_runs(tree, leaf, spot.at)
    return runs + begins_run(tree, spot.page) - 1


cdef uint64_t tree_bound(Tree *tree, Key *key, bint right) noexcept nogil:
    """The number of entries before the key, or at it too (right). O(log n)."""
    cdef uint32_t page = tree.root_page
    cdef uint64_t before = 0
    cdef Branch *branch
    cdef int level, slot
    if tree.root == NULL:
        return 0
    for level in range(tree.height):
        branch = branch_at(tree, page)
        slot = slot_for(tree, page, key, right)
        before += total_of(counts_of(branch), slot)
        page = children_of(branch)[slot]
    return before + leaf_bound(leaf_at(tree, page), tree.words, tree.names, key, right)


cdef void tree_select(Tree *tree, uint64_t position, Spot *spot) noexcept nogil:
    """The entry at a position that exists. O(log n)."""
    cdef uint32_t page = tree.root_page
    cdef Branch *branch
    cdef uint32_t *counts
    cdef int level, slot
    for level in range(tree.height):
        branch = branch_at(tree, page)
        counts = counts_of(branch)
        slot = 0
        while position >= counts[slot]:
            position -= counts[slot]
            slot += 1
        page = children_of(branch)[slot]
    spot.page = page
    spot.at = <int>position


# Checking


cdef struct Audit:              # what a check has seen so far
    uint64_t entries
    uint64_t bytes
    uint32_t pages
    uint32_t last               # the page of the leaf before


cdef bint are_edges_true(Tree *tree, const Branch *branch, int slot, uint32_t before,
                         uint32_t page) noexcept nogil:
    """Whether an edge stands after the last entry before it and not after the first behind it."""
    cdef int64_t entry[WORDS_MOST]
    cdef Leaf *leaf = leaf_at(tree, before)
    cdef Key key
    leaf_read(leaf, tree.words, leaf.size - 1, entry)
    set_key(&key, tree, ids_of(leaf, tree.words)[leaf.size - 1], entry)
    if edge_order(tree, branch, slot, &key) >= 0:
        return False
    leaf = leaf_at(tree, page)
    leaf_read(leaf, tree.words, 0, entry)
    set_key(&key, tree, ids_of(leaf, tree.words)[0], entry)
    return edge_order(tree, branch, slot, &key) >= 0


cdef uint32_t first_leaf(Tree *tree, uint32_t page, int levels) noexcept nogil:
    while levels > 0:
        page = children_of(branch_at(tree, page))[0]
        levels -= 1
    return page


cdef const char *check_leaf(Tree *tree, uint32_t page, Audit *audit) noexcept nogil:
    cdef Leaf *leaf = leaf_at(tree, page)
    cdef int i
    if leaf.size == 0:
        return "a leaf is empty"
    if tree.height:
        for i in range(leaf.size):
            if table_get(&tree.places, ids_of(leaf, tree.words)[i]) != page:
                return "the table does not lead a member to its leaf"
    audit.entries += leaf.size
    audit.bytes += leaf_bytes(leaf, tree.words)
    audit.last = page
    return leaf_check(leaf, tree.words, tree.ordered, tree.names)


cdef const char *check_slot(Tree *tree, uint32_t up, int slot, int level, Audit *audit) noexcept nogil:
    """Check one child of a branch and what the branch says of it."""
    cdef Branch *branch = branch_at(tree, up)
    cdef uint32_t page = children_of(branch)[slot]
    cdef uint32_t before = audit.last
    cdef uint64_t entries = audit.entries
    cdef const char *fault
    if page_at(tree, page).up != up:
        return "a child names another parent"
    if slot > 0 and not are_edges_true(tree, branch, slot, before,
                                       first_leaf(tree, page, level - 1)):
        return "an edge does not part its children"
    audit.pages += 1
    fault = check_leaf(tree, page, audit) if level == 1 else check_branch(tree, page, level - 1, audit)
    if fault != NULL:
        return fault
    if counts_of(branch)[slot] != audit.entries - entries:
        return "a branch miscounts its entries"
    if tree.dense and runs_of(branch)[slot] != runs_of_child(tree, page, level):
        return "a branch miscounts its runs"
    return NULL


cdef uint64_t runs_of_child(Tree *tree, uint32_t page, int level) noexcept nogil:
    cdef Leaf *leaf
    cdef Branch *branch
    if level == 1:
        leaf = leaf_at(tree, page)
        return begins_run(tree, page) + inner_runs(tree, leaf, leaf.size - 1)
    branch = branch_at(tree, page)
    return total_of(runs_of(branch), branch.size)


cdef const char *check_branch(Tree *tree, uint32_t page, int level, Audit *audit) noexcept nogil:
    cdef Branch *branch = branch_at(tree, page)
    cdef const char *fault
    cdef int slot
    if not 0 < branch.size <= branch.room <= BRANCH_MOST:
        return "a branch is empty, or fuller or larger than it may be"
    if edges_of(branch).size != branch.size - 1:
        return "a branch has not one edge less than children"
    fault = leaf_check(edges_of(branch), tree.ordered, tree.ordered, tree.names)
    if fault != NULL:
        return fault
    audit.bytes += branch_bytes(branch, shape_of(tree))
    for slot in range(branch.size):
        fault = check_slot(tree, page, slot, level, audit)
        if fault != NULL:
            return fault
    return NULL


cdef const char *check_whole(Tree *tree, const Audit *audit) noexcept nogil:
    """Check the totals after all branches and leaves were seen."""
    cdef uint32_t page = tree.free_page
    cdef uint32_t free_pages = 0
    if audit.entries != tree.size:
        return "the tree miscounts its entries"
    while page != NONE and free_pages <= tree.page_count:
        free_pages += 1
        page = <uint32_t>(<uintptr_t>page_at(tree, page) >> 1)
    if audit.pages + free_pages != tree.page_count:
        return "pages are lost"
    if tree.bytes != audit.bytes + tree.page_room * sizeof(Page **) + (
            (tree.page_count + PAGES - 1) // PAGES * PAGES * sizeof(Page *)):
        return "the tree miscounts its bytes"
    return table_check(&tree.places, tree.size) if tree.height else NULL


cdef const char *tree_check(Tree *tree) noexcept nogil:
    """Assert every invariant; the first fault found, or NULL. O(n)."""
    cdef Audit audit
    cdef const char *fault
    memset(&audit, 0, sizeof(Audit))
    audit.last = NONE
    if tree.root == NULL:
        return check_whole(tree, &audit)
    if tree.height == 0:
        fault = check_leaf(tree, NONE, &audit)
        return check_whole(tree, &audit) if fault == NULL else fault
    if page_at(tree, tree.root_page) != tree.root or tree.root.up != NONE:
        return "the root is not the page it should be"
    if tree.root.size < 2:
        return "the root has a single child"
    audit.pages = 1
    fault = check_branch(tree, tree.root_page, tree.height, &audit)
    if fault != NULL:
        return fault
    return check_whole(tree, &audit)
