"""Faults of a server, tested through the verbs: the server dies, is full, or loses its data."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from redis.exceptions import ResponseError

import laurels
from laurels import config
from laurels.errors.index_server import IndexFull, IndexUnavailable
from laurels.stores.redis import retry, write_queues, writes

from .asking import ENDLESS, connected
from .servers import Server, until
from .test_faults import _busy
from .writing import BOARD, Writers, again, counted, debugging, hasty, opened, patient


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("--appendfsync", "always") as server:
        yield server


def test_no_write_is_refused_during_a_short_outage(server: Server) -> None:
    with patient(), opened(server.url) as lb:
        with Writers(lb) as writers:
            for _ in range(2):
                writers.wait_for_more()
                server.restart()
            writers.wait_for_more()
        assert not writers.refused
        writers.check()


@pytest.mark.parametrize("ids", [True, False])
def test_a_server_killed_during_writes_keeps_acknowledged_events(server: Server, ids: bool) -> None:
    with opened(server.url) as lb:
        with Writers(lb, ids=ids) as writers:
            writers.wait_for_more()
            with hasty():
                server.kill()
                until(lambda: writers.doubtful, "a writer gets an error")
            server.start()
            writers.wait_for_more()
        writers.check()
        if ids:
            assert counted(lb).keys() == set(writers.acknowledged)
        lb.check()
        server.restart()
        again(lb)
        writers.check()


def test_a_server_that_stays_down_is_unavailable(server: Server) -> None:
    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        server.kill()
        for call in (lambda: lb.submit(BOARD, "a", 1), lambda: lb.top(BOARD)):
            with pytest.raises(IndexUnavailable), hasty():
                call()
        server.start()
        again(lb)
        lb.submit(BOARD, "b", 1)
        there = counted(lb)
        assert (there["a"] in (1, 2), there["b"]) == (True, 1)


def test_writes_to_a_paused_server_count_once(server: Server) -> None:
    """The caller gets an error, although the paused server has received the write and its repeats.
    When the server resumes and carries them out, the event counts once."""
    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        server.pause()
        with pytest.raises(IndexUnavailable) as caught:
            lb.submit(BOARD, "a", 1)
        assert caught.value.may_have_applied
        assert "event ids" in caught.value.advice
        server.resume()
        again(lb)
        lb.submit(BOARD, "b", 1)
        assert counted(lb) == {"a": 2, "b": 1}


def test_a_write_succeeds_despite_a_short_pause(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt times out after two seconds, and the server resumes soon afterwards. A
    repeat then succeeds."""
    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        monkeypatch.setattr(retry, "REPEATS_SECONDS", 60.0)
        for module in (write_queues, writes):
            monkeypatch.setattr(module, "VERB_SECONDS", 60.0)
        server.pause()
        resumed = threading.Timer(2.2, server.resume)
        resumed.start()
        receipt = lb.submit(BOARD, "a", 1)
        resumed.join()
        assert (receipt.status, receipt.score) == ("applied", 2)
        assert counted(lb) == {"a": 2}


def test_a_full_server_refuses_whole_writes_and_answers_queries(server: Server) -> None:
    with opened(server.url) as lb:
        lb.submit_many(BOARD, [(f"m{i}", 1) for i in range(1_000)])
        before = counted(lb)
        used = int(server.info("memory")["used_memory"])
        server.call("CONFIG", "SET", "maxmemory", used + 300_000)
        refused: list[IndexFull] = []
        for batch in range(40):
            try:
                lb.submit_many(BOARD, [(f"x{batch}.{i}", 1) for i in range(500)])
                before |= {f"x{batch}.{i}": 1 for i in range(500)}
            except IndexFull as error:
                refused.append(error)
        assert {each.code for each in refused} == {"index_full"}
        assert not any(each.may_have_applied for each in refused)
        assert counted(lb) == before
        assert lb.top(BOARD, limit=3).total == len(before)
        lb.check()
        server.call("CONFIG", "SET", "maxmemory", "0")
        lb.submit(BOARD, "after", 1)
        assert counted(lb) == {**before, "after": 1}


def test_a_long_batch_that_is_interrupted_may_have_applied(server: Server) -> None:
    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        used = int(server.info("memory")["used_memory"])
        server.call("CONFIG", "SET", "maxmemory", used + 1_000_000)
        events = [(f"m{i}", 1, None, f"e{i}") for i in range(20_000)]
        with pytest.raises(IndexFull) as caught:
            lb.submit_many(BOARD, events)
        assert caught.value.may_have_applied
        assert 0 < lb.top(BOARD).total < 20_000
        server.call("CONFIG", "SET", "maxmemory", "0")
        assert lb.submit_many(BOARD, events).refused == 0
        assert counted(lb) == {"a": 1} | {f"m{i}": 1 for i in range(20_000)}


def test_a_busy_server_refuses_calls_until_its_script_is_ended(server: Server) -> None:
    server.call("CONFIG", "SET", "lua-time-limit", "20")

    async def endless() -> None:
        async with connected(server.url, 10_000) as other:
            with pytest.raises(IndexUnavailable):
                await other.script(ENDLESS, b"k", b"")

    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        busy = threading.Thread(target=asyncio.run, args=(endless(),))
        busy.start()
        until(lambda: _busy(server), "the server is busy")
        for call in (lambda: lb.submit(BOARD, "a", 1), lambda: lb.top(BOARD)):
            with pytest.raises(IndexUnavailable, match="busy with a script") as caught:
                call()
            assert not caught.value.may_have_applied
        server.call("SCRIPT", "KILL")
        busy.join(60)
        assert lb.submit(BOARD, "a", 1).score == 2


def test_calls_wait_for_a_loading_server_or_report_it_as_unavailable(server: Server) -> None:
    with opened(server.url) as lb:
        lb.submit(BOARD, "a", 1)
        with server.client.pipeline(transaction=False) as pipeline:
            for i in range(60 * 1_024):  # a loading server answers only once in 1,024 commands
                pipeline.set(f"filler{i}", "x")
            pipeline.execute()
        server.kill()
        server.start_loading_slowly(micros=100)  # loading takes at least six seconds
        with pytest.raises(IndexUnavailable) as caught:
            config.direct(server.url).close()
        assert not caught.value.may_have_applied
        # Redis before 7 refuses this setting and continues to load slowly
        with suppress(ResponseError):
            server.call("CONFIG", "SET", "key-load-delay", "0")
        while server.is_loading():
            with suppress(IndexUnavailable):
                lb.submit(BOARD, "a", 1, id="once")
        again(lb)
        lb.submit(BOARD, "a", 1, id="once")
        assert counted(lb) == {"a": 2}


def test_scripts_are_loaded_again_on_a_server_that_forgot_them(server: Server) -> None:
    with opened(server.url) as lb:
        with Writers(lb) as writers:
            for _ in range(10):
                writers.wait_for_more(20)
                server.call("SCRIPT", "FLUSH")
        assert not writers.refused
        writers.check()
        server.stop()
        server.start()
        again(lb)
        writers.check()
        lb.check()


def test_a_server_that_reloads_its_file_loses_no_event() -> None:
    with Server(*debugging()) as server, opened(server.url) as lb:
        lb.create(laurels.Board("r", windows=["all", "r=rolling:10s/1s"]))
        with Writers(lb, ids=True) as writers:
            for load in (("RELOAD",), ("LOADAOF",)):
                writers.wait_for_more()
                server.call("DEBUG", *load)
            writers.wait_for_more()
        writers.check()
        assert not writers.doubtful
        lb.check()


def test_event_loops_get_the_same_errors() -> None:
    async def check(server: Server) -> None:
        async with await config.direct_async(server.url) as lb:
            await lb.create(laurels.Board(BOARD))
            await lb.submit(BOARD, "a", 1)
            server.kill()
            calls = [lb.submit(BOARD, "a", 1) for _ in range(3)] + [lb.top(BOARD)]
            with hasty():
                errors = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in errors] == [IndexUnavailable] * 4
            await asyncio.to_thread(server.start)

    with Server("--appendfsync", "always") as server:
        asyncio.run(check(server))
