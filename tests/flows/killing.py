"""Helpers of the tests that kill sinks: they write events to a board, run sinks as processes, and
open the targets.

A test kills a sink only after the target has received more changes, not while the sink is still
starting. At the end, the test compares the content of the target with the acknowledged events.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import nats
import psycopg
import pymysql

import laurels
from tests.forked import Forked
from tests.redis.servers import WITHIN_SECONDS, Server, until
from tests.serving import ADMIN_KEY

from .databases import MariaDB, Nats, Postgres
from .sinking import create_stream, ledger, messages, rankings, rows
from .test_webhook import Receiver

BOARD = laurels.Board("b", windows=["all", "day"], changes="7d")
MEMBERS = 60


@dataclass
class Acknowledged:
    """The number of acknowledged events, and the scores that these events result in."""

    events: int = 0
    scores: Counter[str] = field(default_factory=Counter)


class Load(Acknowledged):
    """Writes random events to a board, and counts those that were acknowledged."""

    def __init__(self, lb: laurels.Leaderboards, random: Random) -> None:
        super().__init__()
        self._lb = lb
        self._random = random

    def write(self, batches: int = 1) -> None:
        """Write this number of batches, and remove a member after some of them."""
        for _ in range(batches):
            events = [(self._member(), self._random.randrange(1, 100)) for _ in range(200)]
            self._lb.submit_many("b", events)
            self.events += len(events)
            for member, value in events:
                self.scores[member] += value
            if self._random.random() < 0.2:
                member = self._member()
                self._lb.remove("b", member)
                del self.scores[member]

    def _member(self) -> str:
        return f"m{self._random.randrange(MEMBERS)}"


@dataclass
class Tally:
    """The kills of one test, and how much the target differs from the board at the end."""

    kills: int = 0
    progressed: int = 0
    """The number of kills with progress: between the previous kill and this kill, the target had
    received changes."""
    events: int = 0
    missing: int = 0
    twice: int = 0
    disordered: int = 0

    def count(self, *, progressed: bool) -> None:
        """Count a kill. `progressed` says whether the target has received changes since the
        previous kill."""
        self.kills += 1
        self.progressed += progressed

    def compare(self, delivered: Sequence[object], wanted: Sequence[object]) -> None:
        """Compare what was delivered with the expected list. Count the missing and the repeated
        elements, and record whether the order differs."""
        first = list(dict.fromkeys(delivered))
        self.missing += len({*wanted} - {*delivered})
        self.twice += len(delivered) - len(first)
        self.disordered += first != [*wanted]


class SinkProcess:
    """A process of `laurels sink run` that a test kills and starts again."""

    def __init__(self, server: str, target: str, folder: Path, *options: str) -> None:
        self._arguments = [
            *("sink", "run", "s", "--at", server),
            *("--to", target, "--allow-private", *options),
        ]
        self._environment = {**os.environ, "LAURELS_KEY": ADMIN_KEY}
        self._folder = folder
        self._child: Forked | None = None

    def start(self) -> None:
        with (self._folder / "sink.log").open("ab") as log:
            self._child = Forked(
                "laurels",
                self._arguments,
                folder=self._folder,
                environment=self._environment,
                stdout=log,
                stderr=log,
            )

    def wait_for(
        self, condition: Callable[[], object], what: str, seconds: float = WITHIN_SECONDS
    ) -> None:
        """Wait until the condition, which the running sink brings about, is true. Fail if the sink
        ends first."""

        def holds() -> bool:
            assert self._child is not None
            assert self._child.poll() is None, (self._folder / "sink.log").read_text()[-2_000:]
            return bool(condition())

        until(holds, what, seconds)

    def kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()

    def finish(self) -> None:
        """End the sink process. Then send the remaining changes with another process."""
        self.kill()
        done = subprocess.run(
            [sys.executable, "-m", "laurels", *self._arguments, "--until-end"],
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()

    def __enter__(self) -> SinkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass
class Target(ABC):
    """The target of a sink, whose content a test can read."""

    url: str
    program: Any = None
    """The server of the target, if a test may kill it and start it again; otherwise None."""
    resends: int = 0
    """The largest number of changes that the sink may repeat after each kill."""

    @abstractmethod
    def progress(self) -> object:
        """Return a value that changes whenever the sink has delivered more."""

    @abstractmethod
    def has_all(self, lb: laurels.Leaderboards) -> bool:
        """Return whether the target has every change of the board."""

    @abstractmethod
    def compare(self, lb: laurels.Leaderboards, load: Acknowledged, tally: Tally) -> None:
        """Add to the tally the changes that the target lacks and those that it has twice."""


class Ledger(Target):
    """A ledger: tables of a database."""

    def progress(self) -> object:
        try:
            return rows(self.url, "SELECT position FROM laurels_sinks") or None
        except (psycopg.Error, pymysql.Error, sqlite3.Error, laurels.LaurelsError):
            return None  # the ledger has no tables yet, or its server is down

    def has_all(self, lb: laurels.Leaderboards) -> bool:
        return ledger(self.url, BOARD) == rankings(lb, BOARD)

    def compare(self, lb: laurels.Leaderboards, load: Acknowledged, tally: Tally) -> None:
        """Compare scores instead of changes, because a ledger has only the totals."""
        written = ledger(self.url, BOARD)
        scores = {member: score for member, (score,) in written["all", "", ""].items()}
        for member in scores.keys() | load.scores:
            difference = scores.get(member, 0) - load.scores[member]
            tally.missing += max(0, -difference)
            tally.twice += max(0, difference)
        assert written == rankings(lb, BOARD)


@dataclass
class List(Target):
    """A list of changes, in the order of their arrival."""

    documents: Callable[[], list[Any]] = list
    length: Callable[[], object] = int
    by_member: bool = False
    """Whether the target keeps the order only among the changes of each member."""

    def progress(self) -> object:
        return self.length()

    def has_all(self, lb: laurels.Leaderboards) -> bool:
        delivered = {document["id"] for document in self.documents()}
        return delivered.issuperset([change.id for change in stored(lb)])

    def compare(self, lb: laurels.Leaderboards, load: Acknowledged, tally: Tally) -> None:
        wanted = [(change.member, change.id) for change in stored(lb)]
        delivered = [
            (document["member"], document["id"])
            for document in self.documents()
            if document["kind"] != "position"
        ]
        assert sum(change.kind == "event" for change in stored(lb)) == load.events
        if not self.by_member:
            tally.compare(delivered, wanted)
            return
        for member in {member for member, _ in wanted} | {member for member, _ in delivered}:
            tally.compare(
                [id for name, id in delivered if name == member],
                [id for name, id in wanted if name == member],
            )


def judge(
    kind: str, to: Target, lb: laurels.Leaderboards, load: Acknowledged, tally: Tally
) -> None:
    """Assert that the target lacks no acknowledged event, and that it repeats no more events than
    it may."""
    tally.events = load.events
    to.compare(lb, load, tally)
    print(f"{kind}: {tally}")
    assert tally.progressed == tally.kills > 0, "every kill must come after some progress"
    assert (tally.missing, tally.disordered) == (0, 0)
    assert tally.twice <= to.resends * tally.kills


def stored(lb: laurels.Leaderboards) -> list[Any]:
    """Return all changes of the board except changes of positions."""
    changes: list[Any] = []
    after = None
    while True:
        page = lb.changes("b", after=after, limit=10_000)
        changes += [change for change in page if change.kind != "position"]
        after = page.cursor
        if not page.more:
            return changes


@contextmanager
def target(kind: str, folder: Path) -> Iterator[Target]:
    """Open an empty target of this kind."""
    if kind == "sqlite":
        yield Ledger(f"sqlite:///{folder}/ledger.db")
    elif kind in ("postgres", "mariadb"):
        with Postgres() if kind == "postgres" else MariaDB() as database:
            yield Ledger(database.url, database)
    elif kind == "redis":
        with Server("--appendfsync", "always") as redis:
            yield List(
                f"{redis.url}/0/changes",
                redis,
                documents=lambda: [
                    msgspec.json.decode(fields[3])
                    for _, fields in redis.call("XRANGE", "changes", "-", "+")
                ],
                length=lambda: redis.call("XLEN", "changes"),
            )
    elif kind == "nats":
        with Nats() as broker:
            asyncio.run(create_stream(broker.url))
            yield List(
                f"{broker.url}/changes.{{board}}.{{member}}",
                broker,
                documents=lambda: asyncio.run(messages(broker.url)),
                length=lambda: asyncio.run(_length(broker.url)),
                by_member=True,
            )
    elif kind == "webhook":
        with Receiver() as receiver:
            yield List(
                receiver.url,
                resends=500,
                documents=lambda: [change for page in receiver.taken for change in page],
                length=lambda: len(receiver.taken),
            )
    else:
        path = folder / "changes.jsonl"
        path.touch()
        yield List(
            str(path),
            resends=1_000,
            documents=lambda: _lines(path),
            length=lambda: path.stat().st_size,
        )


def _lines(path: Path) -> list[Any]:
    """Return the complete lines of a file. If a kill has cut a line, the sink has sent that change
    again."""
    documents = []
    for line in path.read_bytes().splitlines():
        try:
            documents.append(msgspec.json.decode(line))
        except msgspec.DecodeError:
            continue
    return documents


async def _length(url: str) -> int | None:
    try:
        client = await nats.connect(url, allow_reconnect=False, error_cb=_ignore)
        try:
            return (await client.jetstream().stream_info("changes")).state.messages
        finally:
            await client.close()
    except (nats.errors.Error, OSError):
        return None


async def _ignore(_: Exception) -> None:
    """Ignore an error of a connection, because the call that uses the connection raises it, too."""
