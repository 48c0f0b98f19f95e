"""`max_age`: a process repeats answers of the index server from its memory. No answer is older than
`max_age`, or older than what the program has already seen or written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import laurels
from laurels import errors
from laurels.core.queries import Top
from laurels.stores.answers.sessions import NO_FLOOR
from tests.internals import remote

from .conftest import NOW
from .servers import Server

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LABELLED: dict[str, Any] = {"scopes": [[], ["room"]], "rank_by": ["zone"]}
Ask = Callable[[laurels.Leaderboards], Any]


class Elapsed:
    """A clock for the ages of answers, which only tests move."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    def advance(self, ms: int) -> None:
        self.ns += ms * 1_000_000


class Processes:
    """Two programs on one server with the same clocks: one that writes, and one whose answers are
    tested."""

    def __init__(self, url: str, elapsed: Elapsed) -> None:
        self.clock = laurels.ManualClock(NOW)
        self.elapsed = elapsed
        self.writer = laurels.open(url, clock=self.clock)
        self.reader = laurels.open(url, clock=self.clock)

    def advance(self, ms: int) -> None:
        """Move both clocks."""
        self.elapsed.advance(ms)
        self.clock.advance(ms)

    def total(self, board: str = "b", **options: Any) -> int:
        """Return how many members the reader sees."""
        return self.reader.top(board, **options).total


@pytest.fixture
def both(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    server.call("FLUSHALL")
    elapsed = Elapsed()
    monkeypatch.setattr("laurels.config.index_server.boot_ns", elapsed)
    both = Processes(server.url, elapsed)
    with both.writer, both.reader:
        yield both


def create(both: Processes, *, max_age: str = "1s", **fields: Any) -> None:
    both.writer.create(laurels.Board("b", max_age=max_age, **fields))
    both.writer.submit("b", "ann", 1)


def test_without_max_age_every_answer_is_current(both: Processes) -> None:
    create(both, max_age="0s")
    for total in range(1, 5):
        assert both.total() == total
        both.writer.submit("b", f"m{total}", 1)


def test_an_answer_is_repeated_until_it_is_max_age_old(both: Processes) -> None:
    create(both)
    assert both.total() == 1
    both.writer.submit("b", "bob", 1)
    both.elapsed.advance(999)
    assert both.total() == 1
    both.elapsed.advance(1)
    assert both.total() == 2


QUERIES: list[Ask] = [
    lambda lb: lb.top("b", limit=3),
    lambda lb: lb.top("b", limit=3, with_data=True),
    lambda lb: lb.top("b", labels={"room": "1"}),
    lambda lb: lb.top("b", by="zone"),
    lambda lb: lb.around("b", "m3", radius=1),
    lambda lb: lb.standing("b", "m3", to_rank=1),
    lambda lb: lb.rank("b", "m3"),
    lambda lb: lb.card("b", "m3"),
    lambda lb: lb.needed("b", "m3", 1),
    lambda lb: lb.range("b", low=2, high=4),
    lambda lb: lb.at_rank("b", 2),
    lambda lb: lb.score_at_percentile("b", 50),
    lambda lb: lb.count("b", low=3),
]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_repeated_answer_equals_the_first(both: Processes, shards: int) -> None:
    column = laurels.Column("score", scale=2)
    windows = ["all", "day", "7d=rolling:7d/1h"]
    create(both, columns=[column], windows=windows, shards=shards, **LABELLED)
    both.writer.set_data("b", "m4", {"name": "M", "weights": [0.1, 10**16, None]})
    for i in range(6):
        labels = {"room": str(i % 2), "zone": "ns"[i % 2]}
        event = laurels.Event(f"m{i}", f"{i}.50", labels=labels)
        both.writer.submit_many("b", [event])
    for ask in QUERIES:
        assert ask(both.reader) == ask(both.writer) == ask(both.reader)
    assert remote(both.reader).answers.nbytes > 0


def test_queries_for_lists_of_members_always_ask_the_server(both: Processes) -> None:
    create(both)
    for total in range(1, 4):
        assert both.reader.ranks("b", ["ann", "bob"])[0] == 1
        assert both.reader.standings("b", ["ann"]).total == total
        both.writer.submit("b", f"m{total}", 0)


def test_queries_for_a_member_that_is_not_ranked_always_ask_the_server(both: Processes) -> None:
    create(both)
    assert both.reader.standing("b", "bob") is None
    both.writer.submit("b", "bob", 5)
    assert both.reader.rank("b", "bob") == 1
    standing = both.reader.standing("b", "bob")
    assert standing is not None
    assert standing.rank == 1


def test_a_program_sees_its_own_writes_at_once(both: Processes) -> None:
    create(both)
    assert both.total() == 1
    both.reader.submit("b", "bob", 1)
    assert both.total() == 2
    both.reader.submit_many("b", [("eve", 1)])
    assert both.total() == 3
    both.reader.remove("b", "bob")
    assert both.total() == 2
    both.reader.set("b", "ann", 9)
    assert both.reader.top("b")[0].score == 9
    both.reader.set_data("b", "ann", {"name": "Ann"})
    assert both.reader.top("b", with_data=True)[0].data == {"name": "Ann"}


def test_a_write_that_failed_without_an_answer_is_seen_if_it_counted(both: Processes) -> None:
    create(both)
    assert both.total() == 1
    queues: Any = remote(both.reader)._queues
    carry_out = queues._carry_out

    async def lose_answer(write: Any) -> Any:
        await carry_out(write)
        raise errors.Unavailable("the answer was lost")

    queues._carry_out = lose_answer
    with pytest.raises(errors.Unavailable):
        both.reader.submit("b", "bob", 1)
    assert both.total() == 2


def test_the_state_that_is_shown_never_goes_back(both: Processes) -> None:
    create(both)
    assert both.total() == 1
    both.writer.submit("b", "bob", 1)
    standing = both.reader.standing("b", "bob")
    assert standing is not None
    answered = both.reader.top("b").as_of.offset
    assert answered >= standing.as_of.offset  # type: ignore[operator]
    assert both.total() == 2


def test_an_answer_expires_with_its_period(both: Processes) -> None:
    create(both, max_age="7d", windows=["day", "all"])
    assert both.total(window="day") == 1
    both.clock.set(NOW + DAY_MS - 1)
    assert both.total(window="day") == 1
    both.clock.set(NOW + DAY_MS)
    assert both.total(window="day") == 0


def test_an_answer_expires_when_a_step_of_any_window_ends(both: Processes) -> None:
    create(both, max_age="7d", windows=["all", "2h=rolling:2h/1h"])
    assert both.total(window="2h") == 1
    both.clock.advance(2 * HOUR_MS)
    assert both.total(window="2h") == 0


def test_an_answer_expires_when_the_board_ends(both: Processes) -> None:
    create(both, max_age="7d", ends=NOW + HOUR_MS, retain="1h")
    assert both.total() == 1
    both.writer.submit("b", "bob", 1)
    assert both.total() == 1
    both.clock.advance(HOUR_MS)
    assert both.total() == 2
    both.clock.advance(HOUR_MS - 1)
    assert both.total() == 2
    both.clock.advance(1)
    with pytest.raises(errors.UnknownBoard):
        both.total()


def test_an_answer_expires_when_a_refresh_is_due(both: Processes) -> None:
    create(both, max_age="7d", windows=["all", "r=rolling:7d/1d:refresh=10m"])
    assert both.total(window="r") == 1
    both.writer.submit("b", "bob", 1)
    assert both.total(window="r") == 1
    both.clock.advance(10 * 60_000)
    both.writer.submit("b", "eve", 1)
    assert both.total(window="r") >= 2


def test_answers_about_windows_with_decay_are_not_kept(both: Processes) -> None:
    create(both, max_age="7d", windows=["hot=decay:1h", "all"])
    before = both.reader.top("b", window="hot")[0].score
    both.clock.advance(HOUR_MS)
    assert both.reader.top("b", window="hot")[0].score < before  # type: ignore[operator]
    both.reader.card("b", "ann")
    assert remote(both.reader).answers.nbytes == 0
    both.reader.top("b", window="all")
    assert remote(both.reader).answers.nbytes > 0


def test_another_max_age_applies_to_answers_in_memory(both: Processes) -> None:
    create(both, max_age="1h")
    assert both.total() == 1
    both.writer.submit("b", "bob", 1)
    both.elapsed.advance(2_000)
    assert both.total() == 1
    both.reader.change("b", max_age="1s")
    assert both.total() == 2


def test_a_change_by_another_process_is_noticed_when_the_answer_expires(both: Processes) -> None:
    create(both, max_age="1s")
    assert both.total() == 1
    both.writer.change("b", max_age="0s")
    both.elapsed.advance(1_000)
    for total in range(1, 4):
        assert both.total() == total
        both.writer.submit("b", f"m{total}", 1)


def test_a_recreated_board_has_no_answers_of_the_old_one(both: Processes) -> None:
    create(both)
    both.writer.submit("b", "bob", 1)
    assert both.total() == 2
    both.writer.delete("b")
    both.writer.create(laurels.Board("b", max_age="1s"))
    assert both.total() == 2
    both.elapsed.advance(1_000)
    assert both.total() == 0
    both.reader.delete("b")
    with pytest.raises(errors.UnknownBoard):
        both.total()


def test_answers_follow_a_server_that_lost_changes(both: Processes, server: Server) -> None:
    """A failover to a replica that lags loses the last changes. From then on answers show what the
    server has."""
    create(both)
    (key,) = [key for key in server.call("KEYS", "*") if key.endswith(b"m") and b"{" in key]
    seq = int(server.call("HGET", key, "seq"))
    server.call("HSET", key, "seq", str(seq + 100))
    assert both.total() == 1
    assert both.reader.rank("b", "ann") == 1
    server.call("HSET", key, "seq", str(seq))
    both.writer.submit("b", "bob", 2)
    assert both.reader.count("b") == 2
    assert both.total() == 2
    assert both.reader.rank("b", "ann") == 2
    both.writer.submit("b", "eve", 3)
    assert both.total() == 2
    both.elapsed.advance(1_000)
    assert both.total() == 3


class Gate:
    """Delays chosen answers of the index on their way to the store."""

    def __init__(self, lb: laurels.AsyncLeaderboards) -> None:
        index: Any = remote(lb)._catalog.index
        self._read = index.read
        index.read = self._delayed
        self._gates: list[asyncio.Event] = []
        self.delayed = 0

    def delay_next(self) -> asyncio.Event:
        """Delay the next answer until the returned event is set."""
        self._gates.append(asyncio.Event())
        return self._gates[-1]

    async def _delayed(self, *args: Any, **options: Any) -> Any:
        gate = self._gates.pop() if self._gates else None
        reading = await self._read(*args, **options)
        if gate is not None:
            self.delayed += 1
            await gate.wait()
        return reading


def test_an_older_answer_that_arrives_later_is_not_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.call("FLUSHALL")
    elapsed = Elapsed()
    monkeypatch.setattr("laurels.config.index_server.boot_ns", elapsed)

    async def main() -> None:
        clock = laurels.ManualClock(NOW)
        async with (
            laurels.open_async(server.url, clock=clock) as writer,
            laurels.open_async(server.url, clock=clock) as reader,
        ):
            await writer.create(laurels.Board("b", max_age="10s"))
            await writer.submit("b", "ann", 1)
            gate = Gate(reader)
            release = gate.delay_next()
            early = asyncio.create_task(reader.top("b"))
            while not gate.delayed:
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
            await writer.submit("b", "bob", 1)
            assert (await reader.top("b")).total == 2
            release.set()
            assert (await early).total == 1
            answered = await remote(reader).answers.answer("b", Top(), NO_FLOOR, packed=False)
            assert b'"total":2' in answered.content
            assert (await reader.top("b")).total == 2
            # The age of an answer is counted from the time of its query, even if the answer arrives
            # late.
            release = gate.delay_next()
            late = asyncio.create_task(reader.count("b"))
            while gate.delayed < 2:
                await asyncio.sleep(0.001)
            elapsed.advance(9_999)
            release.set()
            assert await late == 2
            await writer.submit("b", "eve", 1)
            assert await reader.count("b") == 2
            elapsed.advance(1)
            assert await reader.count("b") == 3

    asyncio.run(main())


def test_in_event_time_every_answer_is_current(server: Server) -> None:
    server.call("FLUSHALL")
    with (
        laurels.open(server.url, clock="event") as writer,
        laurels.open(server.url, clock="event") as reader,
    ):
        writer.create(laurels.Board("b", windows=["day"], max_age="1h"))
        for day in range(3):
            writer.submit("b", "ann", 1, at=NOW + day * DAY_MS)
            assert reader.top("b")[0].score == 1
            assert reader.top("b").as_of.period == f"2026-11-{21 + day}"
