"""How much work a run does: enough for stable figures, or less for a quick look."""

import msgspec

SUBMITTERS = 4
GROUP = 100


class Effort(msgspec.Struct, frozen=True):
    """The number of rounds, and how much work a run of each kind does. The amount of work is fixed,
    not the time, so that every peer does the same work."""

    runs: int
    events: dict[int, int]
    """The number of events in a run, by the size of the batch."""
    calls: int
    """The number of single reads in a run. A run has a tenth as many reads of 100 members or
    entries."""
    small_rankings: int
    watched_seconds: float
    """How many seconds the longest waits are measured without other work, to compare them with the
    waits during other work."""


FULL = Effort(
    runs=4,
    events={1: 500, 100: 10_000, 1_000: 50_000},
    calls=1_000,
    small_rankings=100_000,
    watched_seconds=2.0,
)
QUICK = Effort(
    runs=2,
    events={1: 200, 100: 4_000, 1_000: 20_000},
    calls=300,
    small_rankings=10_000,
    watched_seconds=1.0,
)
