# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The rolling set: one rolling window of one board, its tallies and its two rankings.

The method is in `ring.pxd`. This is the Python interface, and it owns the ring: a slot has one
reference to its tally. Not thread safe by itself: threads that share it need a lock around each
call.
"""
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from laurels.engine.buffers cimport BufferViews, acquire_buffer, items, release_buffers, uints
from laurels.engine.tally.cells cimport PLACES, Cells
from .deferred cimport check_build, continue_build, count_cells
from laurels.engine.tree.growth cimport tree_close
from laurels.engine.tree.leaf cimport WORDS_MOST
from .prepare cimport continue_pass
from laurels.engine.tree.ranked_set cimport RankedSet
from .recount cimport recount
from laurels.engine.tree.restoring cimport tree_copy
from .ring cimport Rolling, cells_for, is_complete, leaving_of, slot_for
from laurels.engine.roster.roster cimport Roster
from laurels.engine.tree.rows cimport Rows, acquire_rows, check_ids
from laurels.engine.writing.rule cimport OP_SUM, SANE, Rule
from laurels.engine.writing.shape cimport Shape
from laurels.engine.tally.tally cimport Tally, new_tally, put_cells

from laurels.errors import CheckFailed

cdef enum:
    STEPS_MOST = 10000
    MANY = 1000                 # the number of members from which the GIL is released
    SWEEP = 256                 # how many slots of the ring a rotation searches for empty tallies


cdef inline bint are_rules_equal(const Rule *left, const Rule *right) noexcept:
    """Return whether entries of two rules have the same words with the same meaning."""
    cdef int column
    for column in range(left.columns):
        if left.ops[column] != right.ops[column]:
            return False
    return (left.columns == right.columns and left.words == right.words
            and left.tie == right.tie and left.stamped == right.stamped)


cdef inline uint64_t cells_after(const Cells *cells, uint64_t place) noexcept:
    """Return about how many cells of a tally are at or after a place in hash order."""
    if cells == NULL or place >= PLACES:
        return 0
    return <uint64_t>cells.size if cells.draining else (cells.size * (PLACES - place)) >> 32


@cython.final
@cython.no_gc
cdef class RollingSet:
    """The state of a rolling window of `steps` steps (2 to 10,000), initially empty.

    `lows` and `highs` bound a member's total in one step, for sum columns, in signed words; `shape`
    has the bounds of its total in the window. `dense` is as in a ranked set; `running` is the
    number of the running step; a `deferred` set changes its ranking only by `build` and `refresh`.
    An empty set takes 8 bytes per step. The garbage collector does not track a set, since it is
    never part of a reference cycle.
    """

    def __cinit__(self, Roster roster not None, Shape shape not None, *, int steps, object lows,
                  object highs, bint dense, int64_t running, bint deferred = False) -> None:
        cdef Rule *rule = &self.rolling.step_rule
        cdef int column
        if not 2 <= steps <= STEPS_MOST:
            raise ValueError(f"expected a rolling window of 2 to {STEPS_MOST} steps")
        if not len(lows) == len(highs) == shape.rule.columns:
            raise ValueError("expected a low and a high bound for each column")
        self.rolling.rule = shape.rule
        rule[0] = shape.rule
        for column in range(rule.columns):
            if rule.ops[column] == OP_SUM:
                rule.lows[column] = lows[column]
                rule.highs[column] = highs[column]
        if deferred:
            for column in range(rule.columns):
                self.rolling.rule.lows[column] = -SANE
                self.rolling.rule.highs[column] = SANE
        self.dense = dense
        self.roster = roster
        self.rolling.deferred = deferred
        self.live = self.new_ranking()
        self.prepared = self.new_ranking()
        self.rolling.live = &self.live.tree
        self.rolling.prepared = &self.prepared.tree
        self.rolling.steps = steps
        self.rolling.running = running
        self.rolling.left_position = PLACES
        self.rolling.leaving_position = PLACES
        self.rolling.ring = <Cells **>calloc(steps + 1, sizeof(Cells *))
        if self.rolling.ring == NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        if self.rolling.ring != NULL:
            self.release_all()
            free(self.rolling.ring)

    cdef bint serves(self, Rule rule):
        """Return whether the set was made for this write rule."""
        return are_rules_equal(&self.rolling.rule, &rule)

    cdef RankedSet new_ranking(self):
        """Return a new empty ranking for this set."""
        cdef const Rule *rule = &self.rolling.rule
        return RankedSet(self.roster, columns=rule.columns, tie=rule.tie != 0,
                         stamped=rule.stamped, dense=self.dense,
                         stepped=not self.rolling.deferred)

    cdef Tally at(self, int64_t number):
        """Return the tally of a step, None if there is none."""
        cdef Cells *cells
        if not leaving_of(&self.rolling) - 1 <= number <= self.rolling.running:
            return None
        cells = cells_for(&self.rolling, number)
        return None if cells == NULL else <Tally>cells.owner

    cdef int release(self, Cells **slot) except -1:
        """Remove a tally from the ring, if there is one."""
        cdef Cells *cells = slot[0]
        slot[0] = NULL
        if cells != NULL:
            Py_DECREF(<Tally>cells.owner)
        return 0

    cdef int release_all(self) except -1:
        cdef int slot
        for slot in range(self.rolling.steps + 1):
            self.release(&self.rolling.ring[slot])
        return 0

    cdef int sweep(self) except -1:
        """Release the empty tallies in a bounded number of slots."""
        cdef int slots = self.rolling.steps + 1
        cdef Cells **slot
        for _ in range(min(slots, <int>SWEEP)):
            self.sweep_slot = (self.sweep_slot + 1) % slots
            slot = &self.rolling.ring[self.sweep_slot]
            if slot[0] != NULL and slot[0].size == 0:
                self.release(slot)
        return 0

    cdef int begin_pass(self) except -1:
        """Begin the pass over the tally that left and the tally about to leave. An empty tally
        counts as visited."""
        cdef Cells *left = cells_for(&self.rolling, leaving_of(&self.rolling) - 1)
        cdef Cells *leaving = cells_for(&self.rolling, leaving_of(&self.rolling))
        if self.rolling.deferred:
            return 0
        self.rolling.left_position = PLACES if left == NULL or left.size == 0 else 0
        self.rolling.leaving_position = PLACES if leaving == NULL or leaving.size == 0 else 0
        return 0

    cdef int check_number(self, int64_t number) except -1:
        if not leaving_of(&self.rolling) <= number <= self.rolling.running:
            raise ValueError(f"the window counts the steps {leaving_of(&self.rolling)} to "
                             f"{self.rolling.running}, not {number}")
        return 0

    @property
    def running(self) -> int:
        """The number of the running step."""
        return self.rolling.running

    @property
    def steps(self) -> int:
        """How many steps the window counts, including the running one."""
        return self.rolling.steps

    @property
    def leaving(self) -> int:
        """The number of the oldest counted step, whose tally leaves next."""
        return leaving_of(&self.rolling)

    @property
    def complete(self) -> bool:
        """Whether the next step is completely prepared."""
        return is_complete(&self.rolling)

    @property
    def pass_remaining(self) -> int:
        """The approximate number of members that the pass still has to visit."""
        return cells_after(
            cells_for(&self.rolling, leaving_of(&self.rolling) - 1), self.rolling.left_position
        ) + cells_after(
            cells_for(&self.rolling, leaving_of(&self.rolling)), self.rolling.leaving_position)

    @property
    def tally_nbytes(self) -> int:
        """Bytes allocated for the tallies and their ring. O(steps)."""
        cdef uint64_t total = (self.rolling.steps + 1) * sizeof(Cells *)
        cdef int slot
        for slot in range(self.rolling.steps + 1):
            if self.rolling.ring[slot] != NULL:
                total += <uint64_t>Tally.__basicsize__ + self.rolling.ring[slot].bytes
        return total

    @property
    def nbytes(self) -> int:
        """Bytes allocated, including this object, tallies and rankings. O(steps)."""
        return (<uint64_t>RollingSet.__basicsize__ + self.tally_nbytes + self.live.nbytes
                + self.prepared.nbytes)

    def tally(self, number: int) -> Tally | None:
        """Return the tally of a step, None if there is none."""
        return self.at(number)

    def numbers(self) -> list[int]:
        """Return the numbers, ascending, of the steps whose tallies have cells. O(steps).

        The step that left last is among them until the pass has visited its whole tally.
        """
        cdef int64_t number
        cdef Cells *cells
        cdef list numbers = []
        for number in range(leaving_of(&self.rolling) - 1, self.rolling.running + 1):
            cells = cells_for(&self.rolling, number)
            if cells != NULL and cells.size:
                numbers.append(number)
        return numbers

    def open_tally(self, number: int) -> Tally:
        """Return the tally of a step that the window counts, created if there is none.

        Raises ValueError for another step.
        """
        cdef Tally tally
        self.check_number(number)
        tally = self.at(number)
        if tally is None:
            linked = self.rolling.rule.best and not self.rolling.deferred
            tally = new_tally(self.rolling.rule.words + 2 * linked, number)
            Py_INCREF(tally)
            slot_for(&self.rolling, number)[0] = &tally.cells
        return tally

    def advance(self, limit: int) -> bool:
        """Prepare about `limit` more members (whole buckets); return whether the pass is complete.

        O(limit * log n). Releases the GIL for many members.
        """
        cdef int64_t most = min(limit, <int64_t>1 << 62)
        cdef bint done
        if most < MANY:
            done = continue_pass(&self.rolling, most)
        else:
            with nogil:
                done = continue_pass(&self.rolling, most)
        if not done:
            raise MemoryError
        if self.rolling.left_position >= PLACES:
            self.release(slot_for(&self.rolling, leaving_of(&self.rolling) - 1))
        return is_complete(&self.rolling)

    def rotate_step(self) -> None:
        """Go to the next step: the rankings swap roles, and a new pass begins. O(1).

        Tallies without cells may be released. Raises RuntimeError if the next step is not prepared,
        or the set is deferred.
        """
        if self.rolling.deferred:
            raise RuntimeError("a deferred set goes to another step only by `jump_to`")
        if not is_complete(&self.rolling):
            raise RuntimeError("the next step is not prepared yet")
        self.release(slot_for(&self.rolling, leaving_of(&self.rolling) - 1))
        self.sweep()
        self.rolling.running += 1
        self.rolling.running_slot = (self.rolling.running_slot + 1) % (self.rolling.steps + 1)
        self.live, self.prepared = self.prepared, self.live
        self.rolling.live = &self.live.tree
        self.rolling.prepared = &self.prepared.tree
        self.begin_pass()

    def copy_live(self) -> RankedSet:
        """Return a copy of `live`, which later events do not change. O(members / 100).

        Releases the GIL. Raises RuntimeError for a deferred set, whose rankings have other words.
        """
        cdef RankedSet ranking = self.new_ranking()
        cdef bint done
        if self.rolling.deferred:
            raise RuntimeError("the ranking of a deferred set is not copied")
        with nogil:
            done = tree_copy(&ranking.tree, &self.live.tree)
        if not done:
            raise MemoryError
        return ranking

    # A deferred set

    @property
    def deferred(self) -> bool:
        """Whether `live` changes only by refreshes."""
        return self.rolling.deferred

    @property
    def cells(self) -> int:
        """How many cells the window counts. O(steps)."""
        return count_cells(&self.rolling)

    @property
    def building(self) -> bool:
        """Whether a build of a deferred set has begun. Then events of visited members are counted
        in `prepared`, too."""
        return self.rolling.built > 0

    @property
    def built(self) -> bool:
        """Whether a build of a deferred set is complete: `prepared` has the totals of the
        tallies."""
        return self.rolling.built >= PLACES

    @property
    def build_remaining(self) -> int:
        """The approximate number of cells that a build still has to visit. O(steps)."""
        return (count_cells(&self.rolling) * ((PLACES - self.rolling.built) >> 16)) >> 16

    def build(self, limit: int) -> bool:
        """Add up about `limit` more cells of a deferred set; return whether `prepared` is complete
        now.

        O(limit * log n + steps).
        """
        cdef int64_t most = min(limit, <int64_t>1 << 62)
        cdef bint done
        if not self.rolling.deferred:
            raise RuntimeError("the set is not deferred")
        if self.rolling.built >= PLACES:
            return True
        if most < MANY:
            done = continue_build(&self.rolling, most)
        else:
            with nogil:
                done = continue_build(&self.rolling, most)
        if not done:
            raise MemoryError
        return self.rolling.built >= PLACES

    def refresh(self) -> RankedSet:
        """Replace `live` by the ranking that was built; return the old one. O(1).

        Raises RuntimeError before the build is complete.
        """
        cdef RankedSet before = self.live
        if self.rolling.built < PLACES:
            raise RuntimeError("the ranking for the refresh is not completely built yet")
        self.live = self.prepared
        self.rolling.live = &self.live.tree
        self.restart_build()
        return before

    def restart_build(self) -> RankedSet:
        """Restart the build of a deferred set; return the discarded ranking."""
        cdef RankedSet before = self.prepared
        self.prepared = self.new_ranking()
        self.rolling.prepared = &self.prepared.tree
        self.rolling.built = 0
        return before

    def jump_to(self, running: int) -> list[RankedSet | Tally]:
        """Move a deferred set to a later step; return the discarded objects: the tallies that
        left, and the ranking being built. O(steps that left)."""
        cdef list left = [self.restart_build()]
        cdef int64_t step = leaving_of(&self.rolling)
        cdef int64_t missed = running - self.rolling.running
        cdef int64_t end = min(running - self.rolling.steps, self.rolling.running) + 1
        cdef Tally tally
        while step < end:
            tally = self.at(step)
            if tally is not None:
                left.append(tally)
                self.release(slot_for(&self.rolling, step))
            step += 1
        self.rolling.running = running
        self.rolling.running_slot = (self.rolling.running_slot + missed) % (self.rolling.steps + 1)
        self.sweep()
        return left

    def reset(self, running: int) -> None:
        """Discard all tallies and entries, and begin again at a step. O(steps + cells / 100)."""
        self.release_all()
        self.live.clear()
        self.prepared.clear()
        self.rolling.built = 0
        self.rolling.running = running
        self.begin_pass()

    def discard(self, ids: object) -> int:
        """Remove members from all tallies and both rankings; return how many were in `live`.
        O(steps) each."""
        cdef int64_t number
        cdef Tally tally
        for number in range(leaving_of(&self.rolling) - 1, self.rolling.running + 1):
            tally = self.at(number)
            if tally is not None:
                tally.discard(ids)
        self.prepared.discard(ids)
        return self.live.discard(ids)

    def load(self, number: int, ids: object, words: object) -> None:
        """Restore cells of a step's tally, as returned by `Tally.scan`; the pass begins again.

        Raises ValueError for a step that the window does not count, IndexError for an id that the
        roster has not assigned.
        """
        cdef BufferViews buffers
        cdef Rows rows
        cdef Tally tally = self.open_tally(number)
        cdef Py_ssize_t count
        cdef bint done
        buffers.count = 0
        try:
            acquire_rows(&buffers, ids, words, tally.cells.words, &rows)
            count = items(&buffers, 0)
            check_ids(self.rolling.live.names.count, uints(&buffers, 0), count)
            with nogil:
                done = put_cells(&tally.cells, uints(&buffers, 0), &rows, 0, count)
            if not done:
                raise MemoryError
        finally:
            release_buffers(&buffers)
        self.begin_pass()

    def prepare(self) -> None:
        """Derive `prepared` again, after the tallies were restored by `load` and `live` by its own
        `put`. So neither `prepared` nor the place that the pass has reached needs to be stored. O(n
        / 100)."""
        cdef bint done
        if self.rolling.deferred:
            return
        with nogil:
            tree_close(&self.prepared.tree)
            done = tree_copy(&self.prepared.tree, &self.live.tree)
        if not done:
            raise MemoryError
        self.begin_pass()

    def check(self) -> None:
        """Check every invariant; CheckFailed names the first that does not hold. O(cells).

        `live` has the totals of the tallies, for every member, and `prepared` the totals after the
        oldest tally has left, for every member except those that the pass still has to visit. In a
        deferred set, which changes its ranking only by a refresh, `live` is not compared with the
        tallies: only `prepared` has their totals, for the members that the build has visited.
        """
        cdef const char *fault
        cdef int64_t number
        cdef Tally tally
        self.live.check()
        self.prepared.check()
        for number in range(leaving_of(&self.rolling) - 1, self.rolling.running + 1):
            tally = self.at(number)
            if tally is not None:
                tally.check()
                if tally.cells.number != number:
                    raise CheckFailed("rolling set: a tally is in the slot of another step")
        with nogil:
            fault = check_build(&self.rolling) if self.rolling.deferred else recount(&self.rolling)
        if fault != NULL:
            raise CheckFailed(f"rolling set: {fault.decode()}")
