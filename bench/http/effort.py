"""How much is measured over HTTP."""

import msgspec


class HttpEffort(msgspec.Struct, frozen=True):
    """Rounds, their length, and who takes part in them."""

    members: int
    rounds: int
    seconds: float
    """Of a round."""
    warm_seconds: float
    """Of the round before them, which is not recorded."""
    lines: int = 20_000
    """Requests made ready for the load generator, which begins again at their end."""
    batch_lines: int = 64
    connections: int = 64
    batch_connections: int = 8
    streams: int = 100
    many_streams: int = 1_000
    feed_seconds: float = 5.0


FULL = HttpEffort(members=1_000_000, rounds=3, seconds=3, warm_seconds=1)
QUICK = HttpEffort(members=100_000, rounds=1, seconds=2, warm_seconds=0.5, feed_seconds=3.0)
SHORT = HttpEffort(members=100_000, rounds=2, seconds=1.5, warm_seconds=0.5)
"""Events and standings alone, beside everything else."""
