"""How much work a run over HTTP does."""

import msgspec


class HttpEffort(msgspec.Struct, frozen=True):
    """The number and the length of rounds, the number of requests, and the peers."""

    members: int
    rounds: int
    seconds: float
    """The number of seconds of a round."""
    warm_seconds: float
    """The number of seconds of the first round, which is not recorded."""
    lines: int = 20_000
    """The number of prepared requests; after the last one, the load generator starts again with the
    first."""
    batch_lines: int = 64
    connections: int = 64
    batch_connections: int = 8
    streams: int = 100
    many_streams: int = 1_000
    feed_seconds: float = 5.0


FULL = HttpEffort(members=1_000_000, rounds=3, seconds=3, warm_seconds=1)
QUICK = HttpEffort(members=100_000, rounds=1, seconds=2, warm_seconds=0.5, feed_seconds=3.0)
SHORT = HttpEffort(members=100_000, rounds=2, seconds=1.5, warm_seconds=0.5)
"""The work if only single events and standings are measured."""
