"""Nothing is missing, nothing is there twice and the order holds, whoever is killed when.

The events come through the service while the sink, a process of its own, or the database are
killed at random moments. The long counts run in `make torture`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import laurels
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, Served

from .databases import MariaDB, Postgres
from .sinking import ledger, rankings

BOARD = laurels.Board("b", windows=["all", "day"], changes="7d")
BATCHES = 12
"""Batches of events from one kill to the next."""


class SinkProcess:
    """`laurels sink run`, killed and begun again."""

    def __init__(self, server: str, target: str) -> None:
        self._command = [
            *(sys.executable, "-m", "laurels", "sink", "run", "s", "--at", server),
            *("--to", target, "--allow-private"),
        ]
        self._environment = {**os.environ, "LAURELS_KEY": ADMIN_KEY}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def finish(self) -> None:
        """Send what is left, and end."""
        done = subprocess.run(
            [*self._command, "--until-end"],
            env=self._environment,
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def served(folder: Path) -> Iterator[tuple[Served, laurels.Leaderboards]]:
    with (
        Served(folder, admin_key=ADMIN_KEY) as server,
        laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb,
    ):
        lb.create(BOARD)
        yield server, lb


def write(lb: laurels.Leaderboards, random: Random) -> None:
    """A batch of events; sometimes a member is removed."""
    events = [(f"m{random.randrange(60)}", random.randrange(1, 100)) for _ in range(200)]
    lb.submit_many("b", events)
    if random.random() < 0.2:
        lb.remove("b", f"m{random.randrange(60)}")


def ids(lb: laurels.Leaderboards) -> list[str]:
    """The ids of all changes but the positions of sinks."""
    found: list[str] = []
    after = None
    while True:
        page = lb.changes("b", after=after, limit=10_000)
        found += [change.id for change in page if change.kind != "position"]
        after = page.cursor
        if not page.more:
            return found


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite"])
def test_a_ledger_is_exact_after_kills_of_its_sink(
    kind: str, tmp_path: Path, scaled: Scaled
) -> None:
    random = Random(f"sink {kind}")
    with served(tmp_path / "boards") as (server, lb), database(kind, tmp_path) as (url, _):
        sink = SinkProcess(server.url, url)
        for _ in range(scaled(3, 100)):
            sink.start()
            for _ in range(random.randrange(1, BATCHES)):
                write(lb, random)
            sink.kill()
        sink.finish()
        assert ledger(url, BOARD) == rankings(lb, BOARD)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_ledger_is_exact_after_kills_of_its_database(
    kind: str, tmp_path: Path, scaled: Scaled
) -> None:
    random = Random(f"database {kind}")
    with served(tmp_path / "boards") as (server, lb), database(kind, tmp_path) as (url, program):
        sink = SinkProcess(server.url, url)
        sink.start()
        for _ in range(scaled(2, 50)):
            for _ in range(random.randrange(1, BATCHES)):
                write(lb, random)
            program.kill()
            write(lb, random)
            program.start()
        sink.kill()
        sink.finish()
        assert ledger(url, BOARD) == rankings(lb, BOARD)


def test_a_stream_has_each_change_once_after_kills(tmp_path: Path, scaled: Scaled) -> None:
    """Of the sink, and of a server that writes each command to the disk."""
    random = Random("stream")
    with (
        served(tmp_path / "boards") as (server, lb),
        Server("--appendfsync", "always") as redis,
    ):
        sink = SinkProcess(server.url, f"{redis.url}/0/changes")
        for _ in range(scaled(3, 100)):
            sink.start()
            for _ in range(random.randrange(1, BATCHES)):
                write(lb, random)
            sink.kill()
        sink.finish()
        found = redis.call("XRANGE", "changes", "-", "+")
        assert [fields[1].decode() for _, fields in found] == ids(lb)


def test_lines_miss_nothing_after_kills(tmp_path: Path, scaled: Scaled) -> None:
    """A file keeps no position: a line may be there again, never be missing, never be cut."""
    random = Random("lines")
    path = tmp_path / "changes.jsonl"
    with served(tmp_path / "boards") as (server, lb):
        sink = SinkProcess(server.url, str(path))
        for _ in range(scaled(3, 100)):
            sink.start()
            for _ in range(random.randrange(1, BATCHES)):
                write(lb, random)
            sink.kill()
        sink.finish()
        first: dict[str, None] = {}
        for line in path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):  # cut by a kill, and then sent again
                change: Any = msgspec.json.decode(line)
                first.setdefault(change["id"])
        assert list(first) == ids(lb)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[tuple[str, Any]]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/ledger.db", None
        return
    with Postgres() if kind == "postgres" else MariaDB() as program:
        yield program.url, program
