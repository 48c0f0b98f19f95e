"""Puts a steady mixed load on `laurels serve` and records its memory and disk use.

    python scripts/soak.py --minutes 60 --out soak-results

The script starts a server as a separate process in a temporary folder. The load consists of batches
and single events on boards with every kind of window (calendar, rolling, decay, refreshed), with
scopes that appear and disappear, and with event ids that expire; of changes and removals of
members; of queries; of live feeds that open and close; and of snapshots, which trim the log. The
request rate is constant. The numbers of members, rooms and remembered ids are bounded, so the
memory and disk of a healthy server stop growing.

Every few seconds a line is added to `samples.csv`. At the end the script runs the server's `check`,
compares the totals with the acknowledged events, and writes `summary.json` and a table of the
development of memory, descriptors and disk. The exit code is 1 if a figure keeps growing or a
request failed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.soak_figures import (  # noqa: E402 (needs the changed sys.path)
    LEAST_MINUTES,
    MIB,
    PARTS,
    Sample,
    Sampler,
    Tally,
    errors_of,
    growth_of,
    parts_of,
    slope_of,
    table_of,
)
from scripts.soak_server import (  # noqa: E402
    ANSWER_SECONDS,
    FAILURES,
    HOST,
    Connection,
    Server,
    UnexpectedError,
    code_of,
    head,
    request,
    until_ready,
)

MEMBERS = 50_000
ROOMS = 60

BOARDS: dict[str, dict[str, Any]] = {
    "game": {
        "windows": ["all", "day", "hour", "10m=rolling:10m/10s", "7d=rolling:7d/1h"],
        "grace": "1m",
    },
    "quick": {"windows": ["1m=rolling:1m/1s", "hot=decay:5m"]},
    "rooms": {
        "windows": ["5m=rolling:5m/10s"],
        "scopes": [[], ["room"]],
        "rank_by": "room",
    },
    "refreshed": {"windows": ["10m=rolling:10m/10s,refresh=10s", "all"]},
    "orders": {"windows": ["all", "hour"], "dedupe": "5m", "grace": "1m"},
}
SNAPSHOT_SECONDS = 600
"""The timeout of a snapshot. It takes long under load, since it is written in small steps between
requests."""

SHARES = {"game": 0.5, "quick": 0.15, "rooms": 0.15, "refreshed": 0.1, "orders": 0.1}
"""The fraction of the events that goes to each board."""


class Load:
    """Sends all requests to the server, at a fixed rate."""

    def __init__(self, server: Server, options: Namespace) -> None:
        self.tally = Tally()
        self._server = server
        self._options = options
        self._random = Random(options.seed)
        self._ending = asyncio.Event()
        self._number = 0

    async def run(self, seconds: float, sampler: Sampler) -> None:
        """Run all tasks for this many seconds."""
        events = self._options.events
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(sampler.run(self._options.every))
            for board, share in SHARES.items():
                per_second = events * share / self._options.batch
                group.create_task(self._paced(per_second, self._batch(board)))
            group.create_task(self._paced(self._options.singles, self._single))
            group.create_task(self._paced(self._options.questions, self._question))
            group.create_task(self._paced(1.0, self._correct))
            group.create_task(self._paced(1 / self._options.snapshot, self._snapshot))
            for number in range(self._options.feeds):
                group.create_task(self._watch(Random(f"{self._options.seed} {number}")))
            await asyncio.sleep(seconds)
            sampling.cancel()
            self._ending.set()

    async def _paced(
        self, per_second: float, act: Callable[[Connection], Awaitable[object]]
    ) -> None:
        """Call a function `per_second` times a second until the run ends. Calls that are more than
        a second late are skipped."""
        connection, pause = Connection(self._server), 1 / per_second
        due = time.monotonic() + pause * self._random.random()
        while not self._ending.is_set():
            await self._sleep(due - time.monotonic())
            began = time.monotonic()
            await self._counted(lambda: act(connection))
            now = time.monotonic()
            if per_second > 1:  # not of rare calls such as snapshots, which may take longer
                self.tally.slowest_ms = max(self.tally.slowest_ms, 1_000 * (now - began))
            due = max(due + pause, now - 1)
        connection.close()

    async def _counted(self, act: Callable[[], Awaitable[object]]) -> None:
        self.tally.requests += 1
        try:
            await act()
        except FAILURES as error:
            self.tally.failures[f"{type(error).__name__}: {error}"] += 1

    async def _sleep(self, seconds: float) -> None:
        """Sleep, at most until the end of the run."""
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), seconds)

    def _batch(self, board: str) -> Callable[[Connection], Awaitable[None]]:
        async def send(connection: Connection) -> None:
            events = [self._event(board) for _ in range(self._options.batch)]
            total = sum(event["value"] for event in events) if board == "orders" else 0
            self.tally.doubtful += total
            answer = await connection.expect("POST", f"/v1/boards/{board}/scores", events)
            self.tally.doubtful -= total
            self.tally.events += len(events)
            if answer["applied"] != len(events):
                raise UnexpectedError(f"{board}: {answer['applied']} of {len(events)} were counted")
            self.tally.total += total

        return send

    def _event(self, board: str) -> dict[str, Any]:
        # A few members have most of the events, as in a game.
        member = int(MEMBERS * self._random.random() ** 3)
        event: dict[str, Any] = {"member": f"m{member}", "value": self._random.randrange(1, 100)}
        if board == "orders":
            self._number += 1
            event["id"] = f"order-{self._number}"
        if board == "rooms":
            minute = int(time.time()) // 60
            event["labels"] = {"room": f"{minute}-{self._random.randrange(ROOMS)}"}
        return event

    async def _single(self, connection: Connection) -> None:
        board = self._random.choice(["game", "quick", "rooms"])
        await connection.expect("POST", f"/v1/boards/{board}/scores", self._event(board))
        self.tally.events += 1

    async def _question(self, connection: Connection) -> None:
        member = f"m{self._random.randrange(MEMBERS)}"
        path, absent = self._random.choice(
            [
                ("game/top?limit=50", False),
                ("game/top?window=10m&limit=100", False),
                ("quick/top?window=hot&limit=20", False),
                ("refreshed/top?window=10m&limit=20", False),
                ("rooms/top?by=room&limit=20", False),
                ("rooms/scopes?labels=room&limit=100", False),
                (f"game/card?member={member}", False),
                (f"orders/around?member={member}&radius=5", True),
                ("game/stats", False),
            ]
        )
        status, document = await connection.ask("GET", f"/v1/boards/{path}")
        if status >= 300 and not (absent and status == 404):
            raise UnexpectedError(f"GET {path.partition('?')[0]}: {status} {code_of(document)}")

    async def _correct(self, connection: Connection) -> None:
        """Set the data of one member, and remove the member."""
        member = f"m{self._random.randrange(MEMBERS)}"
        await connection.expect("PUT", "/v1/boards/game/data", {"member": member, "data": {"n": 1}})
        await connection.ask("POST", "/v1/boards/game/remove", {"member": member})

    async def _snapshot(self, connection: Connection) -> None:
        await connection.expect("POST", "/v1/snapshot", seconds=SNAPSHOT_SECONDS)
        self.tally.snapshots += 1

    async def _watch(self, random: Random) -> None:
        """Open feeds one after the other, each for a random time, until the run ends."""
        while not self._ending.is_set():
            board, window = random.choice(
                [("game", "10m"), ("game", "all"), ("quick", "1m"), ("refreshed", "10m")]
            )
            path = f"/v1/boards/{board}/live?window={window}&limit=10&interval=200"
            self.tally.feeds += 1
            await self._counted(lambda path=path: self._follow(path, random.uniform(5, 120)))  # type: ignore[misc]
            await self._sleep(0.2)

    async def _follow(self, path: str, seconds: float) -> None:
        reader, writer = await asyncio.open_connection(HOST, self._server.port)
        until = time.monotonic() + seconds
        try:
            writer.write(request(self._server, "GET", path))
            async with asyncio.timeout(ANSWER_SECONDS):
                status, _ = await head(reader)
            if status != 200:
                raise UnexpectedError(f"GET {path}: {status}")
            while time.monotonic() < until and not self._ending.is_set():
                async with asyncio.timeout(ANSWER_SECONDS):
                    line = await reader.readline()
                if not line:
                    raise UnexpectedError(f"GET {path}: the feed ended")
                self.tally.frames += line.startswith(b"event:")
        finally:
            writer.close()


async def soak(server: Server, options: Namespace, out: Path) -> tuple[list[Sample], Tally]:
    """Run the load and the final check; return the samples and the counts."""
    await until_ready(server)
    setup = Connection(server)
    for name, definition in BOARDS.items():
        await setup.expect("PUT", f"/v1/boards/{name}", definition)
    load = Load(server, options)
    with (out / "samples.csv").open("w", newline="") as file:
        sampler = Sampler(server, load.tally, file)
        await load.run(60 * options.minutes, sampler)
    load.tally.peak_rss = server.peak_rss()
    await _compare(setup, load.tally)
    setup.close()
    return sampler.samples, load.tally


async def _compare(connection: Connection, tally: Tally) -> None:
    """Run the server's `check`, and compare the total of the board `orders` with the acknowledged
    values. Record a failure if either finds a difference."""
    try:
        await connection.expect("POST", "/v1/check")
        total, after = 0, ""
        while True:
            path = f"/v1/boards/orders/top?limit=1000{after}"
            page = await connection.expect("GET", path)
            total += sum(int(entry["score"]) for entry in page["entries"])
            if not page.get("next"):
                break
            after = f"&after={page['next']}"
    except FAILURES as error:
        tally.failures[f"at the end: {error}"] += 1
        return
    if not tally.total <= total <= tally.total + tally.doubtful:
        tally.failures[f"orders: the total is {total}, but {tally.total} was acknowledged"] += 1


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--events", type=float, default=12_000, help="events a second in all")
    parser.add_argument("--batch", type=int, default=200, help="events in a batch")
    parser.add_argument("--singles", type=float, default=20, help="single events a second")
    parser.add_argument("--questions", type=float, default=40, help="queries a second")
    parser.add_argument("--feeds", type=int, default=30, help="live feeds open at once")
    parser.add_argument("--snapshot", type=float, default=120, help="seconds between two snapshots")
    parser.add_argument("--every", type=float, default=5, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("soak-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="laurels-soak-"))
    with (options.out / "server.log").open("w") as log:
        server = Server(folder / "boards", log)
        try:
            samples, tally = asyncio.run(soak(server, options, options.out))
            code = server.end()
        finally:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)
    return _report(options, samples, tally, code)


def _report(options: Namespace, samples: Sequence[Sample], tally: Tally, code: int) -> int:
    parts = parts_of(samples)
    wrong = errors_of(tally, code)
    long_enough = options.minutes >= LEAST_MINUTES and len(parts) == PARTS
    if long_enough:
        wrong += growth_of(parts)
    slope = slope_of(samples[len(samples) // 2 :])
    summary = {
        "minutes": options.minutes,
        "events": tally.events,
        "requests": tally.requests,
        "frames": tally.frames,
        "feeds": tally.feeds,
        "snapshots": tally.snapshots,
        "peak_rss_mib": round(tally.peak_rss / MIB, 1),
        "slope_mib_per_hour_second_half": round(slope, 2),
        "wrong": wrong,
        "parts": [asdict(part) for part in parts],
    }
    (options.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(table_of(parts))
    print(
        f"\n{tally.events:,} events, {tally.requests:,} requests, {tally.feeds:,} feeds with "
        f"{tally.frames:,} frames, {tally.snapshots} snapshots; peak RSS "
        f"{tally.peak_rss / MIB:,.0f} MiB; second half: {slope:+,.1f} MiB an hour"
    )
    for each in wrong:
        print(f"WRONG: {each}")
    if not long_enough:
        print(f"growth was not judged: that needs a run of {LEAST_MINUTES} minutes")
    elif not wrong:
        print("plateau: memory, descriptors and disk did not grow after the warm-up")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
