"""Faults of one server: a call fails within its time limit, with an error that says what to do."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator

import pytest
import redis

from laurels.errors import Fault
from laurels.errors.index_server import IndexFailed, IndexFull, IndexMoving, IndexUnavailable
from laurels.stores.redis.connection import wire
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.connection.errors import error_of

from .asking import COUNT, ENDLESS, connected, in_the_end, refused, script
from .proxy import Proxy
from .servers import Server, until

KEY = b"counted"
SHORT_MS = 1_000
MOST = 3
"""The number of calls in progress that the limit allows in these tests."""


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a server that loses no acknowledged write when it is killed, because it flushes each
    write first. With the setting `everysec` and a slow disk, it could acknowledge a write that is
    not in its file yet."""
    with Server("--appendfsync", "always") as server:
        yield server


def counted(server: Server) -> int:
    return int(server.call("GET", KEY) or 0)


def counted_later(server: Server) -> int:
    """Resume a paused server. Return the count after the server has carried out all calls that it
    had received."""
    server.resume()
    until(lambda: counted(server), "the call is carried out")
    return counted(server)


async def under_way(server: Server, connection: Connection) -> asyncio.Task[bytes]:
    """Return a call that a paused server has received but not carried out yet."""
    server.pause()
    before = server.unread()
    call = asyncio.create_task(connection.script(COUNT, KEY, b""))
    await asyncio.to_thread(until, lambda: server.unread() > before, "the call is in the socket")
    return call


def test_acknowledged_calls_survive_a_restart_of_the_server(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            for expected in range(1, 4):
                assert await in_the_end(connection, KEY) == expected
                await asyncio.to_thread(server.restart)

    asyncio.run(check())


def test_calls_while_a_server_restarts_are_counted_or_refused(server: Server) -> None:
    async def call(connection: Connection, tally: list[int]) -> None:
        try:
            await connection.script(COUNT, KEY, b"")
            tally[0] += 1
        except IndexUnavailable as error:
            tally[1] += error.may_have_applied

    async def calls(connection: Connection, tally: list[int], ended: asyncio.Event) -> None:
        while not ended.is_set():
            await asyncio.gather(*(call(connection, tally) for _ in range(10)))
            await asyncio.sleep(0)

    async def check() -> None:
        tally, ended = [0, 0], asyncio.Event()
        async with connected(server.url, SHORT_MS) as connection:
            calling = [asyncio.create_task(calls(connection, tally, ended)) for _ in range(3)]
            for _ in range(3):
                await asyncio.to_thread(server.restart)
                await in_the_end(connection, b"again")
            ended.set()
            await asyncio.wait_for(asyncio.gather(*calling), 60)
        acknowledged, doubtful = tally
        assert acknowledged
        assert acknowledged <= counted(server) <= acknowledged + doubtful

    asyncio.run(check())


def test_a_call_that_timed_out_may_have_applied(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url, SHORT_MS) as connection:
            await connection.script(COUNT, b"other", b"")
            call = await under_way(server, connection)
            error = await refused(call)
            assert error.may_have_applied
            assert counted_later(server) == 1
            assert await in_the_end(connection, KEY) == 2

    asyncio.run(check())


def test_a_call_whose_connection_is_cut_is_not_sent_again(server: Server) -> None:
    """The server carries out the call. Its answer is lost with the connection."""

    async def check() -> None:
        with Proxy(server) as proxy:
            async with connected(proxy.url) as connection:
                await connection.script(COUNT, b"other", b"")
                proxy.cut_after(KEY)
                error = await refused(connection.script(COUNT, KEY, b""))
                assert (error.may_have_applied, proxy.cut) == (True, 1)
                assert await in_the_end(connection, KEY) == 2

    asyncio.run(check())


def test_a_call_to_a_server_that_dies_may_have_applied(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url, SHORT_MS) as connection:
            call = await under_way(server, connection)
            server.kill()
            assert (await refused(call)).may_have_applied

    asyncio.run(check())


def test_a_busy_server_refuses_calls_until_the_script_is_ended(server: Server) -> None:
    async def check() -> None:
        server.call("CONFIG", "SET", "lua-time-limit", "20")
        async with connected(server.url) as one, connected(server.url) as other:
            await one.script(COUNT, KEY, b"")
            endless = asyncio.create_task(one.script(ENDLESS, KEY, b""))
            await asyncio.to_thread(until, lambda: _busy(server), "the server is busy")
            error = await refused(other.script(COUNT, KEY, b""))
            assert (error.may_have_applied, "busy" in error.what) == (False, True)
            server.call("SCRIPT", "KILL")
            assert not (await refused(endless)).may_have_applied
            assert await in_the_end(one, KEY) == 2

    asyncio.run(check())


def _busy(server: Server) -> bool:
    try:
        server.call("PING")
    except redis.ResponseError as error:
        return "BUSY" in str(error)
    return False


def test_a_full_server_refuses_a_call_before_writing(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            await connection.script(COUNT, KEY, b"")
            server.call("CONFIG", "SET", "maxmemory", "1")
            for call in (
                connection.script(COUNT, KEY, b""),
                connection.command(b"SET", KEY, b"7", key=KEY),
            ):
                error = await refused(call, "index_full")
                assert (error.may_have_applied, "memory" in error.what) == (False, True)
            server.call("CONFIG", "SET", "maxmemory", "0")
            assert await in_the_end(connection, KEY) == 2

    asyncio.run(check())


def test_a_running_script_completes_although_memory_is_full(server: Server) -> None:
    async def check() -> None:
        fill = script("for i = 1, 40 do redis.call('RPUSH', KEYS[1], string.rep('x', 1e5)) end")
        async with connected(server.url) as connection:
            await connection.script(COUNT, b"other", b"")
            used = int(server.info("memory")["used_memory"])
            server.call("CONFIG", "SET", "maxmemory", used + 1_000_000)
            await connection.script(fill, KEY, b"")
            assert server.call("LLEN", KEY) == 40
            assert int(server.info("memory")["used_memory"]) > used + 3_000_000
            await refused(connection.script(fill, KEY, b""), "index_full")
            assert server.call("LLEN", KEY) == 40

    asyncio.run(check())


def test_a_primary_that_became_a_replica_refuses_to_write(server: Server) -> None:
    async def check() -> None:
        replica = server.with_replica()
        async with connected(server.url) as connection:
            await connection.script(COUNT, KEY, b"")
            replica.wait_until_in_step(server)
            replica.promote()
            server.follow(replica)
            error = await refused(connection.script(COUNT, KEY, b""))
            assert (error.may_have_applied, "replica" in error.what) == (False, True)
            server.promote()
            assert await in_the_end(connection, KEY) == 2

    asyncio.run(check())


def test_a_promoted_replica_continues_with_the_data_of_its_primary(server: Server) -> None:
    """Clients reach the new primary at the address of the old one, as through a DNS name or a
    proxy."""

    async def check() -> None:
        replica = server.with_replica()
        async with connected(server.url) as connection:
            for _ in range(3):
                await connection.script(COUNT, KEY, b"")
            replica.wait_until_in_step(server)
            server.kill()
            replica.promote()
            assert counted(replica) == 3
            async with connected(replica.url) as promoted:
                assert await in_the_end(promoted, KEY) == 4

    asyncio.run(check())


SIGNALLED = "An error was signalled by the server: - ResponseError: "
WRAPPED = (
    f"{SIGNALLED}Error running script (call to f_{'5a' * 20}): @user_script:7: @user_script: 7: "
)
"""The words that Redis 6.2 uses for an error of a command within a script."""
NOT_LOCAL = "attempted to access a non local key in a cluster node"


@pytest.mark.parametrize(
    ("message", "kind", "may_have_applied"),
    [
        (
            "An error was signalled by the server: - BusyLoadingError: Redis is",
            IndexUnavailable,
            False,
        ),
        ("LOADING: Redis is loading the dataset in memory", IndexUnavailable, False),
        (
            "An error was signalled by the server: - MasterDown: Link with MASTER",
            IndexUnavailable,
            False,
        ),
        (
            "An error was signalled by the server: - ClusterDown: The cluster is",
            IndexUnavailable,
            False,
        ),
        ("An error was signalled by the server: - TryAgain: Multiple keys", IndexMoving, False),
        ("An error was signalled by the server: - Moved: 12 h:1", IndexMoving, False),
        ("An error was signalled by the server: - Ask: 12 h:1", IndexMoving, False),
        ("MISCONF: Redis is configured to save RDB snapshots", IndexUnavailable, False),
        ("NOREPLICAS: Not enough good replicas to write.", IndexUnavailable, False),
        ("Reached maximum inflight requests", IndexUnavailable, False),
        (
            "Received connection error `broken pipe`. Will attempt to reconnect",
            IndexUnavailable,
            True,
        ),
        ("something that nobody has seen yet", IndexUnavailable, True),
        ("An error was signalled by the server: - ResponseError: unknown", IndexFailed, None),
        ("WRONGTYPE: Operation against a key", IndexFailed, None),
        (f"{WRAPPED}-OOM command not allowed when used memory > 'maxmemory'.", IndexFull, False),
        (
            f"{WRAPPED}-READONLY You can't write against a read only replica.",
            IndexUnavailable,
            False,
        ),
        (f"{WRAPPED}-MISCONF Errors writing to the AOF file: no space", IndexUnavailable, True),
        (f"{WRAPPED}-WRONGTYPE Operation against a key", IndexFailed, None),
        (f"{WRAPPED}attempt to index a nil value", IndexFailed, None),
        (f"{SIGNALLED}Script {NOT_LOCAL}", IndexMoving, False),
        (f"{SIGNALLED}{NOT_LOCAL.capitalize()} script: on @user_script:1.", IndexMoving, False),
        (f"{WRAPPED}Lua script {NOT_LOCAL}", IndexMoving, False),
    ],
)
def test_server_messages_map_to_their_errors(
    message: str, kind: type[Fault], may_have_applied: bool | None
) -> None:
    error = error_of(message, "redis://h:1")
    assert type(error) is kind
    assert getattr(error, "may_have_applied", None) is may_have_applied
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_calls_beyond_the_limit_are_refused_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is small here. With thousands of calls to a paused server, the client library could
    close the connection before the last call is refused."""
    monkeypatch.setattr(wire, "_IN_FLIGHT", MOST)

    async def check() -> None:
        async with connected(server.url, 60_000) as connection:
            await connection.script(COUNT, KEY, b"")
            waiting = [await under_way(server, connection) for _ in range(MOST)]
            error = await refused(connection.script(COUNT, KEY, b""))
            assert (error.may_have_applied, "no call was sent" in error.what) == (False, True)
            assert not any(call.done() for call in waiting)
            server.resume()
            assert sorted(await asyncio.gather(*waiting)) == [b"2", b"3", b"4"]
            assert await in_the_end(connection, KEY) == 5

    asyncio.run(check())


def test_a_script_that_fails_after_a_write_raises_index_failed(server: Server) -> None:
    async def check() -> None:
        half = script("redis.call('INCR', KEYS[1]); return redis.call('LPUSH', KEYS[1], 1)")
        async with connected(server.url) as connection:
            with pytest.raises(IndexFailed):
                await connection.script(half, KEY, b"")

    asyncio.run(check())
