"""Boards with a head that do not rank members whose score is 0, on every store: these members take
no place in the head, and the bounds of the other members' ranks do not count them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import laurels
from tests.conftest import Scaled
from tests.contract.deployments import Deployment, Implementation
from tests.contract.heads import HEAD, Pair
from tests.contract.test_head import COLUMNS, REFILLING, SHAPES, STORES, events
from tests.definitions import ColumnDef, Definition


@pytest.fixture(autouse=True)
def _few_members(monkeypatch: pytest.MonkeyPatch, scaled: Scaled) -> None:
    monkeypatch.setattr(Pair, "sampled", scaled(3, 8))


@pytest.fixture(params=[*STORES, REFILLING], ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    chosen: Implementation = request.param
    with Deployment(chosen, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def lb(deployment: Deployment) -> laurels.Leaderboards:
    return deployment.lb


@pytest.mark.parametrize(("columns", "tie", "rank"), SHAPES)
def test_every_rank_is_within_its_bounds_with_and_without_zeros(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, columns: str, tie: str, rank: str
) -> None:
    rng = Random(columns + tie + rank)
    shape = COLUMNS[columns]
    pair = Pair(lb, clock, Definition("b", shape, tie, rank=rank, head=HEAD, hide_zero=True))
    pair.submit(events(rng, shape, 300, 260, 3))
    pair.check(rng)
    for hidden in (False, True):
        pair.hide_zero(hidden=hidden)
        pair.check(rng)
        clock.advance(60)
        later = events(rng, shape, 60, 300, 3)
        pair.submit([(member, value, clock.now_ms()) for member, value, _ in later])
        pair.check(rng)
    for place in pair.places()[:8]:
        pair.remove(place.member)
    pair.check(rng)


def test_zeros_that_would_be_first_take_no_place_in_the_head(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(9)
    shape = (ColumnDef(order="asc"),)
    pair = Pair(lb, clock, Definition("b", shape, "member", head=HEAD, hide_zero=True))
    now_ms = clock.now_ms()
    pair.submit([(f"zero{i:03}", 0, now_ms) for i in range(190)])
    assert lb.top("b").total == 0
    pair.submit([(f"m{i:03}", 1 + i, now_ms) for i in range(250)])
    pair.check(rng)
    pair.submit([("zero000", 1, now_ms)])
    assert lb.rank("b", "zero000") == 2
    pair.hide_zero(hidden=False)
    pair.check(rng)
    pair.submit([(f"m{i:03}", -i, now_ms) for i in range(60)])
    pair.check(rng)
    pair.hide_zero(hidden=True)
    pair.check(rng)


def test_a_head_can_be_added_and_removed_on_a_board_that_hides_zeros(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(10)
    pair = Pair(lb, clock, Definition("b", hide_zero=True))
    pair.submit(events(rng, pair.definition.columns, 400, 330, 4))
    for head in (150, 0, HEAD):
        pair.change(head)
        for hidden in (False, True):
            pair.hide_zero(hidden=hidden)
            pair.submit(events(rng, pair.definition.columns, 20, 330, 4))
            if head:
                pair.check(rng)
            else:
                assert len(lb.top("b", limit=500)) == len(pair.places())
