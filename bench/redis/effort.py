"""How much is measured on an index server."""

from typing import get_args

import msgspec

from bench.redis.boards import LAYOUTS, LayoutName
from bench.workload import Steep, Traffic


class RedisEffort(msgspec.Struct, frozen=True):
    """Sizes of boards, rounds, and the work of one run of each kind."""

    members: int
    """Of the boards that are written to and read."""
    rounds: int
    events: int
    """Of a run, by each of those who write; at least a batch of each that is in flight."""
    read_rounds: int
    read_seconds: float
    small_members: int
    """Of the boards of one window, of shards, and of few and many steps."""
    step_rounds: int
    step_events: int
    pass_members: int
    best_members: tuple[int, ...]
    """Of boards of best columns: many, and as few as a hash holds that is given whole."""
    hold_batches: int = 16
    in_flight: tuple[int, ...] = (1, 4, 16, 64)
    kinds: tuple[Traffic | Steep, ...] = (*get_args(Traffic), *get_args(Steep))
    layouts: tuple[LayoutName, ...] = LAYOUTS
    """Of the boards that are written to."""
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
"""Events of what has a target, beside everything else."""
