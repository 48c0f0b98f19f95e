# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False
"""The rolling set: one rolling window of one board, its tallies and its two rankings.

The method is in `ring.pxd`. This is the Python face, and it owns the ring: a slot holds one
reference to its tally. Not thread safe by itself: whoever shares it holds a lock around each call.
"""
cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from laurels.engine.buffers cimport Borrowed, borrow, give_back, items, uints
from laurels.engine.tally.cells cimport PLACES, Cells
from .deferred cimport build_on, check_build, count_cells
from laurels.engine.tree.growth cimport tree_close
from laurels.engine.tree.leaf cimport WORDS_MOST
from .prepare cimport pass_on
from laurels.engine.tree.ranked_set cimport RankedSet
from .recount cimport recount
from laurels.engine.tree.restoring cimport tree_copy
from .ring cimport Rolling, cells_for, is_complete, leaving_of, slot_for
from laurels.engine.roster.roster cimport Roster
from laurels.engine.tree.rows cimport Rows, borrow_rows, check_ids
from laurels.engine.writing.rule cimport OP_SUM, SANE, Rule
from laurels.engine.writing.shape cimport Shape
from laurels.engine.tally.tally cimport Tally, new_tally, put_cells

from laurels.errors import CheckFailed

cdef enum:
    STEPS_MOST = 10000
    MANY = 1000                 # members for which the GIL is released
    SWEEP = 256                 # slots of the ring looked through for empty tallies at a turn


cdef inline bint are_rules_equal(const Rule *left, const Rule *right) noexcept:
    """Return whether entries of two rules have the same words with the same meaning."""
    cdef int column
    for column in range(left.columns):
        if left.ops[column] != right.ops[column]:
            return False
    return (left.columns == right.columns and left.words == right.words
            and left.tie == right.tie and left.stamped == right.stamped)


cdef inline uint64_t cells_after(const Cells *cells, uint64_t place) noexcept:
    """Return about how many cells stand from a place on."""
    if cells == NULL or place >= PLACES:
        return 0
    return <uint64_t>cells.size if cells.draining else (cells.size * (PLACES - place)) >> 32


@cython.final
@cython.no_gc
cdef class RollingSet:
    """The state of a rolling window of `steps` steps (2 to 10,000), with nothing counted.

    `lows` and `highs` bound a step's total, in signed words, of the sum columns; `dense` is as in
    a ranked set; `running` numbers the step that runs; a `deferred` set ranks only what `build` and
    `refresh` had it rank. An empty one takes 8 bytes a step. Not
    collected by the garbage collector: it refers to nothing that refers to it.
    """

    def __cinit__(self, Roster roster not None, Shape shape not None, *, int steps, object lows,
                  object highs, bint dense, int64_t running, bint deferred = False) -> None:
        cdef Rule *rule = &self.rolling.step_rule
        cdef int column
        if not 2 <= steps <= STEPS_MOST:
            raise ValueError(f"a rolling window has 2 to {STEPS_MOST} steps")
        if not len(lows) == len(highs) == shape.rule.columns:
            raise ValueError("a step has one low and one high for each column")
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
        self.live = self.empty()
        self.prepared = self.empty()
        self.rolling.live = &self.live.tree
        self.rolling.prepared = &self.prepared.tree
        self.rolling.steps = steps
        self.rolling.running = running
        self.rolling.left_place = PLACES
        self.rolling.leaving_place = PLACES
        self.rolling.ring = <Cells **>calloc(steps + 1, sizeof(Cells *))
        if self.rolling.ring == NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        if self.rolling.ring != NULL:
            self.release_all()
            free(self.rolling.ring)

    cdef bint serves(self, Rule rule):
        """Return whether the set was made for that write rule."""
        return are_rules_equal(&self.rolling.rule, &rule)

    cdef RankedSet empty(self):
        """Return a ranking of this set that holds nobody."""
        cdef const Rule *rule = &self.rolling.rule
        return RankedSet(self.roster, columns=rule.columns, tie=rule.tie != 0,
                         stamped=rule.stamped, dense=self.dense,
                         stepped=not self.rolling.deferred)

    cdef Tally at(self, int64_t number):
        """Return the tally of a step, None without one."""
        cdef Cells *cells
        if not leaving_of(&self.rolling) - 1 <= number <= self.rolling.running:
            return None
        cells = cells_for(&self.rolling, number)
        return None if cells == NULL else <Tally>cells.owner

    cdef int release(self, Cells **slot) except -1:
        """Take a tally, if there is one, out of the ring."""
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
        """Give up empty tallies, of a bounded number of slots at a time."""
        cdef int slots = self.rolling.steps + 1
        cdef Cells **slot
        for _ in range(min(slots, <int>SWEEP)):
            self.swept = (self.swept + 1) % slots
            slot = &self.rolling.ring[self.swept]
            if slot[0] != NULL and slot[0].size == 0:
                self.release(slot)
        return 0

    cdef int begin_pass(self) except -1:
        """Have the pass visit both tallies from their beginning; nobody, where they are empty."""
        cdef Cells *left = cells_for(&self.rolling, leaving_of(&self.rolling) - 1)
        cdef Cells *leaving = cells_for(&self.rolling, leaving_of(&self.rolling))
        if self.rolling.deferred:
            return 0
        self.rolling.left_place = PLACES if left == NULL or left.size == 0 else 0
        self.rolling.leaving_place = PLACES if leaving == NULL or leaving.size == 0 else 0
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
        """How many steps the window counts, the running one included."""
        return self.rolling.steps

    @property
    def leaving(self) -> int:
        """The number of the oldest step counted, whose tally leaves next."""
        return leaving_of(&self.rolling)

    @property
    def complete(self) -> bool:
        """Whether all is prepared for the next step."""
        return is_complete(&self.rolling)

    @property
    def todo(self) -> int:
        """About how many members the pass has still to visit."""
        return cells_after(
            cells_for(&self.rolling, leaving_of(&self.rolling) - 1), self.rolling.left_place
        ) + cells_after(
            cells_for(&self.rolling, leaving_of(&self.rolling)), self.rolling.leaving_place)

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
        """Bytes allocated, this object, tallies and rankings included. O(steps)."""
        return (<uint64_t>RollingSet.__basicsize__ + self.tally_nbytes + self.live.nbytes
                + self.prepared.nbytes)

    def tally(self, number: int) -> Tally | None:
        """Return the tally of a step, None without one."""
        return self.at(number)

    def numbers(self) -> list[int]:
        """Return the numbers, ascending, of the steps whose tallies have cells. O(steps).

        The step that left last is among them until the pass has been through its tally.
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
        """Return the tally of a step that the window counts, made where there is none.

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
        """Prepare about `limit` more members (whole buckets); return whether all is prepared now.

        O(limit * log n). Long stretches release the GIL.
        """
        cdef int64_t most = min(limit, <int64_t>1 << 62)
        cdef bint done
        if most < MANY:
            done = pass_on(&self.rolling, most)
        else:
            with nogil:
                done = pass_on(&self.rolling, most)
        if not done:
            raise MemoryError
        if self.rolling.left_place >= PLACES:
            self.release(slot_for(&self.rolling, leaving_of(&self.rolling) - 1))
        return is_complete(&self.rolling)

    def turn(self) -> None:
        """Go to the next step: the rankings change places, and a new pass begins. O(1).

        Tallies that were left without cells may be given up. Raises RuntimeError unless all is
        prepared, and of a deferred set.
        """
        if self.rolling.deferred:
            raise RuntimeError("a deferred set goes on by `pass_to`")
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

    # A deferred set

    @property
    def deferred(self) -> bool:
        """Whether `live` is only refreshed."""
        return self.rolling.deferred

    @property
    def cells(self) -> int:
        """How many cells the window counts. O(steps)."""
        return count_cells(&self.rolling)

    @property
    def building(self) -> bool:
        """Whether a build of a deferred set has begun: events are counted in it."""
        return self.rolling.built > 0

    @property
    def built(self) -> bool:
        """Whether a build of a deferred set is complete: `prepared` is what the tallies add up
        to."""
        return self.rolling.built >= PLACES

    @property
    def to_build(self) -> int:
        """About how many cells a build has still to visit. O(steps)."""
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
            done = build_on(&self.rolling, most)
        else:
            with nogil:
                done = build_on(&self.rolling, most)
        if not done:
            raise MemoryError
        return self.rolling.built >= PLACES

    def refresh(self) -> RankedSet:
        """Put what was built in the place of `live`; the ranking that was there. O(1).

        Raises RuntimeError before the build is complete.
        """
        cdef RankedSet before = self.live
        if self.rolling.built < PLACES:
            raise RuntimeError("what the tallies add up to is not built yet")
        self.live = self.prepared
        self.rolling.live = &self.live.tree
        self.give_up()
        return before

    def give_up(self) -> RankedSet:
        """Begin the build of a deferred set anew; what there was of it."""
        cdef RankedSet before = self.prepared
        self.prepared = self.empty()
        self.rolling.prepared = &self.prepared.tree
        self.rolling.built = 0
        return before

    def pass_to(self, running: int) -> list[RankedSet | Tally]:
        """Bring a deferred set to a later step; what it let go: tallies that left, and what was
        built. O(steps that left)."""
        cdef list left = [self.give_up()]
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
        """Begin anew at a step, with nothing counted. O(steps + cells / 100)."""
        self.release_all()
        self.live.clear()
        self.prepared.clear()
        self.rolling.built = 0
        self.rolling.running = running
        self.begin_pass()

    def discard(self, ids: object) -> int:
        """Remove members everywhere; return how many were in the live ranking. O(steps) each."""
        cdef int64_t number
        cdef Tally tally
        for number in range(leaving_of(&self.rolling) - 1, self.rolling.running + 1):
            tally = self.at(number)
            if tally is not None:
                tally.discard(ids)
        self.prepared.discard(ids)
        return self.live.discard(ids)

    def load(self, number: int, ids: object, words: object) -> None:
        """Restore cells of a step's tally, as `Tally.scan` gave them; the pass begins anew.

        Raises ValueError for a step that the window does not count, IndexError for an id the roster
        never gave.
        """
        cdef Borrowed held
        cdef Rows rows
        cdef Tally tally = self.open_tally(number)
        cdef Py_ssize_t count
        cdef bint done
        held.count = 0
        try:
            borrow_rows(&held, ids, words, tally.cells.words, &rows)
            count = items(&held, 0)
            check_ids(self.rolling.live.names.count, uints(&held, 0), count)
            with nogil:
                done = put_cells(&tally.cells, uints(&held, 0), &rows, 0, count)
            if not done:
                raise MemoryError
        finally:
            give_back(&held)
        self.begin_pass()

    def prepare(self) -> None:
        """Make `prepared` anew, after the tallies were restored by `load` and `live` by its own
        `put`: neither it nor how far the pass was need be kept. O(n / 100)."""
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

        Live is what the tallies add up to, for every member, and prepared what is to be left of
        it when the oldest tally leaves, for every member but those whom the pass has to visit. In a
        deferred set what is built is what the tallies add up to.
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
