# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A rolling window's state: the tallies of its steps in a ring, and two rankings over them.

**The method.** While step i runs, a window of n steps counts the steps i-n+1 to i. The ranking
`live` has their totals; the ranking `prepared` is being made ready for step i+1, when the oldest
tally, of step i-n+1, *leaves*. Entries of `prepared` are assigned, never decremented:

    prepared[m] := live[m] minus m's cell in the leaving tally,
                   or absent if m has no event newer than that tally

Every event of m makes this assignment, and so does the *pass* over the members of two tallies: the
one that *left* when step i began (`prepared` was `live` until then, so it still counts this tally)
and the one about to leave. All other entries are right already: prepared was live in step i-1. When
the pass is complete, the rankings can swap roles (`rotate_step`). The cost of an event does not
depend on n.

**Cells.** A member's cell in a tally is the entry that the step's events alone would make in an
empty ranking, by the same rule (`rule.pyx`). An entry of a ranking has one word more than in other
windows, the *newest* step in which the member has an event: it decides whether anything is left
when a tally leaves. For sums the cell is subtracted; the value of `last` columns and the stamps are
those of the newest step, which stays. Best values cannot be subtracted: see `candidates.pyx`.

**Deferred.** A *deferred* set changes its ranking only by a refresh. An event writes the cell of
its step and nothing else, so with best columns a cell is the best of its step and not a candidate.
`live` stays as of the last refresh; `prepared` has the totals of the tallies for the members whose
places in hash order are below `built`. A *build* continues there in shares (`deferred.pyx`), and an
event of a member that it has visited is counted in `prepared` by the same rule. When the build is
complete, `prepared` can take the place of `live`, and the next build begins with an empty ranking.
When a step ends, the build begins again.

**Modules.** `prepare.pyx` computes the prepared entries and runs the pass, `candidates.pyx`
maintains the candidates of best columns, `recount.pyx` checks, `rolling.pyx` is the Python
interface and owns the ring.

**Invariants** of a set that is not deferred (`recount.pyx`): live has the totals of the window's
tallies, for every member; prepared has the entries defined above, for every member except those
that the pass still has to visit.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from laurels.engine.tally.cells cimport PLACES, Cells, place_of
from laurels.engine.writing.rule cimport Rule
from laurels.engine.tree.tree cimport Tree

cdef struct Rolling:
    Rule rule                   # for the rankings
    Rule step_rule              # for cells: a step's total has narrower bounds
    Tree *live
    Tree *prepared
    Cells **ring                # steps + 1: the tallies of the window's steps, and the tally that left
    int64_t running             # the number of the running step
    int running_slot            # the slot of the running step in the ring
    int steps                   # the number of steps of the window
    uint64_t left_position      # the place up to which the pass has visited the tally that left
    uint64_t leaving_position   # the place up to which it has visited the tally about to leave
    bint deferred               # whether live changes only by refreshes
    uint64_t built              # in a deferred set: the place up to which members are in prepared

cdef inline int newest_of(const Rolling *rolling) noexcept nogil:
    """Return the index of the word with the member's newest step."""
    return rolling.rule.words

cdef inline int64_t leaving_of(const Rolling *rolling) noexcept nogil:
    """Return the number of the step whose tally is about to leave."""
    return rolling.running - rolling.steps + 1

cdef inline Cells **slot_for(const Rolling *rolling, int64_t number) noexcept nogil:
    """Return the slot in the ring for a step; `number` is from `running - steps` to `running`."""
    cdef int64_t slot = rolling.running_slot - (rolling.running - number)
    return rolling.ring + (slot + rolling.steps + 1 if slot < 0 else slot)

cdef inline Cells *cells_for(const Rolling *rolling, int64_t number) noexcept nogil:
    """Return the tally of a step, or NULL; `number` is from `running - steps` to `running`."""
    return slot_for(rolling, number)[0]

cdef inline Tree *ranking_of(const Rolling *rolling, uint32_t member) noexcept nogil:
    """Return the ranking in which an event of a member is counted, or NULL if the build of a
    deferred set has not visited the member yet."""
    if not rolling.deferred:
        return rolling.live
    return rolling.prepared if place_of(member) < rolling.built else NULL

cdef inline bint is_complete(const Rolling *rolling) noexcept nogil:
    return rolling.left_position >= PLACES and rolling.leaving_position >= PLACES
