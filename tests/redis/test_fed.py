"""Rankings by a label on a board in several shards. An event that a shard has counted also counts
in these rankings, exactly once and in the period that accepted it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels import config
from laurels.errors import NotReady
from laurels.stores.redis.catalog import BoardCatalog
from laurels.stores.redis.sharding import label_replicator
from laurels.stores.redis.sharding.shards import shard_of
from tests.conftest import Scaled
from tests.counts import some
from tests.internals import remote, stop_pacing
from tests.redis.fed import MEMBERS, SHARDS, WINDOWS, board, in_room, rooms
from tests.redis.servers import Server

from .conftest import NOW

HOUR_MS = 3_600_000


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    return f"{server.url}?prefix={abs(hash(request.node.name))}:"


@pytest.fixture
def lb(url: str, clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    with config.direct(url, clock) as opened:
        yield opened


def unfed(lb: laurels.Leaderboards, board: str, events: list[Any]) -> None:
    """Count events in a process that ends before anybody has read the feeds."""
    with patch.object(BoardCatalog, "feed", _nothing):
        lb.submit_many(board, events)


async def _nothing(*_: object) -> bool:
    return False


# The rankings equal those of a board in one process


BOARDS: list[dict[str, Any]] = [
    {},
    {"tie": "member"},
    {"columns": [laurels.Column(min=-1_000, max=1_000)], "tie_resolution": "1h"},
    {"columns": [laurels.Column("c", op="last")], "tie": "member"},
    {"columns": [laurels.Column("c", op="best"), laurels.Column("t", op="best", order="asc")]},
    {"columns": [laurels.Column("c"), laurels.Column("l", op="last", order="asc")]},
    {"windows": ["all", "f=decay:2h", "h=hour:keep=2"]},
    {"rank_by": ["room", "zone"], "scopes": [["zone"]], "rank": "competition"},
]


@pytest.mark.parametrize("seed", some(1, range(3)))
@pytest.mark.parametrize("kind", range(len(BOARDS)))
def test_rankings_by_a_label_equal_those_of_one_process(
    lb: laurels.Leaderboards,
    url: str,
    clock: laurels.ManualClock,
    kind: int,
    seed: int,
    scaled: Scaled,
) -> None:
    rng, more = Random(100 * seed + kind), BOARDS[kind]
    made = board(**{"grace": "2h", "dedupe": "3h", **more})
    labels, columns = made.rules().labels, len(made.columns)
    with laurels.open("memory:", clock=clock) as plain, config.direct(url, clock) as other:
        for each in (plain, lb):
            each.create(made)
        for _ in range(scaled(8, 15)):
            clock.advance(rng.choice([0, 1, 60_000, HOUR_MS // 2, HOUR_MS, 5 * HOUR_MS]))
            events = [
                (
                    rng.choice(MEMBERS),
                    tuple(rng.randint(-3, 9) for _ in range(columns)),
                    clock.now_ms() - rng.choice([0, 0, 5, HOUR_MS, 3 * HOUR_MS]),
                    rng.choice([None, f"id{rng.randrange(40)}"]),
                    {label: rng.choice("abc") for label in labels if rng.random() < 0.9} or None,
                )
                for _ in range(rng.choice([1, 3, 40]))
            ]
            events = [event for event in events if event[4] or () in made.rules().scopes]
            writers = (plain, rng.choice([lb, other]))
            for each in writers:
                each.submit_many("b", events)
            if () in made.rules().scopes and rng.random() < 0.3:
                for each in writers:
                    each.set("b", events[0][0], events[0][1], labels={"room": "b"})
            if rng.random() < 0.2:
                member = rng.choice(MEMBERS)
                for each in (plain, lb):
                    each.remove("b", member)
            for by in made.rank_by:
                for window in made.rules().windows:
                    looks = [
                        [
                            (e.rank, e.member, e.score)
                            for e in each.export("b", window=window, by=by)
                        ]
                        for each in (plain, rng.choice([lb, other]))
                    ]
                    assert looks[0] == looks[1]
        lb.check()
        lb.rebuild()
        other.check()
        assert other.stats("b").left_out == 0


# Time


def test_events_that_are_read_late_from_a_feed_count_in_the_hour_of_acceptance(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock
) -> None:
    with laurels.open("memory:", clock=clock) as plain, config.direct(url, clock) as dying:
        made = board(windows=[*WINDOWS, "f=decay:1h"])
        for each in (plain, lb):
            each.create(made)
        clock.advance(HOUR_MS - 1)
        late = [
            (member, 5, clock.now_ms() - back, None, {"room": room})
            for member, room, back in zip(MEMBERS, "aabbc" * 3, range(12), strict=False)
        ]
        plain.submit_many("b", late)
        unfed(dying, "b", late)
        for _ in range(5):
            clock.advance(HOUR_MS if clock.now_ms() > NOW + HOUR_MS else 1)
            for window in made.rules().windows:
                for period in plain.periods("b", window, by="room"):
                    label = period.label or None
                    assert rooms(lb, window=window, period=label) == rooms(
                        plain, window=window, period=label
                    )


@pytest.mark.parametrize("hours", [1, 2, 3, 30])
def test_events_that_wait_in_a_feed_count_only_in_readable_periods(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock, hours: int
) -> None:
    with laurels.open("memory:", clock=clock) as plain, config.direct(url, clock) as dying:
        for each in (plain, lb):
            each.create(board())
            each.submit_many("b", in_room("a", *MEMBERS[:5]))
        plain.submit_many("b", in_room("b", *MEMBERS))
        unfed(dying, "b", in_room("b", *MEMBERS))
        clock.advance(hours * HOUR_MS)
        for each in (plain, lb):
            each.submit_many("b", in_room("c", *MEMBERS[:3]))
        for window in WINDOWS:
            name = window.partition("=")[0]
            for period in plain.periods("b", name, by="room"):
                arguments = {"window": name, "period": period.label or None}
                assert rooms(lb, **arguments) == rooms(plain, **arguments)
        lb.check()


# Any process may read the feeds


def test_an_answer_includes_every_acknowledged_event(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock
) -> None:
    lb.create(board())
    with config.direct(url, clock) as other:
        for round_number in range(1, 6):
            unfed(lb, "b", in_room("a", *MEMBERS))
            assert rooms(other) == {"a": 12 * round_number}
            assert rooms(lb) == {"a": 12 * round_number}


def test_a_list_and_a_standing_of_one_state_have_the_same_as_of(lb: laurels.Leaderboards) -> None:
    lb.create(board())
    lb.submit_many("b", in_room("a", *MEMBERS))
    page, standing = lb.top("b", by="room"), lb.standing("b", "a", by="room")
    assert standing is not None
    assert page.as_of == standing.as_of
    assert page.as_of.by == "room"
    lb.submit_many("b", in_room("a", *MEMBERS))
    assert lb.top("b", by="room").as_of.offset != page.as_of.offset


def test_a_long_feed_is_read_in_several_calls(
    lb: laurels.Leaderboards, monkeypatch: pytest.MonkeyPatch
) -> None:
    lb.create(board())
    for round_number in range(100):
        unfed(lb, "b", in_room("ab"[round_number % 2], *MEMBERS))
    monkeypatch.setattr(label_replicator, "ROUNDS", 2)
    with pytest.raises(NotReady):
        lb.top("b", by="room")
    monkeypatch.setattr(label_replicator, "ROUNDS", 100)
    assert rooms(lb) == {"a": 600, "b": 600}


def test_counted_events_are_removed_from_the_feeds(
    lb: laurels.Leaderboards, url: str, server: Server
) -> None:
    lb.create(board())
    for _ in range(20):
        lb.submit_many("b", in_room("a", *MEMBERS))
    lb.top("b", by="room")
    prefix = url.partition("prefix=")[2]
    feeds = [f"{prefix}{{1.{shard}}}:f" for shard in range(SHARDS)]
    assert [server.call("XLEN", feed) for feed in feeds] == [0] * SHARDS


def test_due_work_reads_the_feeds(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock
) -> None:
    lb.create(board())
    unfed(lb, "b", in_room("a", *MEMBERS))
    with config.direct(url, clock) as other:
        other.boards()
        remote(other).work(1_000)
    with patch.object(label_replicator.LabelReplicator, "feed", _fed):
        assert rooms(lb) == {"a": 12}


async def _fed(*_: object) -> bool:
    return True


def test_the_change_token_changes_with_a_ranking_by_a_label(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock
) -> None:
    lb.create(board())
    with config.direct(url, clock) as watching:
        service: Any = watching._store

        def change_token() -> Any:
            service.run(service.follow(["b"]))
            return service.change_token("b")

        tokens = [change_token()]
        unfed(lb, "b", in_room("a", *MEMBERS))
        tokens.append(change_token())
        lb.top("b", by="room")
        tokens.append(change_token())
        assert len({*tokens}) == 3
        assert change_token() == tokens[-1]


def test_concurrent_queries_share_one_read(url: str, clock: laurels.ManualClock) -> None:
    async def run() -> None:
        async with await config.direct_async(url, clock) as lb:
            stop_pacing(lb)  # this task reads the feeds, too
            await lb.create(board())
            await lb.submit_many("b", in_room("a", *MEMBERS))
            index: Any = lb._store._catalog.index  # type: ignore[attr-defined]
            with patch.object(
                index._replicator, "_feed", side_effect=index._replicator._feed
            ) as looked:
                pages = await asyncio.gather(*[lb.top("b", by="room") for _ in range(50)])
            assert looked.call_count == 1
            assert {page.entries[0].score for page in pages} == {12}

    asyncio.run(run())


# Definitions


def test_an_added_ranking_by_a_label_counts_later_events(
    lb: laurels.Leaderboards, url: str, clock: laurels.ManualClock
) -> None:
    lb.create(board(rank_by=[]))
    with config.direct(url, clock) as other:
        other.submit_many("b", in_room("a", *MEMBERS))
        lb.change("b", rank_by=["room"])
        assert rooms(lb) == {}
        other.submit_many("b", in_room("a", *MEMBERS[:4]))
        assert rooms(other) == rooms(lb) == {"a": 4}
        unfed(other, "b", in_room("a", *MEMBERS[:3]))
        lb.change("b", windows=[*WINDOWS, "day"], scopes=[[], ["room"], ["zone"]])
        lb.change("b", rank_by=["room", "zone"])
        assert rooms(lb) == {"a": 7}
        assert rooms(lb, window="day") == {}
        assert lb.top("b", by="zone").entries == []


def test_a_deleted_board_leaves_nothing_behind(
    lb: laurels.Leaderboards, url: str, server: Server
) -> None:
    lb.create(board())
    lb.submit_many("b", in_room("a", *MEMBERS))
    unfed(lb, "b", in_room("b", *MEMBERS))
    lb.set_data("b", "a", {"name": "The first"})
    lb.delete("b")
    kept = server.call("KEYS", f"{url.partition('prefix=')[2]}*")
    assert [key for key in kept if b"{boards}" not in key and b":a:" not in key] == []


def test_a_label_value_has_the_data_of_the_member_with_its_name(lb: laurels.Leaderboards) -> None:
    lb.create(board())
    lb.submit_many("b", in_room("a", *MEMBERS))
    lb.set_data("b", "a", {"name": "The first"})
    assert lb.top("b", by="room", with_data=True).entries[0].data == {"name": "The first"}
    lb.remove("b", "a")
    assert lb.top("b", by="room", with_data=True).entries[0].data is None


def test_removing_a_member_does_not_change_the_total_of_its_room(lb: laurels.Leaderboards) -> None:
    lb.create(board())
    lb.submit_many("b", in_room("a", *MEMBERS))
    assert lb.remove("b", "m1")
    assert rooms(lb) == {"a": 12}


# The range


def test_an_event_out_of_range_for_its_room_counts_for_its_member(lb: laurels.Leaderboards) -> None:
    lb.create(board(columns=[laurels.Column(max=10)], windows=["all", "day"]))
    first, *others = MEMBERS
    own = shard_of(first.encode(), SHARDS)
    second = next(m for m in others if shard_of(m.encode(), SHARDS) != own)
    for member in (first, second):
        receipt = lb.submit("b", member, 6, labels={"room": "a"})
        assert (receipt.status, receipt.score) == ("applied", 6)
    assert rooms(lb) == {"a": 6}
    assert lb.stats("b").left_out == 1
    lb.submit("b", second, 4, labels={"room": "a"})
    assert rooms(lb) == {"a": 10}
    lb.check()


def test_refreshed_windows_equal_those_of_one_process(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    windows = ["r=rolling:5h/1h,refresh=1h", "all"]
    rng = Random(3)
    with laurels.open("memory:", clock=clock) as whole:
        for each, divided in ((lb, True), (whole, False)):
            each.create(board(windows=windows, shards=SHARDS if divided else 1))
        for _ in range(scaled(12, 30)):
            events = [
                laurels.Event(
                    rng.choice(MEMBERS),
                    rng.randint(0, 9),
                    labels={"room": f"r{rng.randrange(4)}"},
                )
                for _ in range(10)
            ]
            for each in (lb, whole):
                each.submit_many("b", events)
            scopes: tuple[dict[str, Any], ...] = ({"by": "room"}, {"labels": {"room": "r1"}}, {})
            for where in scopes:
                page, expected = (each.top("b", limit=50, **where) for each in (lb, whole))
                assert page.entries == expected.entries
                assert page.as_of.period == expected.as_of.period
            clock.advance(HOUR_MS // 4)
        lb.check()
