"""The archive of boards with a head on an index server. It has the positions of the head, and is
written when they are certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import BeyondHead
from laurels.errors.index_server import NotOnIndexServer
from tests.contract.deployments import IMPLEMENTATIONS, Deployment

HEAD, MEMBERS = 100, 400
START_MS = 1_795_000_000_000
DAY_MS = 86_400_000
STORES = [each for each in IMPLEMENTATIONS if each.name in ("redis", "cluster-shards")]


@pytest.fixture(params=STORES, ids=lambda implementation: implementation.name)
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(request.param, tmp_path, laurels.ManualClock(START_MS)) as deployment:
        yield deployment


def board(**fields: Any) -> laurels.Board:
    fields = {"windows": ["all", "day:archive=forever,keep=1"], "tie": "member", **fields}
    return laurels.Board("b", head=HEAD, ledger="main", rank="competition", **fields)


def fill(lb: laurels.Leaderboards, **fields: Any) -> None:
    """Create the board, and count events of many members, some of which are then hidden, removed or
    lowered, so that others enter the head."""
    random = Random("heads in the archive")
    lb.create(board(**fields))
    lb.submit_many("b", [(f"m{i:03}", random.randint(1, 90)) for i in range(MEMBERS)])
    best = [entry.member for entry in lb.top("b", limit=90).entries]
    for member in best[:20]:
        lb.hide("b", member, "a bot")
    for member in best[20:40]:
        lb.remove("b", member)
    lb.submit_many("b", [(member, -80) for member in best[40:80]])


def test_the_head_of_a_sealed_period_is_archived(deployment: Deployment) -> None:
    clock = laurels.ManualClock(START_MS)
    with laurels.open("memory:", clock=clock) as model:
        for lb in (model, deployment.lb):
            fill(lb)
        period = model.periods("b", "day")[0].label
        of_period: dict[str, Any] = {"window": "day", "period": period}
        for time, lb in ((clock, model), (deployment.clock, deployment.lb)):
            assert isinstance(time, laurels.ManualClock)
            time.advance(5 * DAY_MS)
            lb.submit("b", "later", 1)
            lb.seal()
        lb = deployment.lb
        expected, found = (each.top("b", limit=HEAD, **of_period) for each in (model, lb))
        assert found.entries == expected.entries
        assert (found.total, found.certain) == (expected.total, expected.certain) == (360, HEAD)
        listed = [entry.member for entry in found.entries]
        assert len(listed) == HEAD
        for member in listed[:: HEAD // 7]:
            assert lb.rank("b", member, **of_period) == model.rank("b", member, **of_period)
            standing = lb.standing("b", member, **of_period)
            assert standing is not None
            assert standing.total == 360
        last = lb.at_rank("b", expected.entries[-1].rank, **of_period)
        assert last is not None
        below = f"m{next(i for i in range(MEMBERS) if f'm{i:03}' not in listed):03}"
        for question in (
            lambda: lb.rank("b", below, **of_period),
            lambda: lb.at_rank("b", 300, **of_period),
            lambda: lb.top("b", offset=HEAD, **of_period),
        ):
            with pytest.raises(BeyondHead):
                question()
        [archived] = lb.archived("b")[-1:]
        assert archived.entries == HEAD
        assert lb.verify("b", **of_period).verified
        lb.disqualify("b", listed[0], "a bot", **of_period)
        page = lb.top("b", limit=HEAD, **of_period)
        assert [entry.member for entry in page.entries] == listed[1:]
        assert (page.total, page.certain) == (359, HEAD - 1)
        lb.check()


def test_a_small_ranking_is_archived_whole(deployment: Deployment) -> None:
    lb, clock = deployment.lb, deployment.clock
    lb.create(board(hide_zero=True))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 0)])
    period = lb.periods("b", "day")[0].label
    assert isinstance(clock, laurels.ManualClock)
    clock.advance(5 * DAY_MS)
    lb.submit("b", "ann", 1)
    lb.seal()
    page = lb.top("b", window="day", period=period)
    assert [entry.member for entry in page.entries] == ["ann", "bob"]
    assert (page.total, page.certain) == (2, None)
    assert lb.rank("b", "cid", window="day", period=period) is None


def test_prizes_on_a_board_with_a_head_are_refused(deployment: Deployment) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1]}]}
    with pytest.raises(NotOnIndexServer, match="head"):
        deployment.lb.create(board(windows=[{"type": "day", "prizes": prizes}]))
