"""The number of connections is limited in total and for each address, so that the server always has
free descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from laurels.server.admission.connections import ConnectionGuard, _connections, allowed_connections
from laurels.server.process.descriptors import open_descriptors
from tests.http.process import Process
from tests.serving import Served


@contextlib.contextmanager
def silent(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that send nothing."""
    parts = urlsplit(url)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=60))
            for _ in range(count)
        ]


def connections_to(port: int) -> list[tuple[int, str, int]]:
    """Return the connections to a port that this process has open."""
    return _connections(open_descriptors(), port)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for at most one minute until a condition holds."""
    for _ in range(1_200):
        if is_so():
            return
        time.sleep(0.05)
    pytest.fail("the condition was never fulfilled")


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_connections_of_one_address_are_limited(tmp_path: Path) -> None:
    with Served(tmp_path, connections_per_address=30) as server:  # noqa: SIM117
        with silent(server.url, 60) as connections:
            wait_until(lambda: sum(map(is_open, connections)) <= 30)
            assert sum(map(is_open, connections)) >= 28  # two connections are the server's own


def test_no_connection_is_closed_below_the_limit() -> None:
    async def main() -> None:
        closed: list[tuple[str, int]] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with silent(f"http://127.0.0.1:{port}", 40) as clients:
                accepted = [listener.accept()[0] for _ in clients]
                for most, exempt, left in [(40, "", 40), (30, "127.0.0.1", 40), (30, "", 30)]:
                    guard = ConnectionGuard(
                        port, most, exempt.__eq__, lambda *it: closed.append(it)
                    )
                    await guard.check()
                    assert sum(map(is_open, clients)) == left
                for each in accepted:
                    each.close()
        assert closed == [("127.0.0.1", 10)]

    asyncio.run(main())


def test_silent_connections_leave_descriptors_for_others(tmp_path: Path) -> None:
    """The server cannot raise its limit of descriptors, and a client opens more silent connections
    than that limit. Other clients still get answers."""
    with Process(tmp_path, descriptors=1_024) as server:
        assert "allows 768 connections" in server.output
        with silent(server.url, 1_100):
            assert httpx.get(f"{server.url}/healthz", timeout=60).text == "alive\n"
            made = httpx.put(f"{server.url}/v1/boards/b", json={}, timeout=60)
            assert made.status_code == 201


def test_the_descriptor_limit_is_raised_to_the_hard_limit() -> None:
    program = (
        "import resource;"
        "from laurels.server.admission.connections import raise_descriptor_limit as up;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)); assert up() == hard != 64"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="needs TCP_USER_TIMEOUT")
def test_a_client_that_does_not_read_its_answer_is_cut_off(tmp_path: Path) -> None:
    with Served(tmp_path, stall_seconds=1) as server:
        httpx.put(f"{server.url}/v1/boards/b", json={}).raise_for_status()
        events = [[f"{'m' * 120}{i}", i] for i in range(10_000)]
        for _ in range(2):
            answer = httpx.post(f"{server.url}/v1/boards/b/scores?receipts=none", json=events)
            answer.raise_for_status()
        parts = urlsplit(server.url)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((parts.hostname, parts.port))
            port = client.getsockname()[1]
            request_head = (
                f"GET /v1/boards/b/top?limit=10000 HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
            )
            client.sendall(request_head.encode())

            def is_open() -> bool:
                return any(port == each for *_, each in connections_to(parts.port or 0))

            assert client.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) == b"HTTP/1.1 200"
            assert is_open()
            wait_until(lambda: not is_open())


@pytest.mark.parametrize(
    ("wanted", "descriptors", "allowed"),
    [
        (13_000, 20_000, 13_000),
        (13_000, 1_024, 768),
        (13_000, 100, 16),
        (100, 1_024, 100),
        (13_000, resource.RLIM_INFINITY, 13_000),
    ],
)
def test_the_number_of_connections_stays_below_the_number_of_descriptors(
    wanted: int, descriptors: int, allowed: int
) -> None:
    assert allowed_connections(wanted, descriptors) == allowed
