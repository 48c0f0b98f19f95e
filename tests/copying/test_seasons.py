"""A copy of a board has its sealed periods with their digests, and its payouts with their ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

import laurels
from laurels import ManualClock
from laurels.errors import LaurelsError
from laurels.errors.copies import CopyLost
from tests.contract.deployments import Deployment
from tests.counts import some
from tests.internals import copies_of

from .pairs import opened_pair
from .seasons import DAY, SEASONS, START_MS, copied, payouts, play_seasons, seasons

KINDS = ("memory", "folder", "http", "redis", "redis-postgres", "redis-mariadb")
FIRST = [
    ("folder", "redis-mariadb"),
    ("redis-mariadb", "redis-postgres"),
    ("redis-postgres", "http"),
    ("http", "memory"),
    ("memory", "folder"),
    ("redis", "redis"),
    ("folder", "cluster-shards"),
]
"""Pairs with each kind of source and target, which `make test` copies."""
PAIRS = [*FIRST, *[pair for pair in product(KINDS, KINDS) if pair not in FIRST]]


def cases(short: list[tuple[str, str]]) -> list[object]:
    """Return all pairs, of which `make test` runs those of a list."""
    pairs = [*short, *[pair for pair in PAIRS if pair not in short]]
    return some(len(short), [pytest.param(pair, id=f"{pair[0]}-to-{pair[1]}") for pair in pairs])


few = pytest.mark.parametrize("pair", cases([FIRST[0], FIRST[2]]), indirect=True)
"""In `make test`, copy from a store in a folder to an index server, and from there to a service."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=cases(FIRST))
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[tuple[Deployment, Deployment]]:
    with opened_pair(request.param, tmp_path, clock) as sides:
        yield sides


def test_a_copy_has_the_archive_and_the_payouts(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_seasons(source, clock)
    done = copied(source, target)
    assert done.compared.differences == []
    assert done.compared.sealed == len(source.archived("seasons")) + 4
    assert done.compared.payouts == len(payouts(source, "seasons"))
    before = seasons(source, "seasons")
    states = {each.state for each in before["payouts"]}
    assert states == {"pending", "due", "confirmed", "superseded"}
    assert seasons(target, "seasons") == before
    target.check()


@pytest.mark.parametrize(
    "pair",
    [("memory", "folder"), ("folder", "http"), ("folder", "redis"), ("redis", "redis-mariadb")],
    indirect=True,
)
def test_a_copy_survives_a_restart(pair: tuple[Deployment, Deployment], clock: ManualClock) -> None:
    source = pair[0].lb
    play_seasons(source, clock)
    copied(source, pair[1].lb)
    lb = pair[1].reopen()
    assert seasons(lb, "seasons") == seasons(source, "seasons")
    assert not copied(source, lb).compared.differences
    lb.check()


@few
def test_the_copy_goes_on_and_nothing_is_closed_or_owed_twice(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_seasons(source, clock)
    copied(source, target)
    ids = {each.id for each in payouts(target, "seasons")}
    clock.advance(DAY)
    for lb in (source, target):
        lb.submit("seasons", "m1", 3, labels={"room": "1"})
        clock.advance(DAY)
        lb.seal()
    owed = payouts(target, "seasons")
    assert len({each.id for each in owed}) == len(owed)
    assert {each.id for each in owed} == ids | {
        each.id for each in owed if each.period not in {one.period for one in owed if one.id in ids}
    }
    days = target.archived("seasons", window="day")
    assert len({each.period for each in days}) == len(days)
    again = target.disqualify("seasons", "m1", "late", window="day", period=days[-1].period)
    assert again.revision == 3
    for payout in payouts(target, "seasons"):
        if payout.state == "due":
            target.confirm("seasons", payout.id, "bank")
    target.check()


@few
def test_what_is_due_is_listed_again_and_what_was_confirmed_is_not(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_seasons(source, clock)
    play_seasons(target, clock, _renamed("others"))
    cursor = None
    while page := target.due_payouts(after=cursor):
        cursor = page.cursor
    copied(source, target)
    due = {each.id for each in payouts(source, "seasons") if each.state == "due"}
    listed: list[str] = []
    while page := target.due_payouts(after=cursor):
        listed += [each.id for each in page]
        cursor = page.cursor
    assert {*listed} == due
    assert len(listed) == len(due)


def _renamed(name: str) -> laurels.Board:
    return replace(SEASONS, name=name)


@few
def test_a_copy_without_all_periods_is_not_finished(
    pair: tuple[Deployment, Deployment], clock: ManualClock
) -> None:
    source, target = (each.lb for each in pair)
    play_seasons(source, clock)
    own, other = copies_of(source), copies_of(target)
    other.begin(own.origin("seasons"))
    shares = list(own.pieces("seasons"))
    for piece in shares[: -len(shares) // 2]:
        other.put("seasons", [piece])
        other.put("seasons", [piece])  # a repeated piece has no effect
    with pytest.raises(CopyLost):
        other.finish("seasons")
    with pytest.raises(LaurelsError, match="board"):
        target.archived("seasons")
    done = copied(source, target)
    assert done.compared.differences == []
    assert seasons(target, "seasons") == seasons(source, "seasons")
