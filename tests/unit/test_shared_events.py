"""Single events of tasks that wait at the same time become one submission.

Each task gets the result that its event would have in a batch of these events. No event changes the
result of another event's task.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.internals import local

import laurels
from laurels.api.aio import AsyncLeaderboards
from laurels.core.receipt import Receipt
from laurels.errors import Closed, LaurelsError
from laurels.model.event import EventReader
from laurels.stores.intake.accept import is_plain
from laurels.stores.intake.commit import Group, Inbox
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.tickets import MAX_WRITES, SharedEvent, SharedTicket, Ticket

# Each event is also submitted alone, and laurels warns if it is refused.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

NOW_MS = 1_700_000_000_000
BOARD = laurels.Board("b", windows=["day", "all"], columns=[laurels.Column("n", max=1_000)])
Events = list[tuple[Any, ...]]


@asynccontextmanager
async def _opened(
    clock: laurels.Clock | str | None = None, board: laurels.Board = BOARD
) -> AsyncIterator[AsyncLeaderboards]:
    chosen = clock or laurels.ManualClock(NOW_MS)
    async with await laurels.open_async("memory:", clock=chosen) as boards:
        assert isinstance(boards, AsyncLeaderboards)
        await boards.create(board)
        yield boards


async def _together(
    boards: AsyncLeaderboards, verbs: Sequence[Coroutine[Any, Any, Any]]
) -> list[Any]:
    """Call several verbs while another commit is blocked. Return their results or errors."""
    inbox = local(boards)._committer._inbox
    with local(boards).reading():
        first = asyncio.ensure_future(boards.submit("b", "first", 1))
        while not inbox.waiting:
            await asyncio.sleep(0)
        while inbox.waiting:  # wait until the commit has taken the ticket from the inbox
            await asyncio.sleep(0)
        tasks = [asyncio.ensure_future(verb) for verb in verbs]
        while inbox.waiting < len(verbs):
            await asyncio.sleep(0)
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def _comparable(answer: object) -> object:
    """Return the fields of a receipt except its offset, or the type and the text of an error."""
    if isinstance(answer, Receipt):
        return answer.member, answer.status, answer.score, answer.previous_rank, answer.rank
    assert isinstance(answer, LaurelsError)
    return type(answer), str(answer)


EVENTS = st.tuples(
    st.sampled_from(["ada", "bo", "cy", ""]),
    st.sampled_from([1, 5, 999, 1_001, "x", "2.5"]),
    st.sampled_from([None, None, NOW_MS, NOW_MS - 9 * 86_400_000, NOW_MS + 3_600_000]),
    st.sampled_from([None, None, "i", "j"]),
)


@given(st.lists(EVENTS, min_size=1, max_size=12))
def test_concurrent_events_get_the_receipts_of_a_batch(events: Events) -> None:
    async def main() -> tuple[list[Any], list[Any], list[Any]]:
        async with _opened() as one, _opened() as other:
            verbs = [one.submit("b", m, v, at=at, id=id, window="all") for m, v, at, id in events]
            answers = await _together(one, verbs)
            await other.submit("b", "first", 1)
            batch = await other.submit_many("b", events, window="all", ranks=True)
            expected = [batch.error(i) or receipt for i, receipt in enumerate(batch)]
            tops = [(await each.top("b", window="all")).entries for each in (one, other)]
            assert tops[0] == tops[1]
            return answers, expected, tops

    answers, expected, _ = asyncio.run(main())
    assert list(map(_comparable, answers)) == list(map(_comparable, expected))


def test_adjacent_events_with_equal_options_share_one_submission() -> None:
    async def main() -> list[int]:
        async with _opened() as boards:
            sizes: list[int] = []
            inbox = local(boards)._committer._inbox
            take = inbox.take

            def noted() -> Group:
                group = take()
                sizes.extend(ticket.writers for ticket in group.tickets)
                return group

            inbox.take = noted  # type: ignore[method-assign]
            verbs = [boards.submit("b", f"m{i}", 1) for i in range(5)]
            verbs += [boards.submit("b", f"m{i}", 1, window="all") for i in range(3)]
            verbs += [boards.submit("b", f"m{i}", 1) for i in range(2)]
            receipts = await _together(boards, verbs)
            assert [receipt.window for receipt in receipts] == ["day"] * 5 + ["all"] * 3 + [
                "day"
            ] * 2
            return sizes

    assert asyncio.run(main())[-3:] == [5, 3, 2]


def test_events_are_not_reordered_around_another_write() -> None:
    async def main() -> tuple[list[Any], int]:
        async with _opened() as boards:
            answers = await _together(
                boards,
                [
                    boards.submit("b", "ada", 5),
                    boards.remove("b", "ada"),
                    boards.submit("b", "ada", 2),
                ],
            )
            standing = await boards.standing("b", "ada")
            assert standing is not None
            return answers, int(standing.score)  # type: ignore[arg-type]

    answers, score = asyncio.run(main())
    assert answers[1] is True
    assert score == 2


def test_a_cancelled_submit_still_counts_and_affects_no_other() -> None:
    async def main() -> tuple[list[Any], int]:
        async with _opened() as boards:
            given_up = asyncio.ensure_future(boards.submit("b", "bo", 3))

            async def give_up() -> None:
                await asyncio.sleep(0)
                given_up.cancel()

            answers = await _together(
                boards, [boards.submit("b", "ada", 5), boards.submit("b", "cy", 1)]
            )
            await asyncio.gather(give_up(), given_up, return_exceptions=True)
            return answers, await boards.count("b")

    answers, count = asyncio.run(main())
    assert [answer.status for answer in answers] == ["applied", "applied"]
    assert count == 4


def _raising_for_evil(real: Any) -> Any:
    def method(self: Any, argument: Any, *rest: Any) -> Any:
        read = getattr(self, "members", None)
        members = [event[0] for event in argument] if read is None else read()
        if "evil" in members or b"evil" in members:
            raise ZeroDivisionError("evil")
        return real(self, argument, *rest)

    return method


@pytest.mark.parametrize("stage", [(EventReader, "gather"), (Submission, "records")])
def test_an_unexpected_error_fails_only_its_own_event(
    monkeypatch: pytest.MonkeyPatch, stage: tuple[type, str]
) -> None:
    where, name = stage
    monkeypatch.setattr(where, name, _raising_for_evil(getattr(where, name)))

    async def main() -> list[Any]:
        async with _opened() as boards:
            members = ("ada", "evil", "bo")
            answers = await _together(boards, [boards.submit("b", m, 1) for m in members])
            assert await boards.count("b") == 3
            return answers

    ada, evil, bo = asyncio.run(main())
    assert (ada.rank, ada.status, bo.status) == (1, "applied", "applied")
    assert isinstance(evil, ZeroDivisionError)


def test_every_caller_gets_closed_when_the_store_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Submission.fold

    def fold(self: Submission, *piece: Any) -> None:
        if self.weight > 1:
            raise MemoryError
        real(self, *piece)

    monkeypatch.setattr(Submission, "fold", fold)

    async def main() -> list[Any]:
        async with _opened() as boards:
            return await _together(boards, [boards.submit("b", m, 1) for m in ("ada", "bo")])

    for answer in asyncio.run(main()):
        assert isinstance(answer, Closed)


def test_in_event_time_each_event_is_accepted_at_its_own_time() -> None:
    async def main() -> tuple[list[Any], list[Any]]:
        async with _opened("event") as one, _opened("event") as other:
            ats = [NOW_MS, NOW_MS + 86_400_000, NOW_MS + 1]
            first = [boards.submit("b", "ada", 1, at=NOW_MS - 1) for boards in (one, other)]
            await asyncio.gather(*first)
            answers = await asyncio.gather(*[one.submit("b", "ada", 1, at=at) for at in ats])
            expected = [await other.submit("b", "ada", 1, at=at) for at in ats]
            return list(answers), expected

    answers, expected = asyncio.run(main())
    assert list(map(_comparable, answers)) == list(map(_comparable, expected))
    assert [answer.period for answer in answers] == [answer.period for answer in expected]


def _entry(event: object) -> SharedEvent:
    return SharedEvent(event, asyncio.get_running_loop().create_future())


def test_a_shared_ticket_holds_at_most_one_group() -> None:
    async def main() -> None:
        inbox = Inbox()
        for i in range(MAX_WRITES + 1):
            entry = _entry(i)
            if not inbox.join("kind", entry):
                inbox.put(SharedTicket("kind", list, [entry]))
        assert inbox.waiting == MAX_WRITES + 1
        for size in (MAX_WRITES, 1):
            group = inbox.take()
            assert [ticket.writers for ticket in group.tickets] == [size]
            assert not group.is_last
        inbox.close()
        with pytest.raises(Closed):
            inbox.join("kind", _entry(0))

    asyncio.run(main())


class _Taking(deque[SharedEvent]):
    """The list of a ticket's events, with which the ticket is sealed in the middle of `append`, as
    by another thread: with `drained` after the event is in the list, otherwise before that."""

    def __init__(self, ticket: SharedTicket, drained: bool) -> None:
        super().__init__()
        self._ticket, self._drained = ticket, drained

    def append(self, entry: SharedEvent) -> None:
        if self._drained:
            super().append(entry)
        self._ticket.seal()
        if not self._drained:
            super().append(entry)


@pytest.mark.parametrize("drained", [False, True])
def test_joining_a_ticket_that_is_being_taken_succeeds_or_reports_failure(drained: bool) -> None:
    async def main() -> None:
        made: list[Any] = []
        ticket = SharedTicket("kind", made.extend, [_entry(1)])
        ticket._joining = _Taking(ticket, drained)
        assert ticket.add("kind", _entry(2)) is drained
        assert not ticket.add("kind", _entry(3)), "no event can join a sealed ticket"
        ticket.build_write()
        assert made == ([1, 2] if drained else [1])

    asyncio.run(main())


def test_later_changes_to_arguments_do_not_change_the_event() -> None:
    board = laurels.Board("b", windows=["all"], scopes=[[], ["room"]])

    async def main() -> tuple[list[Any], Any]:
        async with _opened(board=board) as boards:
            labels, scope = {"room": "1"}, ["room"]

            async def submit(member: str) -> Receipt:
                return await boards.submit("b", member, 1, labels=labels, scope=scope)

            async def change() -> Receipt:
                labels["room"] = "2"
                scope.clear()
                return await boards.submit("b", "cy", 1, labels={"room": "1"}, scope=["room"])

            answers = await _together(boards, [submit("ada"), submit("bo"), change()])
            return answers, (await boards.top("b", labels={"room": "1"})).entries

    answers, room = asyncio.run(main())
    assert [answer.labels for answer in answers] == [{"room": "1"}] * 3
    assert [entry.member for entry in room] == ["ada", "bo", "cy"]


class _Own(int):
    """A subclass of int, whose methods a user could have overridden with code of his own."""


@pytest.mark.parametrize(
    ("event", "plain"),
    [
        (("ada", 1), True),
        (("ada", (1, "2.5"), 5, "id", {"room": "1"}), True),
        (("ada", _Own(1)), False),
        (("ada", [1, 2]), False),
        (("ada", (1, _Own(2))), False),
        (("ada", 1, None, None, {"room": _Own(1)}), False),
        ({"member": "ada", "value": 1}, False),
    ],
)
def test_only_immutable_events_are_grouped(event: object, plain: bool) -> None:
    assert is_plain(event) is plain


def test_event_loops_do_not_share_tickets() -> None:
    """A commit must not settle the futures of another event loop."""
    boards = laurels.open("memory:", clock=laurels.ManualClock(NOW_MS))
    boards.create(BOARD)
    committer = local(boards)._committer
    kinds: list[object] = []

    async def submit() -> None:
        service = local(boards)
        shared = service.submit_shared_async("b", ("ada", 1), None, None)
        assert shared is not None
        receipts, place = await shared
        assert receipts[place].status == "applied"

    put = committer._inbox.put

    def noted(ticket: Ticket) -> None:
        assert isinstance(ticket, SharedTicket)
        kinds.append(ticket._kind)
        put(ticket)

    committer._inbox.put = noted  # type: ignore[method-assign]
    asyncio.run(submit())
    asyncio.run(submit())
    assert len(kinds) == 2
    assert kinds[0] != kinds[1]
    boards.close()
