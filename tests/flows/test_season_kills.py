"""A server and a sink, each a process of its own, are killed around closings, archive writes and
payouts, while the receiver misbehaves or is down for a week.

At the end each period was closed and sealed once, the archive has its standings, and the receiver,
which counts payouts by their ids, has each payout once and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import Change
from laurels.model.prizes import prizes_of
from tests.conftest import Scaled
from tests.counts import some
from tests.prizes import recounted
from tests.redis.servers import until
from tests.serving import ADMIN_KEY

from .killing import SinkProcess
from .moody_receiver import MOODS, MoodyReceiver, free_port
from .paying import DAY_MS, HOUR_MS, NOON_MS

MEMBERS = 1_500
EVENTS = 2_000
"""The number of events of a day."""
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "tenth", "percent": 10, "amount": 7},
        {"name": "many", "at_least": 500},
    ],
    "pay_after": "1h",
}
BOARD = laurels.Board(
    "b",
    tie="member",
    windows=["all", {"name": "day", "type": "day", "prizes": PRIZES}],
    changes="3650d",
    dedupe="3650d",
)
SERVER = {"close": 1, "archive": 2, "payouts": 150, "seal": 2}
"""The stages at which the server is killed. The value is the maximum number of lines of the stage
before the kill."""
KINDS = (*SERVER, "emit", "sink", "both")
PATIENCE_SECONDS = 3_600
"""On a busy machine a process may take minutes to start."""
MOMENT_SECONDS = 0.004
"""The maximum time between the line of a stage and the kill."""


class Server:
    """The process of the server, with the lines that it prints and the time of its clock."""

    def __init__(
        self, data: Path | str, program: str = "tests.flows.season_server", now_ms: int = NOON_MS
    ) -> None:
        self._command = [sys.executable, "-m", program, str(data)]
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None
        self.now_ms = now_ms
        self.lines: list[str] = []
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process if it does not run."""
        if self._process is not None:
            return
        self.lines = []
        self._process = subprocess.Popen(
            [*self._command, str(self._port), str(self.now_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, args=(self._process, self.lines), daemon=True).start()
        self.wait_for("ready")

    def _read(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())

    def wait_for(self, line: str, count: int = 1) -> None:
        def is_there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, "the server has ended"
            return self.lines.count(line) >= count

        until(is_there, f"the server prints {line}", PATIENCE_SECONDS)

    def advance(self, by_ms: int) -> None:
        """Advance the clock."""
        assert self._process is not None
        assert self._process.stdin is not None
        self.now_ms += by_ms
        before = self.lines.count("advanced")
        self._process.stdin.write(f"{by_ms}\n")
        self._process.stdin.flush()
        self.wait_for("advanced", before + 1)

    def kill(self) -> None:
        """Kill the process if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.returncode == -9

    @contextmanager
    def boards(self) -> Iterator[laurels.Leaderboards]:
        with laurels.open(self.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
            yield lb


class Season:
    """Days that are played one after another. On each day a process is killed."""

    def __init__(self, folder: Path, receiver: MoodyReceiver, random: Random) -> None:
        self.random, self.receiver = random, receiver
        self.server = Server(folder / "boards")
        self.sink = SinkProcess(self.server.url, receiver.url, folder, "--payouts-only")
        self.days: dict[str, Counter[str]] = {}
        self.confirmed: dict[str, str] = {}
        self.kills: Counter[str] = Counter()

    def begin(self) -> None:
        self.server.start()
        with self.server.boards() as lb:
            lb.create(BOARD)
        self.sink.start()

    def play(self, kind: str) -> None:
        """Play a day with a kill of this kind."""
        random = self.random
        self._write()
        self.receiver.moods.extend(random.choices(MOODS, k=random.randrange(3)))
        self.server.advance(DAY_MS // 2 + HOUR_MS // 2 + random.randrange(HOUR_MS))
        if kind in SERVER:
            self._kill_server(kind, random.randint(1, SERVER[kind]))
        with self.server.boards() as lb:
            lb.seal()
            self._check_last_day(lb)
        self._pay(kind)
        self.server.advance(NOON_MS % DAY_MS + DAY_MS - self.server.now_ms % DAY_MS)

    def _write(self) -> None:
        """Count the events of a day."""
        random = self.random
        events = [(f"m{random.randrange(MEMBERS)}", random.randrange(100)) for _ in range(EVENTS)]
        with self.server.boards() as lb:
            lb.submit_many("b", events)
            scores = self.days.setdefault(lb.periods("b", "day")[0].label, Counter())
        for member, value in events:
            scores[member] += value

    def _kill_server(self, stage: str, count: int) -> None:
        """Let the server close and seal what is due. Kill the server soon after it has begun the
        stage for the `count`-th time in this work, and start it again."""
        before = self.server.lines.count(stage)
        sealing = threading.Thread(target=self._seal, daemon=True)
        sealing.start()
        until(
            lambda: self.server.lines.count(stage) >= before + count or not sealing.is_alive(),
            f"the server is at {stage}",
            PATIENCE_SECONDS,
        )
        time.sleep(self.random.random() * MOMENT_SECONDS)  # so the kill happens at a random moment
        self.server.kill()
        self.kills[stage] += 1
        self.server.start()

    def _seal(self) -> None:
        with suppress(laurels.LaurelsError), self.server.boards() as lb:
            lb.seal()

    def _check_last_day(self, lb: laurels.Leaderboards) -> None:
        """Check the archive of the day that has ended."""
        label = max(self.days)
        verified = lb.verify("b", window="day", period=label)
        assert verified.verified
        [archived] = [each for each in lb.archived("b", "day") if each.period == label]
        assert (archived.entries, archived.revision) == (len(self.days[label]), 0)
        exported = lb.export("b", window="day", period=label)
        assert [(entry.member, entry.score) for entry in exported] == self._ranked(label)

    def _pay(self, kind: str) -> None:
        """Advance the clock until the payouts of the day are due, let the sink send them, and
        confirm two of them. Meanwhile the receiver may be down for a week, and processes may be
        killed."""
        is_down = self.random.random() < 0.15
        if is_down:
            self.receiver.go_down()
            self.server.advance(7 * DAY_MS)
        before = self.receiver.requests
        self.server.advance(HOUR_MS)
        if kind == "emit":
            self._kill_server("emit", 1)
        self._seal()
        if is_down:
            self.receiver.come_back()
            self._restart_sink()
        if kind in ("sink", "both"):
            self.sink.wait_for(
                lambda: self.receiver.requests > before, "the sink sends", PATIENCE_SECONDS
            )
            time.sleep(self.random.random() * MOMENT_SECONDS)
            if kind == "both":
                self.server.kill()
            self.kills[kind] += 1
            self._restart_sink()
            self.server.start()
        with self.server.boards() as lb:
            for payout in lb.payouts("b", state="due", limit=2):
                lb.confirm("b", payout.id, f"for {payout.id}")
                self.confirmed[payout.id] = f"for {payout.id}"

    def _restart_sink(self) -> None:
        self.sink.kill()
        self.sink.start()

    def _ranked(self, label: str) -> list[tuple[str, int]]:
        return sorted(self.days[label].items(), key=lambda each: (-each[1], each[0]))

    def finish(self) -> None:
        """Let the sink send the remaining payouts. Then check that the payouts are exactly those
        that were won, and that the receiver has all of them."""
        self.receiver.moods.clear()
        self.server.advance(DAY_MS)
        self._seal()
        self.sink.finish()
        with self.server.boards() as lb:
            payouts = all_payouts(lb)
            changes = all_changes(lb)
        self._check_changes(changes)
        prizes = prizes_of(PRIZES)
        won = {
            (label, *award): 1
            for label in self.days
            for award in recounted(prizes, self._ranked(label))
        }
        scales = {prize.name: prize.scale for prize in prizes.list}
        made = [
            (each.period, each.member, each.prize, _units(each.amount, scales[each.prize]))
            for each in payouts
        ]
        assert Counter(made) == won
        assert {each.id: each.reference for each in payouts if each.reference} == self.confirmed
        self._check_receiver([each.id for each in payouts])

    def _check_changes(self, changes: list[Change]) -> None:
        """Check that each day was closed once and sealed once, in order."""
        for kind in ("close", "seal"):
            labels = [each.data["period"] for each in changes if each.kind == kind]
            assert labels == sorted(self.days)

    def _check_receiver(self, ids: list[str]) -> None:
        """Check that the receiver has each payout, and that repeated messages of a payout had the
        same content."""
        contents: dict[str, Any] = {}
        for each in self.receiver.taken:
            paid = {"state": None, "reference": None, "confirmed_ms": None}
            content = {**each, "data": {**each["data"], **paid}}
            assert contents.setdefault(each["id"], content) == content
        assert sorted(contents) == sorted(ids)
        print(f"{self.kills}; {len(self.receiver.taken)} messages of {len(ids)} payouts")

    def end(self) -> None:
        self.sink.kill()
        self.server.kill()


def _units(amount: Any, scale: int) -> int | None:
    """Return an amount in units of its last decimal place."""
    return None if amount is None else int(amount * 10**scale)


def all_payouts(lb: laurels.Leaderboards, board: str = "b") -> list[laurels.Payout]:
    """Return all payouts of a board."""
    return _all(lambda after: lb.payouts(board, limit=1_000, after=after), lambda page: page.next)


def all_changes(lb: laurels.Leaderboards, board: str = "b") -> list[Change]:
    """Return all changes of a board."""
    return _all(
        lambda after: lb.changes(board, limit=10_000, after=after),
        lambda page: page.cursor if page.more else None,
    )


def _all(read: Callable[[str | None], Any], following: Callable[[Any], str | None]) -> list[Any]:
    found: list[Any] = []
    after: str | None = None
    while True:
        page = read(after)
        found += page
        if (after := following(page)) is None:
            return found


@pytest.mark.parametrize("seed", some(1, range(4)))
def test_each_payout_arrives_once_after_kills_of_the_server_and_the_sink(
    seed: int, tmp_path: Path, scaled: Scaled
) -> None:
    random = Random(f"season kills {seed}")
    with MoodyReceiver() as receiver:
        season = Season(tmp_path, receiver, random)
        try:
            season.begin()
            for number in range(scaled(len(KINDS), 50)):
                season.play(KINDS[number % len(KINDS)])
            season.finish()
        finally:
            season.end()
