"""While a board of an index server is moved and its writes are blocked, its payouts stay as they
are. After the move the index server has none of them; after a failed move it still has all of them,
and continues to emit them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from laurels import Leaderboards, ManualClock
from laurels.core.commands import DeleteBoard
from laurels.errors import UnknownBoard
from laurels.errors.placement import BoardMoving
from laurels.stores.redis.payout_transfers import PayoutTransfers
from tests.contract.deployments import Deployment
from tests.counts import some
from tests.internals import copies_of, movable_copies_of

from .pairs import STORES, opened_pair
from .seasons import DAY, SEASONS, START_MS, copied, payouts, play_seasons, seasons

KINDS = ["redis", "redis-postgres", "cluster-shards", "redis-mariadb"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture(params=some(2, KINDS))
def shared(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Deployment]:
    with Deployment(STORES[request.param], tmp_path, clock) as deployment:
        yield deployment


def listed(lb: Leaderboards, cursor: str | None = None) -> tuple[list[str], str | None]:
    """Return the ids of the due payouts after a cursor, and the last cursor."""
    ids: list[str] = []
    while page := lb.due_payouts(after=cursor, limit=7):
        ids += [each.id for each in page]
        cursor = page.cursor
    return ids, cursor


def test_payouts_stay_as_they_are_until_the_block_ends(
    shared: Deployment, clock: ManualClock
) -> None:
    lb = shared.lb
    play_seasons(lb, clock)
    play_seasons(lb, clock, replace(SEASONS, name="other"))
    before, cursor = listed(lb)
    tracked = movable_copies_of(lb).track("seasons", "move")
    tracked.block()
    clock.advance(2 * DAY)
    due = [each for each in payouts(lb, "seasons") if each.state == "due"]
    with shared.open_beside() as beside:
        for each in (lb, beside):
            with pytest.raises(BoardMoving):
                each.confirm("seasons", due[0].id, "bank")
            period = due[-1].period
            member = each.top("seasons", window="day", period=period)[0].member
            with pytest.raises(BoardMoving):
                each.disqualify("seasons", member, "late", window="day", period=period)
        seen, cursor = listed(beside, cursor)
        assert {id.split("/")[0] for id in seen} <= {
            each.id.split("/")[0] for each in payouts(lb, "other")
        }
        assert not movable_copies_of(beside).unblock("seasons", "another move")
        with pytest.raises(BoardMoving):
            beside.confirm("seasons", due[0].id, "bank")
        movable_copies_of(beside).seize("seasons", "a takeover")
        assert movable_copies_of(beside).unblock("seasons", "a takeover")
        beside.confirm("seasons", due[0].id, "bank")
    more, _ = listed(lb, cursor)
    expected = {
        each.id
        for each in [*payouts(lb, "seasons"), *payouts(lb, "other")]
        if each.state in ("due", "confirmed")
    }
    assert {*before, *seen, *more} == expected
    assert len(before) + len(seen) + len(more) == len(expected)
    lb.check()


@pytest.mark.parametrize("shared", some(2, KINDS[::-1]), indirect=True)
def test_a_moved_board_leaves_no_payouts_and_valid_cursors(
    shared: Deployment, clock: ManualClock
) -> None:
    lb = shared.lb
    play_seasons(lb, clock)
    play_seasons(lb, clock, replace(SEASONS, name="other"))
    _, first = listed(lb)
    page = lb.due_payouts(limit=3)
    lb._store.write(DeleteBoard("seasons", is_moved=True))
    clock.advance(DAY)
    with pytest.raises(UnknownBoard):
        lb.payouts("seasons")
    uid = payouts(lb, "other")[0].id.split("/")[0]
    for cursor in (None, page.cursor, first):
        assert {id.split("/")[0] for id in listed(lb, cursor)[0]} <= {uid}
    assert {each.board for each in lb.waiting_payouts()} <= {"other"}


@pytest.mark.parametrize("kind", ["redis", "redis-mariadb"])
def test_any_process_shows_the_payouts_of_a_finished_copy(
    kind: str, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that copied the board is killed after the board is finished, and before its
    payouts are visible."""
    with opened_pair(("folder", kind), tmp_path, clock) as (source, target):
        play_seasons(source.lb, clock)
        own, other = copies_of(source.lb), copies_of(target.lb)
        other.begin(own.origin("seasons"))
        for piece in own.pieces("seasons"):
            other.put("seasons", [piece])
        assert listed(target.lb) == ([], None)
        with pytest.raises(UnknownBoard):
            target.lb.payouts("seasons")
        with monkeypatch.context() as patched:
            patched.setattr(PayoutTransfers, "publish", _fail)
            with pytest.raises(RuntimeError, match="killed"):
                other.finish("seasons")
        with target.open_beside() as beside:
            assert seasons(beside, "seasons") == seasons(source.lb, "seasons")
        due = [each.id for each in payouts(source.lb, "seasons") if each.state == "due"]
        assert sorted(listed(target.lb)[0]) == sorted(due)
        target.lb.confirm("seasons", due[0], "bank")
        source.lb.confirm("seasons", due[0], "bank")
        assert copied(source.lb, target.lb).compared.payouts


async def _fail(*_: object) -> None:
    raise RuntimeError("killed")
