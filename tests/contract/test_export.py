"""An export returns the whole ranking, in order."""

from __future__ import annotations

import laurels
from tests.contract.reading import members


def test_an_export_is_the_whole_ranking(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", rank="dense"))
    lb.submit_many("b", [(f"m{i}", i % 700) for i in range(25_000)])
    exported = list(lb.export("b"))
    pages: list[laurels.Entry] = []
    for offset in range(0, 30_000, 10_000):
        pages += lb.top("b", limit=10_000, offset=offset).entries
    assert exported == pages
    assert len(exported) == 25_000
    assert exported[-1].rank == 700


def test_a_period_can_be_exported(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["day", "all"]))
    lb.submit_many("b", [("ann", 1), ("bob", 2)])
    clock.advance(86_400_000)
    assert list(lb.export("b")) == []
    past = lb.export("b", window="day", period="2026-11-20")
    assert [entry.member for entry in past] == members(lb.top("b", window="all"))


def test_an_export_allows_concurrent_writes(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [(f"m{i:05}", 1) for i in range(5_000)])
    seen = []
    for i, entry in enumerate(lb.export("b")):
        seen.append(entry.member)
        if i % 500 == 0:
            lb.submit("b", f"new{i}", 2)
    assert [member for member in seen if member.startswith("m")] == [
        f"m{i:05}" for i in range(5_000)
    ]
