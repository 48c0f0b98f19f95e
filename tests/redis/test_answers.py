"""Several stores of one process use the same server. When one store is closed, the other stores
continue without delay.

If nobody read the answers of the other stores any more, their calls would fail with
IndexUnavailable when their time limit is over. So these tests need not measure time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any, TypeVar

import pytest

import laurels
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.connection import answers
from laurels.stores.redis.connection.loop import LoopThread

from .servers import Server
from .writing import patient

T = TypeVar("T")


async def opened(url: str) -> laurels.AsyncLeaderboards:
    return await laurels.open_async(url)


class Sync:
    """A synchronous store with an event loop of its own."""

    def __init__(self, url: str) -> None:
        self._lb = laurels.open(url)

    def submit(self) -> None:
        self._lb.submit("b", "ann", 1)

    def top(self) -> int:
        return len(self._lb.top("b").entries)

    def close(self) -> None:
        self._lb.close()


class Async:
    """An asynchronous store on the event loop of a thread. `close` also ends the thread if it was
    started here."""

    def __init__(self, url: str, loop: LoopThread | None = None) -> None:
        self._loop = loop or LoopThread()
        self._own = loop is None
        self._lb = self._run(opened(url))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def submit(self) -> None:
        self._run(self._lb.submit("b", "ann", 1))

    def top(self) -> int:
        return len(self._run(self._lb.top("b")).entries)

    def close(self) -> None:
        self._run(self._lb.close())
        if self._own:
            self._loop.close()


@pytest.fixture
def board(server: Server) -> Iterator[None]:
    """The board `b`. Calls take as long as they need on a busy machine, up to a limit of a
    minute."""
    server.call("FLUSHALL")
    with patient():
        with laurels.open(server.url) as lb:
            lb.create(laurels.Board("b"))
        yield


def test_the_client_library_has_the_internals_that_laurels_uses() -> None:
    assert answers.can_hand_over()


@pytest.mark.usefixtures("board")
@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("kinds", ["sync", "async", "mixed", "shared"])
def test_stores_continue_after_any_other_is_closed(
    server: Server, kinds: str, order: tuple[int, ...]
) -> None:
    shared = LoopThread()
    makers: dict[str, list[Any]] = {
        "sync": [Sync, Sync, Sync],
        "async": [Async, Async, Async],
        "mixed": [Async, Sync, Async],
        "shared": [lambda url: Async(url, shared), lambda url: Async(url, shared), Sync],
    }
    stores = [make(server.url) for make in makers[kinds]]
    left = dict(enumerate(stores))
    for each in order:
        left.pop(each).close()
        for store in left.values():
            store.submit()
            assert store.top() == 1
    shared.close()


@pytest.mark.usefixtures("board")
def test_calls_in_progress_are_answered_while_another_store_closes(
    server: Server,
) -> None:
    failures: list[BaseException] = []
    ended = threading.Event()
    first: list[Any] = [Async(server.url)]
    lasting: list[Any] = [Sync(server.url), Async(server.url)]

    def work(store: Any) -> None:
        try:
            while not ended.is_set():
                store.submit()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(store,)) for store in lasting * 2]
    for thread in threads:
        thread.start()
    for _ in range(20):
        first.append(Sync(server.url))
        first.pop(0).close()
    ended.set()
    for thread in threads:
        thread.join(60)
    for store in [*first, *lasting]:
        store.close()
    assert not failures


@pytest.mark.usefixtures("board")
def test_a_closed_loop_with_an_open_store_blocks_no_other_store(
    server: Server,
) -> None:
    abandoned = asyncio.run(opened(server.url))
    store = Sync(server.url)
    store.submit()
    store.close()
    del abandoned


@pytest.mark.usefixtures("board")
def test_an_idle_loop_blocks_no_other_store_and_continues(server: Server) -> None:
    loop = asyncio.new_event_loop()
    resting = loop.run_until_complete(opened(server.url))
    store = Sync(server.url)
    for _ in range(3):
        store.submit()
        assert loop.run_until_complete(resting.submit("b", "bob", 1)).status == "applied"
    store.close()
    assert loop.run_until_complete(resting.submit("b", "bob", 1)).score == 4
    loop.run_until_complete(resting.close())
    loop.close()


VERBS: dict[str, Callable[[laurels.Leaderboards], object]] = {
    "top": lambda lb: lb.top("b"),
    "boards": lambda lb: lb.boards(),
    "stats": lambda lb: lb.stats(),
    "board stats": lambda lb: lb.stats("b"),
    "check": lambda lb: lb.check(),
    "position": lambda lb: lb.position("b", "history"),
}


def test_a_failed_query_never_may_have_applied() -> None:
    with Server() as server, laurels.open(server.url) as lb, ThreadPoolExecutor(len(VERBS)) as pool:
        lb.create(laurels.Board("b", windows=["all", "r=rolling:2h/1h"]))
        lb.submit("b", "ann", 1)
        server.pause()
        try:
            refused = {verb: pool.submit(ask, lb) for verb, ask in VERBS.items()}
            errors = {verb: each.exception() for verb, each in refused.items()}
        finally:
            server.resume()
        for verb, error in errors.items():
            assert isinstance(error, IndexUnavailable), verb
            assert not error.may_have_applied, verb
            assert "may have carried out" not in str(error), verb
