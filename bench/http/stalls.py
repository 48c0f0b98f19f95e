"""The delays that one caller can cause for others: the latency of `/healthz` during single large
requests, the delay of a feed beside 900 feeds of one token, and the time until open streams end
after their key was revoked.

    python -m bench.http.stalls [--rounds 5]

The server runs on one core, and all clients on another.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from bench.http.process import HOST, Serving, on_core, two_cores

EVENTS = 10_000
MENDED = 11_000
"""The number of entries in a body. Each has nine values, names of fields included, so all entries
together have nearly the 100,000 values that a body may have."""
FEEDS = 900
UPDATES = 20
_PAUSE_SECONDS = 0.001


class Caller:
    """A client with a key and one connection."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key
        self._connection = HTTPConnection(HOST, port, timeout=60)

    def ask(self, verb: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        self._connection.request(verb, path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def made(self, verb: str, path: str, fields: object) -> Any:
        """Return the answer to a request, which must succeed."""
        status, content = self.ask(verb, path, json.dumps(fields).encode())
        assert status < 300, (path, status, content[:300])
        return json.loads(content) if content else None


class Pulse:
    """The latencies of `/healthz`, which a thread requests without pause."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ended = threading.Event()
        self._times: list[float] = []
        self._thread = threading.Thread(target=self._beat)

    def _beat(self) -> None:
        connection = HTTPConnection(HOST, self._port, timeout=60)
        while not self._ended.is_set():
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self._times.append(time.perf_counter() - began)
            time.sleep(_PAUSE_SECONDS)

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def worst_ms(self) -> float:
        return max(self._times) * 1_000


def bodies() -> Iterator[tuple[str, str, str, bytes]]:
    """Yield large requests: the description, method, path and body of each."""
    scores = "/v1/boards/b/scores"
    out_of_range = [{"member": f"m{i}", "value": 2**60} for i in range(EVENTS)]
    pairs = [{"member": f"m{i}", "value": [1, 2]} for i in range(EVENTS)]
    odd: list[Any] = [
        {"member": f"m{i}", "value": [None, "x", True, {}][i % 4]} for i in range(EVENTS)
    ]
    nested = [{"member": f"m{i}", "value": [[] for _ in range(22)]} for i in range(EVENTS)]
    digits = [{"member": f"m{i}", "value": 10**4_299} for i in range(1_800)]
    accepted = [{"member": f"m{i}", "value": i} for i in range(EVENTS)]
    for name, events in (
        ("10,000 values out of range", out_of_range),
        ("10,000 refused pairs", pairs),
        ("10,000 odd values", odd),
        ("10,000 events of 22 empty lists", nested),
        ("1,800 numbers of 4,300 digits", digits),
        ("10,000 accepted events", accepted),
    ):
        yield name, "POST", scores, json.dumps(events).encode()
    entries = [
        {"member": f"m{i}", "score": i, "reached_ms": 5, "last_ms": 5} for i in range(MENDED)
    ]
    rankings = [{"window": "all", "period": None, "labels": None, "entries": entries}]
    mended = json.dumps({"rankings": rankings}).encode()
    yield f"a mend of {MENDED:,} entries", "POST", "/v1/boards/b/mend", mended
    yield "7 MiB for an endpoint that takes less", "PUT", "/v1/boards/c", b" " * (7 << 20)
    yield "8 MiB of brackets", "POST", scores, b"[" * (8 << 20)
    yield "a page of 10,000 changes", "GET", "/v1/boards/b/changes?limit=10000", b""


def beside_requests(port: int, caller: Caller, rounds: int) -> Iterator[tuple[str, list[float]]]:
    """Return the longest latency of `/healthz` during each kind of request, for each round."""
    for name, verb, path, body in bodies():
        worst = []
        for _ in range(rounds):
            with Pulse(port) as pulse:
                time.sleep(0.05)
                with suppress(ConnectionError):
                    caller.ask(verb, path, body or None)
                time.sleep(0.05)
            worst.append(pulse.worst_ms)
            caller = Caller(port, caller.key)
        yield name, worst


class Feed:
    """A live feed that a thread reads."""

    def __init__(self, port: int, path: str, key: str) -> None:
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
        self._port = port
        self.heard: Callable[[bytes], None] = lambda _: None
        self.ended = asyncio.Event()

    async def open(self) -> None:
        reader, self._writer = await asyncio.open_connection(HOST, self._port)
        self._writer.write(self._request.encode())
        await self._writer.drain()
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while content := await reader.read(1 << 16):
            self.heard(content)
        self.ended.set()

    def close(self) -> None:
        self._task.cancel()
        self._writer.close()


async def feed_delays(
    port: int, caller: Caller, reader_key: str, *, updates: int = UPDATES
) -> list[float]:
    """Submit events with the key of `caller`. Return for each event the ms until a feed that was
    opened with `reader_key` has it."""
    feed = Feed(port, "/v1/boards/b/live?limit=3&interval=20", reader_key)
    await feed.open()
    delays = []
    for _ in range(updates):
        seen = asyncio.Event()
        marker = f"seen{time.time_ns()}"
        feed.heard = lambda content, marker=marker, seen=seen: (  # type: ignore[misc]
            seen.set() if marker.encode() in content else None
        )
        await asyncio.sleep(0.1)
        event = {"member": marker, "value": time.time_ns() // 1_000}
        began = time.perf_counter()
        await asyncio.to_thread(caller.made, "POST", "/v1/boards/b/scores", event)
        await asyncio.wait_for(seen.wait(), 30)
        delays.append((time.perf_counter() - began) * 1_000)
    feed.close()
    return delays


async def beside_feeds(port: int, caller: Caller, reader_key: str) -> Iterator[tuple[str, Any]]:
    """Return the delays of a feed without other feeds, then while 900 feeds of one token get their
    first lists, and then beside these feeds. Each of the 900 has a different limit, so that none
    shares its list with another."""
    alone = await feed_delays(port, caller, reader_key)
    fields = {"boards": ["b"], "subject": "greedy"}
    token = (await asyncio.to_thread(caller.made, "POST", "/v1/tokens", fields))["token"]
    crowd = [
        Feed(port, f"/v1/boards/b/live?limit={i + 1}&interval=20&token={quote(token)}", "none")
        for i in range(FEEDS)
    ]
    for each in crowd:
        each._request = each._request.replace("Authorization: Bearer none\r\n", "")
        await each.open()
    opening = await feed_delays(port, caller, reader_key, updates=1)
    await asyncio.sleep(10)
    beside = await feed_delays(port, caller, reader_key)
    for each in crowd:
        each.close()
    return iter(
        [
            ("a feed alone", alone),
            (f"a feed while {FEEDS} of one token get their first lists", opening),
            (f"a feed beside {FEEDS} of one token", beside),
        ]
    )


async def revocations(port: int, caller: Caller, rounds: int) -> list[float]:
    """Return the ms from the answer to a revocation until the key's open stream has ended."""
    delays = []
    for number in range(rounds):
        made = await asyncio.to_thread(caller.made, "POST", "/v1/keys", {"name": f"r{number}"})
        feed = Feed(port, "/v1/boards/b/live", made["key"])
        opened = asyncio.Event()
        feed.heard = lambda _, opened=opened: opened.set()  # type: ignore[misc]
        await feed.open()
        await asyncio.wait_for(opened.wait(), 30)
        began = time.perf_counter()
        await asyncio.to_thread(caller.ask, "DELETE", f"/v1/keys/r{number}")
        await asyncio.wait_for(feed.ended.wait(), 30)
        delays.append((time.perf_counter() - began) * 1_000)
        feed.close()
    return delays


@contextmanager
def serving(folder: Path, core: int) -> Iterator[tuple[int, str]]:
    """Return a context manager with a server with keys; its value is the port and the admin key."""
    laurels = [sys.executable, "-m", "laurels"]
    data = str(folder / "boards")
    subprocess.run(
        [sys.executable, "-c", f"import laurels; laurels.open({data!r}).close()"], check=True
    )
    made = subprocess.run(
        [*laurels, "key", "create", "root", "--scope", "admin", "--at", data, "--json"],
        check=True,
        capture_output=True,
    )
    command = [*laurels, "serve", "--data", data, "--connections-per-address", "2000", "--port"]
    server = Serving(command, core, folder / "server.log", ready="/healthz")
    try:
        yield server.port, json.loads(made.stdout)["key"]
    finally:
        server.end()


def line(name: str, delays: list[float]) -> str:
    return f"| {name} | {median(delays):.1f} | {max(delays):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    cores = two_cores()
    if cores is None:
        sys.exit("this needs two cores, one for the server")
    with (
        TemporaryDirectory() as folder,
        serving(Path(folder), cores.server) as (port, key),
        on_core(cores.load),
    ):
        caller = Caller(port, key)
        caller.made("PUT", "/v1/boards/b", {"changes": "1h"})
        print("| ms, of several rounds | median | worst |\n|---|---|---|")
        for name, worst in beside_requests(port, caller, rounds):
            print(line(f"/healthz beside {name}", worst), flush=True)
        caller = Caller(port, key)
        reader = caller.made("POST", "/v1/keys", {"name": "reader"})["key"]
        for name, delays in asyncio.run(beside_feeds(port, caller, reader)):
            print(line(name, delays), flush=True)
        ends = asyncio.run(revocations(port, Caller(port, key), rounds))
        print(line("a stream after its key is revoked", ends))


if __name__ == "__main__":
    main()
