"""The archive of boards with a head on an index server. It has the positions of the head and some
more, and is written when they are certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import laurels
from laurels.errors import BeyondHead
from laurels.errors.service import MemberNotRanked
from laurels.stores.redis.index.calls import ShardCalls
from laurels.stores.redis.index.head import HEAD_SIZES
from tests.contract.deployments import IMPLEMENTATIONS, Deployment

HEAD, MEMBERS = 100, 400
ARCHIVED = HEAD + HEAD_SIZES.spare
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
        standings = [model.standing("b", f"m{i:03}", **of_period) for i in range(MEMBERS)]
        below = next(each.member for each in standings if each and each.rank > ARCHIVED)
        for question in (
            lambda: lb.rank("b", below, **of_period),
            lambda: lb.at_rank("b", 300, **of_period),
            lambda: lb.top("b", offset=HEAD, **of_period),
        ):
            with pytest.raises(BeyondHead):
                question()
        [archived] = lb.archived("b")[-1:]
        assert archived.entries == ARCHIVED
        assert lb.verify("b", **of_period).verified
        for each in (model, lb):
            each.disqualify("b", listed[0], "a bot", **of_period)
        expected, found = (each.top("b", limit=HEAD, **of_period) for each in (model, lb))
        assert found.entries == expected.entries
        assert (found.total, found.certain) == (359, HEAD)
        with pytest.raises(MemberNotRanked):
            lb.disqualify("b", below, "a bot", **of_period)
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


def test_corrections_end_with_the_archived_positions(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each disqualification moves up the archived members below. When no more of them are archived,
    the list gets shorter. A correction after which a prize would depend on positions that are not
    archived is refused, and changes nothing."""
    lb, clock = deployment.lb, deployment.clock
    monkeypatch.setattr(
        ShardCalls, "head_sizes", replace(ShardCalls.head_sizes, spare=2, spare_share=0)
    )
    prizes = {"list": [{"name": "ten", "ranks": [1, HEAD - 2], "amount": 5}]}
    paid = {"name": "paid", "type": "day", "prizes": prizes, "archive": "forever"}
    lb.create(board(windows=["day:archive=forever,keep=1", paid], tie="last"))
    lb.submit_many("b", [(f"m{i:03}", MEMBERS - i) for i in range(MEMBERS)])
    period = lb.periods("b", "day")[0].label
    assert isinstance(clock, laurels.ManualClock)
    clock.advance(2 * DAY_MS)
    lb.seal()
    for i in range(5):
        lb.disqualify("b", f"m{i:03}", "a bot", window="day", period=period)
    page = lb.top("b", limit=HEAD, window="day", period=period)
    assert (len(page.entries), page.certain, page.total) == (HEAD - 3, HEAD - 3, MEMBERS - 5)
    for i in range(3):
        lb.disqualify("b", f"m{i:03}", "a bot", window="paid", period=period)
    before = lb.payouts("b", limit=1_000)
    with pytest.raises(BeyondHead, match=r"the first 99 positions of 396, of which only 98 are"):
        lb.disqualify("b", "m003", "a bot", window="paid", period=period)
    assert lb.payouts("b", limit=1_000) == before
    assert lb.rank("b", "m003", window="paid", period=period) == 1
    lb.check()


def test_a_head_that_is_changed_before_the_seal_changes_no_closed_period(
    deployment: Deployment,
) -> None:
    """The definition at closing decides how much is archived, even if the board gets or loses its
    head before the seal."""
    lb, clock = deployment.lb, deployment.clock
    assert isinstance(clock, laurels.ManualClock)
    lb.create(board(windows=["day:archive=forever"]))
    events = [(f"m{i:03}", MEMBERS - i) for i in range(MEMBERS)]
    for head, entries in ((0, ARCHIVED), (HEAD, MEMBERS + 1), (2 * HEAD, ARCHIVED), (HEAD, 300)):
        lb.submit_many("b", events)
        period = lb.periods("b", "day")[0].label
        clock.advance(DAY_MS)
        lb.submit("b", "later", 1)  # closes the period
        lb.change("b", head=head)
        lb.seal()
        newest = lb.archived("b")[0]
        assert (newest.period, newest.entries) == (period, entries)
        assert lb.verify("b", window="day", period=period).verified
