"""Queues of writes: all writes that arrive during a call are sent together in the next call, in
order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

import laurels
from laurels.core.board_state import Boards, BoardState
from laurels.errors import NotReady
from laurels.stores.intake.accept import submission
from laurels.stores.intake.commit import MAX_EVENTS
from laurels.stores.intake.joined_submission import JoinedSubmission
from laurels.stores.intake.tickets import Ticket
from laurels.stores.intake.writes import FoldedWrite, Single
from laurels.stores.redis.write_queues import WriteQueues, _next_group


class Gate:
    """A function that carries out writes, with at most one call per board at a time. Each call
    waits until the test releases it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.under_way: list[int] = []
        self._open = asyncio.Semaphore(0)

    def let_through(self, calls: int = 1) -> None:
        for _ in range(calls):
            self._open.release()

    async def carry_out(self, write: FoldedWrite) -> Sequence[Any]:
        number = 0 if write.board is None else write.board.number
        assert number not in self.under_way, "a board has two calls at a time"
        self.under_way.append(number)
        await self._open.acquire()
        self.under_way.remove(number)
        members = members_of(write)
        self.calls.append(members)
        if "bad" in members:
            raise NotReady("not now")
        if isinstance(write, JoinedSubmission):
            return list(write._sizes)
        return [len(members)]


def members_of(write: Any) -> list[str]:
    """Return the members of a submission, or the name of a write that `named` has made."""
    if isinstance(write, Single):
        return [write._propose(None, 0)]  # type: ignore[arg-type, list-item]
    return [member.decode() for member in write.members()]


def states(count: int = 1) -> list[BoardState]:
    boards = Boards()
    return [boards.open(laurels.Board(f"b{n}"), n, 1, 0) for n in range(1, count + 1)]


def events(state: BoardState, *members: str, atomic: bool = False) -> FoldedWrite:
    batch = [(member, 1) for member in members]
    return submission(state, batch, None, event_time=False, atomic=atomic, ranks=True)


def named(name: str, *, exclusive: bool = False) -> FoldedWrite:
    """Return a write of a single record that belongs to no board."""
    return Single(lambda *_: name, exclusive=exclusive)  # type: ignore[arg-type]


async def begun(*writes: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start writes as tasks, and run the event loop until all of them wait."""
    tasks = [asyncio.create_task(write) for write in writes]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_a_single_write_is_sent_at_once_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        monkeypatch.setattr(asyncio, "sleep", None)
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", None)
        monkeypatch.setattr(asyncio.get_running_loop(), "call_at", None)
        gate.let_through()
        assert await queues.write(events(state, "a")) == 1
        assert gate.calls == [["a"]]
        await queues.finish()

    asyncio.run(check())
    monkeypatch.undo()


def test_writes_during_a_call_are_sent_together_in_order() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        first = await begun(queues.write(events(state, "a")))
        others = await begun(*(queues.write(events(state, *m)) for m in ("b", "cd", "e")))
        gate.let_through(2)
        assert await asyncio.gather(*first, *others) == [1, 1, 2, 1]
        assert gate.calls == [["a"], ["b", "c", "d", "e"]]

    asyncio.run(check())


def test_only_adjacent_writes_of_the_same_kind_are_joined() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        tasks = await begun(
            queues.write(events(state, "a")),
            queues.write(events(state, "b")),
            queues.write(events(state, "c", atomic=True)),
            queues.write(events(state, "d")),
            queues.write(events(state, "e")),
        )
        gate.let_through(9)
        await asyncio.gather(*tasks)
        assert gate.calls == [["a", "b"], ["c"], ["d", "e"]]

    asyncio.run(check())


def test_a_failure_is_raised_only_for_the_affected_writes() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        first = await begun(queues.write(events(state, "a")))
        struck = await begun(*(queues.write(events(state, m)) for m in ("bad", "with it")))
        others = await begun(
            queues.write(events(state, "whole", atomic=True)),
            queues.write(events(state, "b")),
        )
        gate.let_through(9)
        for task in struck:
            with pytest.raises(NotReady):
                await task
        assert await asyncio.gather(*first, *others) == [1, 1, 1]
        assert await queues.write(events(state, "again")) == 1
        assert gate.calls == [["a"], ["bad", "with it"], ["whole"], ["b"], ["again"]]

    asyncio.run(check())


def test_boards_do_not_wait_for_each_other() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        tasks = await begun(*(queues.write(events(state, "a")) for state in states(3)))
        assert gate.under_way == [1, 2, 3]
        gate.let_through(3)
        assert await asyncio.gather(*tasks) == [1, 1, 1]

    asyncio.run(check())


def test_an_exclusive_write_shares_no_group() -> None:
    names = ["a", "b", "ALONE", "c", "ALSO", "ALONE TOO", "d", "e"]
    queue = deque(Ticket(named(name, exclusive=name.isupper())) for name in names)
    groups = []
    while queue:
        groups.append([members_of(ticket.write)[0] for ticket in _next_group(queue)])
    assert groups == [["a", "b"], ["ALONE"], ["c"], ["ALSO"], ["ALONE TOO"], ["d", "e"]]


def test_writes_for_no_board_are_carried_out_in_order() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        names = ["a", "B", "c", "D"]
        tasks = await begun(*(queues.write(named(n, exclusive=n.isupper())) for n in names))
        gate.let_through(4)
        assert await asyncio.gather(*tasks) == [1] * 4
        assert gate.calls == [["a"], ["B"], ["c"], ["D"]]

    asyncio.run(check())


def test_the_number_of_events_of_a_call_is_limited() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        sizes = [MAX_EVENTS * 2 // 5] * 3 + [MAX_EVENTS, 1, 1]
        tasks = await begun(
            *(queues.write(events(state, *(f"m{i}" for i in range(size)))) for size in sizes)
        )
        gate.let_through(9)
        assert await asyncio.gather(*tasks) == sizes
        assert [len(call) for call in gate.calls] == [sizes[0] * 2, sizes[2], MAX_EVENTS, 2]

    asyncio.run(check())


def test_a_cancelled_caller_does_not_stop_its_write_or_others() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        (state,) = states()
        (first,) = await begun(queues.write(events(state, "a")))
        given_up, other = await begun(*(queues.write(events(state, name)) for name in ("b", "c")))
        given_up.cancel()
        gate.let_through(2)
        assert [await first, await other] == [1, 1]
        assert given_up.cancelled()
        assert gate.calls == [["a"], ["b", "c"]]

    asyncio.run(check())


def test_finishing_waits_for_all_that_is_queued() -> None:
    async def check() -> None:
        gate = Gate()
        queues = WriteQueues(gate.carry_out)
        tasks = await begun(*(queues.write(events(s, "a")) for s in states(2) for _ in range(3)))
        (finishing,) = await begun(queues.finish())
        assert not finishing.done()
        gate.let_through(4)
        await finishing
        assert await asyncio.gather(*tasks) == [1] * 6
        await queues.finish()

    asyncio.run(check())
