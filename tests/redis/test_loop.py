"""An event loop in a thread serves any number of callers. It continues even if callers cause
errors."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from laurels.errors import Closed, Forked
from laurels.stores.intake import forks
from laurels.stores.redis.connection.loop import LoopThread

WITHIN_SECONDS = 60


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def forever(begun: threading.Event, cancelled: threading.Event) -> None:
    begun.set()
    try:
        await asyncio.wait_for(asyncio.Event().wait(), WITHIN_SECONDS)
    finally:
        cancelled.set()


def test_callers_get_answers_and_errors(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("of the coroutine")

    assert loop.run(answer(7)) == 7
    with pytest.raises(LookupError, match="of the coroutine"):
        loop.run(fail())
    assert loop.run(answer(8)) == 8


def test_many_threads_are_served_at_once(loop: LoopThread) -> None:
    met = asyncio.Barrier(20)

    async def meet(number: int) -> int:
        await met.wait()
        return number

    with ThreadPoolExecutor(20) as threads:
        calls = [threads.submit(loop.run, meet(number)) for number in range(20)]
        assert [call.result(WITHIN_SECONDS) for call in calls] == list(range(20))


def test_an_interrupted_call_cancels_its_coroutine(loop: LoopThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def interrupt() -> None:
        begun.wait(WITHIN_SECONDS)
        signal.pthread_kill(caller, signal.SIGINT)

    caller = threading.get_ident()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(forever(begun, cancelled))
    finally:
        other.join(WITHIN_SECONDS)
        signal.signal(signal.SIGINT, handler)
    assert cancelled.wait(WITHIN_SECONDS)
    assert loop.run(answer(7)) == 7


def test_waiting_in_the_loop_itself_is_refused(loop: LoopThread) -> None:
    async def wait_for_itself() -> int:
        return loop.run(answer(7))

    async def close_itself() -> None:
        loop.close()

    for coroutine in (wait_for_itself(), close_itself()):
        with pytest.raises(RuntimeError, match=r"own thread|must await"):
            loop.run(coroutine)
    assert loop.run(answer(8)) == 8


def test_closing_ends_calls_in_progress(loop: LoopThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(loop.run, forever(begun, cancelled))
        assert begun.wait(WITHIN_SECONDS)
        loop.close()
        with pytest.raises(Closed):
            call.result(WITHIN_SECONDS)
    assert cancelled.is_set()
    assert loop.loop.is_closed()
    with pytest.raises(Closed):
        loop.run(answer(7))
    loop.close()


def test_a_fork_is_noticed(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as child:
        child.setattr(forks, "count", forks.count + 1)
        with pytest.raises(Forked):
            loop.run(answer(7))
        loop.close()  # in the child, this does not affect the parent's loop
    assert loop.run(answer(7)) == 7
