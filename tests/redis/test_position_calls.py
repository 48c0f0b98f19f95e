"""To read the position of a source on an index server, a process need not read all definitions."""

from __future__ import annotations

import laurels

from .servers import Server
from .test_hot_member import calls_of

READS = 20


def test_reading_a_position_costs_the_same_with_any_number_of_boards() -> None:
    with Server() as server, laurels.open(server.url) as lb:
        lb.create(laurels.Board("b"))
        for i in range(30):
            lb.create(laurels.Board(f"other-{i}"))
        lb.submit_many("b", [("ann", 1)], position=("feed", "1"))
        server.call("CONFIG", "RESETSTAT")
        for _ in range(READS):
            assert lb.position("b", "feed") == "1"
        calls = calls_of(server)
        assert calls["hget"] == 2 * READS
        assert "hgetall" not in calls
        server.call("CONFIG", "RESETSTAT")
        for _ in range(READS):
            assert lb.positions("b") == {"feed": "1"}
        calls = calls_of(server)
        assert (calls["hgetall"], calls["hget"]) == (READS, READS)


def test_a_position_is_that_of_the_recreated_board() -> None:
    """Another process deletes the board and creates a new one with the same name. The answer is the
    position of the new board."""
    for shards in (1, 3):
        with Server() as server, laurels.open(server.url) as lb, laurels.open(server.url) as other:
            lb.create(laurels.Board("b", shards=shards))
            lb.submit_many("b", [("ann", 1)], position=("feed", "1"))
            assert lb.position("b", "feed") == "1"
            other.delete("b")
            other.create(laurels.Board("b", shards=shards))
            assert lb.position("b", "feed") is None
            assert lb.positions("b") == {}
            other.submit_many("b", [("ann", 1)], position=("feed", "2"))
            assert lb.position("b", "feed") == "2"
