"""How much work a run on an index server does."""

from typing import Literal, TypeAlias, get_args

import msgspec

from bench.redis.boards import LAYOUTS, LayoutName
from bench.workload import Steep, Traffic

Scores: TypeAlias = Literal["lognormal", "uniform", "zipf"]
"""The distribution of the first scores on a board with a head."""
HUGE_HEAD = 10_000_000
"""The number of members on the largest board with a head. Only its memory is measured, and only on
request."""


class RedisEffort(msgspec.Struct, frozen=True):
    """The sizes of boards, the number of rounds, and the work of one run of each kind."""

    members: int
    """The number of members on the boards for writes and reads."""
    rounds: int
    events: int
    """The least number of events in a run of each writer. If more events are needed to fill all
    batches in flight, the run has that many."""
    read_rounds: int
    read_seconds: float
    small_members: int
    """The number of members on each board of `small_boards` and `steps`."""
    step_rounds: int
    step_events: int
    pass_members: int
    best_members: tuple[int, ...]
    """The numbers of members on boards with best columns: a large one, and one so small that HSCAN
    returns a whole hash, whatever its COUNT."""
    head_members: int
    """The number of members on the boards with a head."""
    head_rounds: int
    head_events: int
    """The number of events in a run of batches. A run of single events has a fortieth of this
    number."""
    head_reads: int
    head_scores: tuple[Scores, ...] = get_args(Scores)
    """The scores for which the widths of estimates are measured."""
    head_memory: tuple[int, ...] = ()
    """The numbers of members on further boards with a head. Only the memory of these boards is
    measured."""
    hidden: tuple[int, ...] = (0, 100, 1_000, 10_000)
    """The numbers of hidden members."""
    hidden_members: int = 50_000
    """The number of members on the boards with hidden members."""
    hidden_rounds: int = 3
    hidden_calls: int = 40
    hold_batches: int = 16
    in_flight: tuple[int, ...] = (1, 4, 16, 64)
    kinds: tuple[Traffic | Steep, ...] = (*get_args(Traffic), *get_args(Steep))
    layouts: tuple[LayoutName, ...] = LAYOUTS
    """The layouts of the boards for writes."""
    readers: int = 64


FULL = RedisEffort(
    members=1_000_000,
    rounds=4,
    events=24_000,
    read_rounds=3,
    read_seconds=1.5,
    small_members=200_000,
    step_rounds=8,
    step_events=10_000,
    pass_members=1_000_000,
    best_members=(5_000, 500),
    head_members=1_000_000,
    head_rounds=5,
    head_events=20_000,
    head_reads=1_000,
)
QUICK = RedisEffort(
    members=30_000,
    rounds=1,
    events=6_000,
    read_rounds=1,
    read_seconds=0.4,
    small_members=20_000,
    step_rounds=6,
    step_events=3_000,
    pass_members=20_000,
    best_members=(2_000, 500),
    head_members=30_000,
    head_rounds=1,
    head_events=4_000,
    head_reads=200,
)
SHORT = msgspec.structs.replace(
    QUICK,
    members=100_000,
    rounds=2,
    hold_batches=0,
    in_flight=(1, 64),
    kinds=get_args(Traffic),
    layouts=("packed",),
)
"""The work if only the measurements with a target are made."""
