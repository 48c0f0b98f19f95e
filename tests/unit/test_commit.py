"""Group commit: only one commit runs at a time, every ticket is committed, and a commit takes all
waiting tickets.

After a group of several writers, the next commit waits for as many writers, but not longer than
twice the time that the group took. Background writes wait for other writes.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from laurels.errors import Closed
from laurels.stores.intake.commit import MAX_EVENTS, Committer, Inbox
from laurels.stores.intake.tickets import MAX_WRITES, Ticket

TIMEOUT = 60
HOUR = 3_600.0


class Note:
    """A write whose content is a number."""

    def __init__(self, number: int, weight: int = 1, exclusive: bool = False) -> None:
        self.number = number
        self.weight = weight
        self.exclusive = exclusive


class Desk:
    """A committer for tests. Its commits multiply the numbers by ten, and its first commit waits
    for `release`. Its clock moves on by `seconds` at each reading."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.groups: list[list[int]] = []
        self.entered = threading.Event()
        self.release = threading.Event()
        self.running = 0
        self.weights: list[int] = []
        self.committer = Committer(self.commit, self.after_commit, count(0.0, seconds).__next__)

    def commit(self, tickets: list[Ticket]) -> None:
        self.running += 1
        assert self.running == 1, "two commits run at once"
        self.groups.append([ticket.write.number for ticket in tickets])
        if len(self.groups) == 1:
            self.entered.set()
            assert self.release.wait(TIMEOUT)
        self.running -= 1
        if any(ticket.write.number < 0 for ticket in tickets):
            raise ValueError("no")
        for ticket in tickets:
            ticket.succeed(ticket.write.number * 10)

    def after_commit(self, weight: int) -> None:
        self.weights.append(weight)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.release.set()
    made.committer.close()


def _until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(TIMEOUT * 2_000):
        if is_so():
            return
        pause.wait(0.0005)
    pytest.fail("the condition was never fulfilled")


def _queued(desk: Desk, size: int) -> None:
    """Wait until that many tickets are in the inbox."""
    _until(lambda: desk.committer._inbox.waiting >= size)


def _start(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_writes_that_arrive_during_a_commit_share_the_next_one(desk: Desk) -> None:
    results: dict[int, int] = {}

    def write(number: int) -> None:
        results[number] = desk.committer.submit(Note(number))

    threads = [_start(partial(write, 0))]
    assert desk.entered.wait(TIMEOUT)
    for number in range(1, 9):
        threads.append(_start(partial(write, number)))
        _queued(desk, number)
    desk.release.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert desk.groups == [[0], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert results == {number: number * 10 for number in range(9)}


def test_a_group_is_bounded_and_a_lone_write_stays_alone(desk: Desk) -> None:
    notes = [
        Note(1, MAX_EVENTS - 1),
        Note(2),
        Note(3),
        Note(4, exclusive=True),
        Note(5),
        *(Note(6 + i) for i in range(MAX_WRITES)),
    ]

    async def main() -> None:
        first = desk.committer.submit_async(Note(0))
        assert desk.entered.wait(TIMEOUT)
        futures = [desk.committer.submit_async(note) for note in notes]
        desk.release.set()
        assert await first == 0
        assert await asyncio.gather(*futures) == [note.number * 10 for note in notes]

    asyncio.run(main())
    assert desk.groups[:4] == [[0], [1, 2], [3], [4]]
    assert [len(group) for group in desk.groups[4:]] == [MAX_WRITES, 1]


def _in_threads(desk: Desk, numbers: range) -> list[threading.Thread]:
    """Write each number in a thread of its own. Each thread starts when the ticket of the previous
    number is in the queue, so the tickets are queued in order."""
    threads = []
    for number in numbers:
        there = desk.committer._inbox.waiting
        threads.append(_start(partial(desk.committer.submit, Note(number))))
        _queued(desk, there + 1)
    return threads


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Return a desk whose commits take an hour of its clock."""
    monkeypatch.setattr("laurels.stores.intake.commit.MAX_WAIT_SECONDS", HOUR)
    made = Desk(HOUR)
    yield made
    made.release.set()
    made.committer.close()


def _after_three(desk: Desk) -> None:
    first = _start(partial(desk.committer.submit, Note(0)))
    assert desk.entered.wait(TIMEOUT)
    threads = _in_threads(desk, range(1, 4))
    desk.release.set()
    for thread in (first, *threads):
        thread.join(TIMEOUT)
    assert desk.groups == [[0], [1, 2, 3]]


def test_a_group_waits_for_as_many_writes_as_the_last_one_had(slow: Desk) -> None:
    _after_three(slow)
    threads = _in_threads(slow, range(4, 6))
    assert len(slow.groups) == 2, "the commit did not wait for the third ticket"
    threads.append(_start(partial(slow.committer.submit, Note(6))))
    for thread in threads:
        thread.join(TIMEOUT)
    assert slow.groups[2:] == [[4, 5, 6]]


def test_a_group_waits_no_longer_than_the_last_one_took(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.intake.commit.MAX_WAIT_SECONDS", HOUR)
    _after_three(desk)
    alone = _start(partial(desk.committer.submit, Note(4)))
    alone.join(TIMEOUT)
    assert desk.groups[2:] == [[4]]


def test_close_ends_the_wait_for_more_writes(slow: Desk) -> None:
    _after_three(slow)
    threads = _in_threads(slow, range(4, 6))
    threads.append(_start(slow.committer.close))
    for thread in threads:
        thread.join(TIMEOUT)
    assert slow.groups[2:] == [[4, 5]]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, slow: Desk) -> Desk:
    """Return a desk whose background writes wait for an hour, and whose commits take an hour of its
    clock."""
    monkeypatch.setattr("laurels.stores.intake.commit.COMPANY_SECONDS", HOUR)
    slow.release.set()
    return slow


def _in_background(desk: Desk, number: int) -> threading.Thread:
    """Submit a background write, and return once it is in the inbox."""
    thread = _start(partial(desk.committer.submit, Note(number), background=True))
    _queued(desk, 1)
    return thread


def test_a_background_write_is_committed_with_the_next_write(patient: Desk) -> None:
    background = _in_background(patient, 1)
    assert patient.committer.submit(Note(2)) == 20
    background.join(TIMEOUT)
    assert patient.groups == [[1, 2]]


def test_nobody_waits_for_the_writer_of_a_background_write(patient: Desk) -> None:
    _in_background(patient, 1)
    patient.committer.submit(Note(2))
    alone = _start(partial(patient.committer.submit, Note(3)))
    alone.join(TIMEOUT)
    assert patient.groups == [[1, 2], [3]]


def test_a_background_write_without_company_is_committed_alone(
    patient: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.intake.commit.COMPANY_SECONDS", 0.001)
    assert patient.committer.submit(Note(1), background=True) == 10


def test_close_commits_a_background_write_that_waits(patient: Desk) -> None:
    background = _in_background(patient, 1)
    patient.committer.close()
    background.join(TIMEOUT)
    assert patient.groups == [[1]]


def test_threads_and_tasks_share_one_queue(desk: Desk) -> None:
    desk.release.set()
    results: list[int] = []

    def write(start: int) -> None:
        results.extend(desk.committer.submit(Note(start + i)) for i in range(200))

    async def main() -> list[int]:
        return [await desk.committer.submit_async(Note(9_000 + i)) for i in range(200)]

    threads = [_start(partial(write, start)) for start in (0, 1_000, 2_000)]
    awaited = asyncio.run(main())
    for thread in threads:
        thread.join(TIMEOUT)
    assert awaited == [10 * (9_000 + i) for i in range(200)]
    assert sorted(results) == sorted((s + i) * 10 for s in (0, 1_000, 2_000) for i in range(200))
    assert sum(map(len, desk.groups)) == 800


def test_a_failed_commit_fails_only_its_own_writes(desk: Desk) -> None:
    desk.release.set()
    with pytest.raises(ValueError, match="no"):
        desk.committer.submit(Note(-1))
    assert desk.committer.submit(Note(2)) == 20


def test_close_commits_queued_writes_and_refuses_later_ones(desk: Desk) -> None:
    results: list[int] = []
    threads = [_start(lambda: results.append(desk.committer.submit(Note(0))))]
    assert desk.entered.wait(TIMEOUT)
    threads.append(_start(lambda: results.append(desk.committer.submit(Note(1)))))
    _queued(desk, 1)
    threads.append(_start(desk.committer.close))
    _until(lambda: desk.committer._inbox._closed)
    with pytest.raises(Closed):
        desk.committer.submit(Note(2))
    desk.release.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(results) == [0, 10]

    async def main() -> None:
        with pytest.raises(Closed):
            desk.committer.submit_async(Note(3))

    asyncio.run(main())


def test_the_write_of_a_caller_that_gives_up_is_committed_and_blocks_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Ticket.result

    def give_up(ticket: Ticket) -> object:
        if ticket.write.number == 1:
            raise KeyboardInterrupt
        return result(ticket)

    monkeypatch.setattr(Ticket, "result", give_up)
    desk.release.set()
    with pytest.raises(KeyboardInterrupt):
        desk.committer.submit(Note(1))
    assert desk.committer.submit(Note(2)) == 20
    assert sorted(number for group in desk.groups for number in group) == [1, 2]


@pytest.mark.parametrize("close", [False, True])
def test_a_signal_handler_may_write_and_close_in_the_middle_of_a_write(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, close: bool
) -> None:
    """The signal handler runs in the writing thread, at a moment when the ticket of the interrupted
    write is not counted yet."""
    desk.release.set()
    inbox = desk.committer._inbox
    count_one = inbox._count_one
    answers: list[object] = []

    def interrupted() -> None:
        monkeypatch.setattr(inbox, "_count_one", count_one)
        answers.append(desk.committer.submit(Note(2)))
        if close:
            desk.committer.close()
        count_one()

    monkeypatch.setattr(inbox, "_count_one", interrupted)
    thread = _start(lambda: answers.append(desk.committer.submit(Note(1))))
    thread.join(TIMEOUT)
    assert answers == [20, 10]


def test_a_write_that_was_interrupted_before_it_was_counted_is_committed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.release.set()

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(desk.committer._inbox, "_count_one", interrupt)
    with pytest.raises(KeyboardInterrupt):
        desk.committer.submit(Note(1))
    _until(lambda: desk.groups == [[1]])


def test_a_backlog_of_exclusive_writes_is_committed_one_by_one_without_a_wait() -> None:
    inbox = Inbox()
    for number in range(3):
        inbox.put(Ticket(Note(number, exclusive=True)))
    inbox.close()
    taken = [inbox.take() for _ in range(4)]
    numbers = [[ticket.write.number for ticket in group.tickets] for group in taken]
    assert numbers == [[0], [1], [2], []]
    assert [group.is_last for group in taken] == [False, False, False, True]


def test_the_thread_ends_with_its_owner() -> None:
    desk = Desk()
    thread = desk.committer._thread
    del desk
    thread.join(TIMEOUT)
    assert not thread.is_alive()
