"""Repeats of a call: all attempts have one call id, they end in time, and the error says whether
the call may have been applied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from laurels.errors import Closed
from laurels.errors.index_server import IndexFull, IndexUnavailable
from laurels.stores.redis.outdated import PlanExpired
from laurels.stores.redis.remote import CallId
from laurels.stores.redis.retry import REPEATS_SECONDS, Attempts, Calls, after

CALL_SECONDS = 2.0


class Index:
    """An index that returns or raises the prepared answers one after another, and records the ids
    of calls. Only its calls and pauses take time."""

    def __init__(self, *answers: object, takes: float = 0.0) -> None:
        self.answers = list(answers)
        self.received: list[CallId] = []
        self.takes = takes
        self.now = 0.0

    async def apply(self, *, call: CallId) -> str:
        self.received.append(call)
        self.now += self.takes
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)

    async def rest(self, seconds: float) -> None:
        self.now += seconds


def doubt() -> IndexUnavailable:
    return IndexUnavailable("cut", may_have_applied=True)


def attempted(
    index: Index, monkeypatch: pytest.MonkeyPatch, attempts: Attempts | None = None
) -> str:
    async def check() -> str:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "time", lambda: index.now)
            patched.setattr(asyncio, "sleep", index.rest)
            return await one.answer(index.apply)

    one = attempts or Calls("t").next(1)
    return asyncio.run(check())


def test_an_unanswered_call_is_repeated_with_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = Index(doubt(), doubt(), "done")
    assert attempted(index, monkeypatch) == "done"
    assert index.received == [CallId("t", 1)] * 3


@pytest.mark.parametrize("error", [IndexUnavailable("busy"), IndexFull("full"), Closed("closed")])
def test_a_certain_failure_is_raised_without_retry(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    index = Index(error)
    with pytest.raises(type(error)):
        attempted(index, monkeypatch)
    assert len(index.received) == 1


@pytest.mark.parametrize("takes", [0.0, 0.3, CALL_SECONDS])
def test_a_call_is_repeated_at_least_once_and_not_for_too_long(
    monkeypatch: pytest.MonkeyPatch, takes: float
) -> None:
    index = Index(doubt(), takes=takes)
    with pytest.raises(IndexUnavailable) as caught:
        attempted(index, monkeypatch)
    assert caught.value.may_have_applied
    assert 2 <= len(index.received) < 20
    assert index.now <= REPEATS_SECONDS + takes


def test_may_have_applied_survives_a_later_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(doubt(), IndexUnavailable("not reached"))
    attempts = Calls("t").next(1)
    with pytest.raises(IndexUnavailable) as caught, attempts.reporting():
        attempted(index, monkeypatch, attempts)
    assert caught.value.may_have_applied
    assert caught.value.__cause__ is None, "the error must not be chained to itself"
    assert len(index.received) > 2


def test_may_have_applied_survives_a_new_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is planned again keeps its call id. If it then fails for another reason, the
    error still says that the events may have been counted."""
    attempts = Calls("t").next(1)
    index = Index(doubt(), PlanExpired(5), "done")
    with pytest.raises(PlanExpired):
        attempted(index, monkeypatch, attempts)
    assert attempted(index, monkeypatch, attempts) == "done"
    assert set(index.received) == {CallId("t", 1)}
    with pytest.raises(IndexUnavailable) as caught, attempts.reporting():
        raise IndexUnavailable("the definitions cannot be read")
    assert caught.value.may_have_applied


def test_may_have_applied_is_false_if_nothing_was_counted() -> None:
    call = Calls("t").next(1)
    with pytest.raises(IndexUnavailable) as caught, call.reporting(), after(counted=False):
        raise IndexUnavailable("no")
    assert (caught.value.may_have_applied, caught.value.what) == (False, "no")


def test_an_error_after_a_part_was_counted_reports_that() -> None:
    with (
        pytest.raises(IndexFull, match="a part of the batch was counted") as caught,
        after(counted=True),
    ):
        raise IndexFull("full")
    assert caught.value.may_have_applied
    assert caught.value.__cause__ is None, "the error must not be chained to itself"


def test_calls_are_numbered_board_by_board() -> None:
    async def ids(attempts: list[Attempts]) -> list[CallId]:
        make: Callable[..., Awaitable[CallId]] = answered
        return [await each.answer(make) for each in attempts]

    async def answered(*, call: CallId) -> CallId:
        return call

    calls = Calls("t")
    ids_sent = asyncio.run(ids([calls.next(board) for board in (1, 2, 1, 1)]))
    assert [(call.token, call.number) for call in ids_sent] == [
        ("t", 1),
        ("t", 1),
        ("t", 2),
        ("t", 3),
    ]
