"""A process notices that another process has changed or deleted a board of which it knows an older
definition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import laurels
from laurels import errors

from .conftest import NOW
from .servers import Server

HOUR_MS = 3_600_000
BASE = "laurels:{1.0}:"
Both = tuple[laurels.Leaderboards, laurels.Leaderboards]


@pytest.fixture
def both(server: Server) -> Iterator[Both]:
    """Open the stores of two processes on one server. Both have read the board `b`."""
    server.call("FLUSHALL")
    clock = laurels.ManualClock(NOW)
    with (
        laurels.open(server.url, clock=clock) as one,
        laurels.open(server.url, clock=clock) as other,
    ):
        one.create(laurels.Board("b"))
        other.submit("b", "ann", 1, id="x")
        yield one, other


def test_boards_deleted_or_created_by_another_process_are_noticed(both: Both) -> None:
    one, other = both
    one.delete("b")
    other.create(laurels.Board("b", title="anew"))
    assert one.get("b").title == "anew"
    one.delete("b")
    with pytest.raises(errors.UnknownBoard):
        other.submit("b", "ann", 1)
    one.create(laurels.Board("c"))
    other.change("c", title="seen")
    one.delete("c")
    with pytest.raises(errors.UnknownBoard):
        other.delete("c")


def test_a_board_recreated_by_another_process_is_noticed(both: Both) -> None:
    one, other = both
    other.submit_many("b", [("ann", 1)], position=("file", "1"))
    one.delete("b")
    one.create(laurels.Board("b", windows=["all", "day"]))
    one.submit_many("b", [("bob", 2)], position=("file", "500"))
    assert other.position("b", "file") == "500"
    assert other.remove("b", "ann") is False
    assert other.top("b", window="day").total == 1
    one.delete("b")
    one.create(laurels.Board("b"))
    with pytest.raises(errors.NotReady):
        other.submit("b", "ann", 7)
    other.submit("b", "ann", 7)
    assert one.standing("b", "ann").score == 7  # type: ignore[union-attr]
    one.delete("b")
    one.create(laurels.Board("b"))
    other.set_data("b", "ann", {"x": 1})
    other.submit("b", "ann", 7)


def test_a_board_on_an_emptied_server_is_not_taken_for_another_with_its_number(
    both: Both, server: Server
) -> None:
    one, other = both
    server.call("FLUSHALL")
    with laurels.open(server.url, clock=laurels.ManualClock(NOW)) as new:
        new.create(laurels.Board("c"))
        new.submit("c", "bob", 5)
        for call in (
            lambda: one.top("b"),
            lambda: other.submit("b", "ann", 1),
            lambda: other.set_data("b", "ann", 1),
            lambda: one.position("b", "file"),
        ):
            with pytest.raises(errors.UnknownBoard):
                call()
        assert [(entry.member, entry.score) for entry in new.top("c")] == [("bob", 5)]
        new.delete("c")
        new.create(laurels.Board("b", title="anew"))
        assert other.submit("b", "eve", 1).rank == 1


def test_a_board_stored_by_a_release_without_ids_is_adopted(both: Both, server: Server) -> None:
    one, other = both
    key = f"{BASE}m"
    stored = server.call("HGET", key, "ver")
    server.call("HSET", key, "ver", stored.partition(b".")[0])
    assert one.top("b").total == 1
    assert other.submit("b", "bob", 1).status == "applied"
    assert server.call("HGET", key, "ver") == stored


def test_a_window_added_by_another_process_is_noticed(both: Both) -> None:
    one, other = both
    one.change("b", windows=["all", "day"])
    assert other.top("b", window="day").total == 0
    one.change("b", windows=["all", "day", "hour"])
    assert other.submit("b", "ann", 1, window="hour").score == 1
    with pytest.raises(errors.UnknownWindow):
        other.top("b", window="week")


def test_deleted_boards_leave_no_keys(both: Both, server: Server) -> None:
    one, other = both
    one.change("b", windows=["all", "day", "r=rolling:3h/1h"])
    one.submit_many("b", [(f"m{i}", i) for i in range(20)])
    one.set_data("b", "m1", "x")
    one.delete("b")
    with pytest.raises(errors.UnknownBoard):
        other.submit("b", "ann", 1)
    left = {key.decode() for key in server.call("KEYS", "*")}
    assert {key for key in left if "{boards}" not in key and ":a:" not in key} == set()


def test_the_next_deletion_removes_leftovers_of_an_earlier_one(both: Both, server: Server) -> None:
    one, other = both
    one.create(laurels.Board("c"))
    other.submit("c", "ann", 1)
    # The state after a process has died in the middle of a deletion: only the definition has been
    # removed.
    body = server.call("HGET", "laurels:{boards}:d", "b")
    server.call("HDEL", "laurels:{boards}:d", "b")
    server.call("HSET", "laurels:{boards}:g", body, "")
    assert server.call("EXISTS", "laurels:{1.0}:m") == 1
    other.delete("c")
    assert server.call("EXISTS", "laurels:{1.0}:m", "laurels:{2.0}:m", "laurels:{boards}:g") == 0


Event = tuple[str, int, int | None, str | None, dict[str, str]]
IN_ROOM: Event = ("ann", 1, None, None, {"room": "1"})


def change_before(
    call: str, both: Both, monkeypatch: pytest.MonkeyPatch, labels: Sequence[str] = ()
) -> None:
    """Before the first `call` of the first process, make the other process add a scope to the
    board."""
    one, other = both
    scopes = [*one.get("b").scopes, [*labels]]
    catalog: Any = one._store._catalog  # type: ignore[attr-defined]
    carried_out = getattr(catalog.index, call)
    changes = iter([lambda: other.change("b", scopes=scopes)])

    async def changed_first(*args: Any, **named: Any) -> Any:
        for change in changes:
            await asyncio.to_thread(change)
        return await carried_out(*args, **named)

    monkeypatch.setattr(catalog.index, call, changed_first)


@pytest.fixture
def rooms(both: Both) -> Both:
    """Add rooms and a rolling window to the board. One member has events, and both processes know
    the new definition."""
    one, other = both
    one.change("b", windows=["all", "2h=rolling:2h/1h"], scopes=[[], ["room"]])
    for lb in both:
        lb.submit_many("b", [IN_ROOM])
    return one, other


def test_a_scope_added_during_a_sweep_does_not_fail_the_write(
    rooms: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = rooms
    other._store._clock.advance(HOUR_MS)  # type: ignore[attr-defined]
    change_before("sweep", rooms, monkeypatch, ["zone"])
    [receipt] = one.submit_many("b", [IN_ROOM])
    assert (receipt.status, receipt.score) == ("applied", 4)
    assert one.get("b").scopes == other.get("b").scopes
    one.submit_many("b", [("ann", 1, None, None, {"room": "1", "zone": "x"})])
    assert one.standing("b", "ann", labels={"zone": "x"}).score == 1  # type: ignore[union-attr]


def test_a_scope_added_while_scopes_advance_does_not_fail_the_write(
    rooms: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = rooms
    one._store._clock.advance(HOUR_MS)  # type: ignore[attr-defined]
    change_before("advance_scopes", rooms, monkeypatch, ["zone"])
    [receipt] = one.submit_many("b", [IN_ROOM], scope=["room"], window="2h")
    assert (receipt.status, receipt.score) == ("applied", 3)


def test_a_scope_added_before_a_position_is_set_does_not_fail_the_write(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    change_before("set_position", both, monkeypatch, ["room"])
    assert len(one.submit_many("b", [], position=("file", "7"))) == 0
    assert other.position("b", "file") == "7"
