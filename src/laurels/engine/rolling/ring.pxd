# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A rolling window's state: the tallies of its steps in a ring, and two rankings over them.

**The method.** While step i runs, a window of n steps counts the steps i-n+1 to i. The ranking
`live` holds what they add up to; the ranking `prepared` is being made ready for step i+1, when the
oldest tally, of step i-n+1, *leaves*. Entries of `prepared` are assigned, never decremented:

    prepared[m] := live[m] less m's cell in the leaving tally,
                   or absent when m has no event newer than that tally

Every event of m makes this assignment, and so does the *pass* over the members of two tallies: the
one that *left* when step i began (prepared was live until then and still counts it) and the one
about to leave. Nobody else differs: prepared was live in step i-1. When the pass is complete the
rankings may change places (`turn`). What an event costs does not depend on n.

**Cells.** In a tally a member has what the step's events alone would have made of an empty ranking,
written by the same rule (`rule.pyx`). An entry of a ranking has one word more than in other
windows, the *newest* step in which the member has an event: it tells whether anything is left when
a tally leaves. For sums the cell is taken off; the value of `last` columns and the stamps are those
of the newest step, which stays. Best values are not taken off but followed: see `candidates.pyx`.

**Deferred.** A set that is *deferred* ranks only when it is told to. An event writes the cell of
its step and nothing else, so cells of best columns are no candidates but the best of their step.
`live` stands as it was refreshed last; `prepared` is what the tallies add up to, for the members
whose places in hash order are below `built`: a *build* goes on there in shares (`deferred.pyx`),
and an event of a member it has been to is counted in `prepared` by the same rule. When the build is
complete, `prepared` takes the place of `live` and another begins with nobody, whenever it is
wanted. A step that passes begins it anew.

**Modules.** `prepare.pyx` states what must be prepared and runs the pass, `candidates.pyx` keeps
what best columns need, `recount.pyx` checks, `rolling.pyx` is the Python face and owns the ring.

**Invariants** (`recount.pyx`): live is what the tallies of the window add up to, member by member;
prepared is as above for every member but those the pass has still to visit.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from laurels.engine.tally.cells cimport PLACES, Cells, place_of
from laurels.engine.writing.rule cimport Rule
from laurels.engine.tree.tree cimport Tree

cdef struct Rolling:
    Rule rule                   # of the rankings
    Rule step_rule              # of cells: a step's total is bound more narrowly
    Tree *live
    Tree *prepared
    Cells **ring                # steps + 1 tallies: of the window's steps and the one that left
    int64_t running             # the number of the running step
    int running_slot            # its slot in the ring
    int steps                   # of the window
    uint64_t left_place         # up to which the pass has visited the tally that left,
    uint64_t leaving_place      # and the one about to leave
    bint deferred               # whether live is only refreshed
    uint64_t built              # of a deferred set: up to which place members are in prepared

cdef inline int newest_of(const Rolling *rolling) noexcept nogil:
    """Return the word of an entry that tells the member's newest step."""
    return rolling.rule.words

cdef inline int64_t leaving_of(const Rolling *rolling) noexcept nogil:
    """Return the number of the step whose tally is about to leave."""
    return rolling.running - rolling.steps + 1

cdef inline Cells **slot_for(const Rolling *rolling, int64_t number) noexcept nogil:
    """Return the ring's slot for a step from running - steps to running."""
    cdef int64_t slot = rolling.running_slot - (rolling.running - number)
    return rolling.ring + (slot + rolling.steps + 1 if slot < 0 else slot)

cdef inline Cells *cells_for(const Rolling *rolling, int64_t number) noexcept nogil:
    """Return the tally of a step from running - steps to running, or NULL."""
    return slot_for(rolling, number)[0]

cdef inline Tree *ranking_of(const Rolling *rolling, uint32_t member) noexcept nogil:
    """Return the ranking in which an event of a member is counted; NULL: none."""
    if not rolling.deferred:
        return rolling.live
    return rolling.prepared if place_of(member) < rolling.built else NULL

cdef inline bint is_complete(const Rolling *rolling) noexcept nogil:
    return rolling.left_place >= PLACES and rolling.leaving_place >= PLACES
