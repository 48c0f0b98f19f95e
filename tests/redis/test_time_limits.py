"""The time that a verb may take, and the error if only a part of a batch was counted."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from math import inf
from typing import Any

import pytest

import laurels
from laurels.errors import PartlyCounted
from laurels.errors.index_server import IndexFull, IndexUnavailable
from laurels.stores.redis.connection import deadline
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.connection.deadline import (
    UPKEEP_SECONDS,
    VERB_SECONDS,
    ends_in,
    seconds_left,
)

from .servers import Server

SHARDS = 3
pytestmark = pytest.mark.usefixtures("emptied")


class Faults:
    """An index in which the calls on some keys raise an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: set[bytes] = set()
        self.error: BaseException = IndexUnavailable("silent", may_have_applied=True)
        self._script = Connection.script
        monkeypatch.setattr(Connection, "script", self._faulty())

    def _faulty(self) -> Any:
        original = self._script

        async def script(connection: Connection, script: Any, key: bytes, argument: bytes) -> Any:
            if key in self.keys and script.name == "count":
                raise self.error
            return await original(connection, script, key, argument)

        return script


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.mark.parametrize(
    "error",
    [
        IndexUnavailable("silent", may_have_applied=True),
        IndexUnavailable("not reached"),
        IndexFull("its memory is full"),
    ],
    ids=["silent", "not reached", "full"],
)
def test_a_batch_that_counted_in_some_shards_is_partly_counted(
    server: Server, faults: Faults, error: IndexUnavailable
) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", shards=SHARDS))
        faults.keys, faults.error = {b"laurels:{1.1}:m"}, error
        members = [f"m{i}" for i in range(30)]
        events = [(member, 1, None, f"id-{member}") for member in members]
        lost = [member for member in members if zlib.crc32(member.encode()) % SHARDS == 1]
        with pytest.raises(PartlyCounted, match=f"{30 - len(lost)} of 30 events were counted"):
            lb.submit_many("b", events)
        assert {entry.member for entry in lb.top("b", limit=50).entries} == {*members} - {*lost}
        faults.keys = set()
        lb.submit_many("b", events)
        assert {entry.score for entry in lb.top("b", limit=50).entries} == {1}


def test_one_event_is_not_counted_in_part(server: Server, faults: Faults) -> None:
    """Events of many callers are sent together. Each caller gets only the result of its own
    event."""

    async def check() -> None:
        async with laurels.open_async(server.url) as lb:
            await lb.create(laurels.Board("b", shards=SHARDS))
            faults.keys = {b"laurels:{1.1}:m"}
            calls = [lb.submit("b", f"m{i}", 1) for i in range(20)]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert not isinstance(outcome, PartlyCounted)
                if isinstance(outcome, IndexUnavailable):
                    assert outcome.may_have_applied

    asyncio.run(check())


def test_calls_of_a_verb_share_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    async def check() -> None:
        nonlocal now
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        assert seconds_left(2) == 2
        with ends_in(4.5):
            now += 3
            assert seconds_left(2) == 1.5
            with ends_in(10):
                assert seconds_left(2) == 1.5
            with ends_in(10, anew=True):
                assert seconds_left(2) == 2
            now += 2
            assert seconds_left(2) <= 0
        assert seconds_left(2) == 2

    asyncio.run(check())


@pytest.mark.parametrize("fields", [{}, {"shards": SHARDS}], ids=["one shard", "shards"])
def test_slow_answers_delay_no_verb_longer_than_documented(
    server: Server, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """Each call takes nearly as long as it may. The test moves the clock of the event loop on by
    these times."""
    spent = 0.0

    async def check() -> None:
        nonlocal spent
        async with laurels.open_async(server.url) as lb:
            await lb.create(laurels.Board("b", windows=["all", "day", "r=rolling:2h/1h"], **fields))
            await lb.submit("b", "ann", 1)
            loop = asyncio.get_running_loop()
            time, sent = loop.time, Connection._with_timeout

            async def slowly(connection: Connection, call: Any) -> Any:
                nonlocal spent
                # background work, which does not belong to a verb
                if deadline.seconds_left(inf) == inf:
                    return await sent(connection, call)
                left = deadline.seconds_left(2.0)
                until = spent + max(0.0, min(left, 1.9))
                try:
                    if left >= 1.9:
                        return await sent(connection, call)
                    call.close()
                    await asyncio.sleep(0)
                    raise IndexUnavailable("silent", may_have_applied=left > 0)
                finally:
                    spent = max(spent, until)

            with monkeypatch.context() as patched:
                patched.setattr(loop, "time", lambda: time() + spent)
                patched.setattr(Connection, "_with_timeout", slowly)
                for verb in (
                    lambda: lb.submit_many("b", [("bob", 1, None, "1")], ranks=True),
                    lambda: lb.submit("b", "ann", 1),
                    lambda: lb.top("b", period=None),
                ):
                    began = spent
                    with suppress(IndexUnavailable):
                        await verb()
                    assert spent - began <= VERB_SECONDS + UPKEEP_SECONDS + 0.01

    asyncio.run(check())


def test_an_append_only_file_without_fsync_is_reported_as_a_risk() -> None:
    with Server("--appendfsync", "no") as server, pytest.warns(laurels.errors.DataAtRisk) as warned:
        laurels.open(server.url).close()
    assert "appendfsync no" in str(warned[0].message)
