"""Gathering: one leader at a time, nobody forgotten, everything queued in the next commit."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from laurels.commit import MAX_EVENTS, MAX_WRITES, Committer, Ticket

TIMEOUT = 30


class Note:
    """A write that is a number."""

    def __init__(self, number: int, weight: int = 1, alone: bool = False) -> None:
        self.number = number
        self.weight = weight
        self.alone = alone


class Held:
    """A commit function that stops at its first group until it is let go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.entered = threading.Event()
        self.release = threading.Event()
        self.running = 0

    def __call__(self, tickets: list[Ticket]) -> None:
        self.running += 1
        assert self.running == 1, "two leaders at once"
        self.groups.append([ticket.write.number for ticket in tickets])
        if len(self.groups) == 1:
            self.entered.set()
            assert self.release.wait(TIMEOUT)
        for ticket in tickets:
            ticket.succeed(ticket.write.number * 10)
        self.running -= 1


def _queued(committer: Committer, count: int) -> None:
    """Waits, without sleeping for a fixed time, until that many tickets are in the queue."""
    done = threading.Event()
    for _ in range(100_000):
        if len(committer._queue) >= count:
            return
        done.wait(0.0005)
    pytest.fail(f"only {len(committer._queue)} of {count} writes were queued")


def _threads(work: list[Callable[[], object]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=item, daemon=True) for item in work]
    for thread in threads:
        thread.start()
    return threads


def test_what_arrives_during_a_commit_shares_the_next() -> None:
    held = Held()
    committer = Committer(held)
    results: dict[int, int] = {}

    def write(number: int) -> None:
        results[number] = committer.submit(Note(number))

    threads = _threads([lambda: write(0)])
    assert held.entered.wait(TIMEOUT)
    for number in range(1, 9):
        threads += _threads([partial(write, number)])
        _queued(committer, number)
    held.release.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert held.groups == [[0], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert results == {number: number * 10 for number in range(9)}
    assert not committer._led


def test_a_group_is_bounded_and_a_lone_write_stays_alone() -> None:
    held = Held()
    committer = Committer(held)
    notes = [
        Note(1, MAX_EVENTS - 1),
        Note(2),
        Note(3),
        Note(4, alone=True),
        Note(5),
        *(Note(6 + i) for i in range(MAX_WRITES)),
    ]

    async def main() -> None:
        first = committer.submit_async(Note(0))
        assert held.entered.wait(TIMEOUT)
        futures = [committer.submit_async(note) for note in notes]
        held.release.set()
        assert await first == 0
        assert await asyncio.gather(*futures) == [note.number * 10 for note in notes]

    asyncio.run(main())
    committer.close()
    assert held.groups[:4] == [[0], [1, 2], [3], [4]]
    assert [len(group) for group in held.groups[4:]] == [MAX_WRITES, 1]


def test_threads_and_tasks_share_one_queue() -> None:
    held = Held()
    held.release.set()
    committer = Committer(held)
    results: list[int] = []

    def write(start: int) -> None:
        results.extend(committer.submit(Note(start + i)) for i in range(200))

    async def main() -> list[int]:
        return [await committer.submit_async(Note(-i)) for i in range(1, 201)]

    threads = _threads([lambda: write(0), lambda: write(1_000), lambda: write(2_000)])
    awaited = asyncio.run(main())
    for thread in threads:
        thread.join(TIMEOUT)
    committer.close()
    assert awaited == [-10 * i for i in range(1, 201)]
    assert sorted(results) == sorted((s + i) * 10 for s in (0, 1_000, 2_000) for i in range(200))
    assert sum(map(len, held.groups)) == 800


def test_a_failed_commit_fails_its_writes_and_the_next_goes_on() -> None:
    failures = [ValueError("no")]

    def commit(tickets: list[Ticket]) -> None:
        if failures:
            raise failures.pop()
        for ticket in tickets:
            ticket.succeed("done")

    committer = Committer(commit)
    with pytest.raises(ValueError, match="no"):
        committer.submit(Note(1))
    assert committer.submit(Note(2)) == "done"


def test_an_interrupted_leader_hands_the_lead_on() -> None:
    held = Held()
    committer = Committer(held)
    interrupted: list[BaseException] = []

    def commit(tickets: list[Ticket]) -> None:
        held(tickets)
        if tickets[0].write.number == 0:
            raise KeyboardInterrupt

    committer = Committer(commit)

    def lead() -> None:
        try:
            committer.submit(Note(0))
        except KeyboardInterrupt as error:
            interrupted.append(error)

    threads = _threads([lead])
    assert held.entered.wait(TIMEOUT)
    results: list[int] = []
    threads += _threads([lambda: results.append(committer.submit(Note(1)))])
    _queued(committer, 1)
    held.release.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert len(interrupted) == 1
    assert results == [10]


def test_a_waiter_that_gives_up_does_not_block_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held()
    committer = Committer(held)
    sleep = Ticket.sleep

    def give_up(ticket: Ticket) -> None:
        if ticket.write.number == 1:
            raise KeyboardInterrupt
        sleep(ticket)

    monkeypatch.setattr(Ticket, "sleep", give_up)
    results: list[int] = []
    threads = _threads([lambda: results.append(committer.submit(Note(0)))])
    assert held.entered.wait(TIMEOUT)
    with pytest.raises(KeyboardInterrupt):
        committer.submit(Note(1))
    threads += _threads([lambda: results.append(committer.submit(Note(2)))])
    _queued(committer, 2)
    held.release.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert results == [0, 20]
    assert held.groups == [[0], [2]]


def test_after_close_writes_are_still_settled() -> None:
    def refuse(tickets: list[Ticket]) -> None:
        raise ValueError(f"{len(tickets)} too late")

    committer = Committer(refuse)
    committer.close()
    with pytest.raises(ValueError, match="1 too late"):
        committer.submit(Note(1))

    async def main() -> None:
        with pytest.raises(ValueError, match="1 too late"):
            await asyncio.wait_for(committer.submit_async(Note(2)), TIMEOUT)

    asyncio.run(main())
