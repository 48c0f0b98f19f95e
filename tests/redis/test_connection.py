"""A connection accepts a server that fits its URL and version, and refuses all others with a clear
reason."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from laurels.errors import Closed, Forked, LaurelsError
from laurels.errors.index_server import (
    IndexDenied,
    IndexFailed,
    IndexTooOld,
    IndexUnavailable,
    MissingRedis,
    WrongServer,
)
from laurels.stores.intake import forks
from laurels.stores.redis.connection import connection as connections
from laurels.stores.redis.connection.connection import connect, redis_address
from laurels.stores.redis.connection.moving import slot_of
from laurels.stores.redis.connection.server import server_info

from .asking import COUNT, connected, script
from .servers import Server, free_port

SHORT_MS = 400


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(password="hunter2") as server:
        server.call("ACL", "SETUSER", "curious", "on", ">curious", "~*", "+@all", "-info")
        server.call("ACL", "SETUSER", "reader", "on", ">reader", "~*", "+@all", "-@write")
        yield server


def at(server: Server, login: str) -> str:
    return f"redis://{login}@127.0.0.1:{server.port}"


def refusal(url: str, timeout_ms: int = SHORT_MS) -> LaurelsError:
    with pytest.raises(LaurelsError) as caught:
        asyncio.run(connect(redis_address(url), timeout_ms=timeout_ms))
    assert "hunter2" not in str(caught.value)
    return caught.value


def test_keys_and_answers_are_bytes(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            assert connection.server.startswith(("Redis ", "Valkey "))
            assert connection.warnings == []
            key, value = b"k\xff\0", b"\xff\0\r\n{}"
            await connection.command(b"SET", key, value, key=key)
            assert await connection.command(b"GET", key, key=key) == value
            echo = script("return ARGV[1] .. KEYS[1]")
            assert await connection.script(echo, key, value) == value + key

    asyncio.run(check())


def test_databases_are_separate(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as one, connected(f"{server.url}/3") as other:
            await one.command(b"SET", b"apart", b"0", key=b"apart")
            assert await other.command(b"GET", b"apart", key=b"apart") is None

    asyncio.run(check())


def test_a_script_is_loaded_when_the_server_does_not_know_it(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            for count in (b"1", b"2", b"3"):
                assert await connection.script(COUNT, b"loaded", b"") == count
                server.call("SCRIPT", "FLUSH")

    asyncio.run(check())


def test_an_error_of_a_script_is_not_retryable(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            await connection.command(b"LPUSH", b"text", b"a", key=b"text")
            with pytest.raises(IndexFailed, match="WRONGTYPE") as caught:
                await connection.script(COUNT, b"text", b"")
            assert not caught.value.retryable
            with pytest.raises(IndexFailed, match="no such thing"):
                await connection.script(script("error('no such thing')"), b"k", b"")

    asyncio.run(check())


def test_a_wrong_login_is_denied(server: Server) -> None:
    for login in ("", ":wrong", "nobody:hunter2", "curious:curious"):
        assert isinstance(refusal(at(server, login)), IndexDenied)


def test_a_read_only_user_is_denied_writes(server: Server) -> None:
    async def check() -> None:
        async with connected(at(server, "reader:reader")) as connection:
            with pytest.raises(IndexDenied):
                await connection.command(b"SET", b"k", b"v", key=b"k")

    asyncio.run(check())


def test_a_server_that_does_not_fit_the_url_is_refused(server: Server) -> None:
    cluster = at(server, ":hunter2").replace("redis", "redis+cluster")
    for url, why in (
        (f"{server.url}/99", "has no database 99"),
        (cluster, "is a single server, not a cluster"),
    ):
        error = refusal(url)
        assert isinstance(error, WrongServer)
        assert why in error.what
    with Server("--cluster-enabled", "yes") as node:
        error = refusal(node.url)
    assert isinstance(error, WrongServer)
    assert error.what.endswith("is a node of a cluster")


def test_a_replica_is_refused(server: Server) -> None:
    replica = server.with_replica()
    error = refusal(replica.url)
    assert isinstance(error, WrongServer)
    assert error.what.endswith("is a replica")


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_missing_server_is_unavailable(host: str) -> None:
    error = refusal(f"redis://{host}:{free_port()}")
    assert isinstance(error, IndexUnavailable)
    assert not error.may_have_applied
    assert f"{host}:" in error.what


def test_a_server_that_is_silent_is_unavailable_in_time(server: Server) -> None:
    server.pause()
    try:
        assert isinstance(refusal(server.url), IndexUnavailable)
    finally:
        server.resume()
    assert isinstance(refusal(server.url.replace("redis", "rediss")), IndexUnavailable)


def test_a_server_that_may_lose_scores_causes_a_warning() -> None:
    async def warnings(server: Server) -> list[str]:
        async with connected(server.url) as connection:
            return connection.warnings

    with Server("--appendonly", "no", "--maxmemory-policy", "allkeys-lru") as server:
        (appending,) = asyncio.run(warnings(server))
        assert "appendonly yes" in appending
        server.call("CONFIG", "SET", "maxmemory", "100mb")
        dropping, _ = asyncio.run(warnings(server))
        assert "noeviction" in dropping


@pytest.mark.parametrize(
    ("text", "name", "recent"),
    [
        ("redis_version:6.2.0", "Redis 6.2.0", True),
        ("redis_version:7.4.0-rc1", "Redis 7.4.0-rc1", True),
        ("redis_version:10.0.1", "Redis 10.0.1", True),
        ("redis_version:6.0.16", "Redis 6.0.16", False),
        ("redis_version:5.0.7", "Redis 5.0.7", False),
        ("redis_version:7.2.4\r\nvalkey_version:8.1.0", "Valkey 8.1.0", True),
        ("nothing:of it", "Redis of an unknown version", False),
    ],
)
def test_the_version_is_read(text: str, name: str, recent: bool) -> None:
    info = server_info(f"# Server\r\n{text}\r\n\r\n# Memory\r\n".encode())
    assert (info.name, info.append_only) == (name, None)
    if recent:
        info.ensure_recent("h:1")
    else:
        with pytest.raises(IndexTooOld, match=f"h:1 runs {name}, and Redis 6.2 or Valkey"):
            info.ensure_recent("h:1")


def test_a_closed_connection_raises_closed(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            server.pause()
            under_way = asyncio.create_task(connection.command(b"GET", b"k", key=b"k"))
            await asyncio.sleep(0)
            await connection.close()
            server.resume()
            with pytest.raises(Closed):
                await asyncio.wait_for(under_way, 60)
            with pytest.raises(Closed):
                await connection.script(COUNT, b"k", b"")
            await connection.close()

    asyncio.run(check())


def test_a_cancelled_call_does_not_harm_the_connection(server: Server) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            calls = [asyncio.create_task(connection.script(COUNT, b"up", b"")) for _ in range(50)]
            await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
            assert all(isinstance(answer, bytes) for answer in answers[1::2])
            assert int(await connection.script(COUNT, b"up", b"")) <= 51

    asyncio.run(check())


def test_a_forked_process_cannot_use_the_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with connected(server.url) as connection:
            with monkeypatch.context() as child:
                child.setattr(forks, "count", forks.count + 1)
                with pytest.raises(Forked):
                    await connection.command(b"PING", key=None)
            assert await connection.command(b"PING", key=None) == b"PONG"

    asyncio.run(check())


def test_answers_continue_after_the_first_connected_loop_closes(server: Server) -> None:
    async def first() -> None:
        async with connected(server.url):
            entered.set()
            await asyncio.to_thread(leaving.wait, 10)

    async def second() -> None:
        async with connected(server.url, 300) as connection:
            leaving.set()
            await asyncio.to_thread(thread.join, 10)
            for _ in range(2):  # the first commands may fail without an answer
                try:
                    assert await connection.command(b"PING", key=None) == b"PONG"
                except IndexUnavailable:
                    continue
            assert await connection.command(b"PING", key=None) == b"PONG"

    entered, leaving = threading.Event(), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(first(),))
    thread.start()
    assert entered.wait(60)
    asyncio.run(second())


def test_a_missing_client_library_is_reported_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "find_spec", lambda _: None)
    error = refusal("redis://127.0.0.1")
    assert isinstance(error, MissingRedis)
    assert ".[redis]" in str(error)


def test_the_client_library_is_imported_late_and_prints_nothing() -> None:
    program = f"""
import asyncio, sys, laurels
assert "glide" not in sys.modules
from laurels.stores.redis.connection.connection import connect, redis_address
assert "glide" not in sys.modules
try:
    asyncio.run(connect(redis_address("redis://127.0.0.1:{free_port()}"), timeout_ms=200))
except laurels.LaurelsError:
    print("refused")
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ran.stdout, ran.stderr) == ("refused\n", "")


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 12_739),
        (b"laurels:{boards}d", slot_of(b"boards")),
        (b"{}a", slot_of(b"{}a")),
        (b"a{b", slot_of(b"a{b")),
        (b"{{a}}", slot_of(b"{a")),
    ],
)
def test_the_hash_tag_of_a_key_decides_its_slot(key: bytes, slot: int) -> None:
    assert slot_of(key) == slot
