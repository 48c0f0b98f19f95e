"""A service of an index server and a sink of it, each a process of its own, are killed while
periods and boundaries are sealed, boards are cleared and members are erased.

At the end each period was closed and sealed once and is whole in the archive, each prize was paid
once, and nothing names a member that was erased.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from tests.conftest import Scaled
from tests.counts import some
from tests.flows.killing import SinkProcess
from tests.flows.test_season_kills import PATIENCE_SECONDS, Server, all_changes, all_payouts

from .servers import Server as IndexServer
from .servers import until
from .test_erasing import Place

HOUR_MS = 3_600_000
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
HEAD, ARCHIVED = 100, 200
"""The head of a board, and how many of its positions are archived."""
MEMBERS = 400
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": 100},
        {"name": "top", "ranks": [2, 60], "amount": 3},
    ]
}
HOUR = {"name": "hour", "type": "hour", "prizes": PRIZES}
SHOWN = {"name": "shown", "type": "rolling", "span": "3h", "step": "1h"}
FIELDS: dict[str, Any] = {"changes": "3650d", "ledger": "main"}
BOARDS = (
    laurels.Board("head", windows=["all", HOUR], head=HEAD, tie="member", **FIELDS),
    laurels.Board(
        "rolling",
        windows=["all", {**SHOWN, "archive": "forever", "archive_every": "1h"}],
        shards=3,
        **FIELDS,
    ),
    laurels.Board(
        "cleared", windows=["all", "hour:archive=forever"], scopes=[[], ["room"]], **FIELDS
    ),
)
KINDS = ("seal", "erase", "clear")
MOMENT_SECONDS = 0.004
"""The maximum time between a stage and the kill."""
CHANGES_KEY = ":h'"
"""The end of the keys of changes. Changes name an erased member until they are no longer kept, as
the answer of the erasure says."""


class Season:
    """Hours that are played one after another. In each a process is killed."""

    def __init__(self, url: str, folder: Path, random: Random) -> None:
        self.random = random
        self.server = Server(url, "tests.redis.season_server", NOW_MS)
        self.followed = folder / "followed.db"
        self.sink = SinkProcess(self.server.url, f"sqlite:///{self.followed}", folder)
        self.hours: dict[str, dict[str, int]] = {}
        """The scores of the board with a head, by hour."""
        self.erased: set[str] = set()
        self.kills: Counter[str] = Counter()

    def begin(self) -> None:
        self.server.start()
        with self.server.boards() as lb:
            for board in BOARDS:
                lb.create(board)
        self.sink.start()

    def play(self, kind: str) -> None:
        """Play an hour, and kill the server in the middle of this kind of call."""
        self._write()
        self.server.advance(HOUR_MS)
        victim = ""
        if kind == "erase":
            with self.server.boards() as lb:
                lb.seal()
                victim = self._paid_winner(lb)
        act: dict[str, Callable[[laurels.Leaderboards], object]] = {
            "seal": lambda lb: lb.seal(),
            "erase": lambda lb: lb.erase(victim, "asked for it"),
            "clear": lambda lb: lb.clear("cleared"),
        }
        self._kill_during(kind, act[kind])
        with self.server.boards() as lb:
            act[kind](lb)
            lb.seal()
            if victim:
                self.erased.add(victim)
            self._check_hour(lb, max(self.hours))
            if kind == "clear":
                assert list(lb.top("cleared")) == []

    def _write(self) -> None:
        """Count the events of an hour. Each hour has members of its own."""
        number, random = len(self.hours), self.random
        values = random.sample(range(10_000), MEMBERS)  # ties could share a prize
        scores = {f"r{number:03}m{i:03}": value for i, value in enumerate(values)}
        few = list(scores.items())[:20]
        with self.server.boards() as lb:
            lb.submit_many("head", list(scores.items()))
            lb.submit_many("rolling", few)
            lb.submit_many("cleared", [laurels.Event(*each, labels={"room": "a"}) for each in few])
            self.hours[lb.periods("head", "hour")[0].label] = scores

    def _paid_winner(self, lb: laurels.Leaderboards) -> str:
        """Confirm the payouts of a winner of the last hour, and return the member."""
        member, _ = self._ranked(max(self.hours))[self.random.randrange(60)]
        for payout in lb.payouts("head", member=member):
            lb.confirm("head", payout.id, "paid")
        return member

    def _kill_during(self, kind: str, act: Callable[[laurels.Leaderboards], object]) -> None:
        """Kill the server soon after one of the calls or transactions of `act`, and sometimes the
        sink as well. Start them again."""

        def run() -> None:
            with suppress(laurels.LaurelsError), self.server.boards() as lb:
                act(lb)

        before, stages = len(self.server.lines), self.random.randint(1, 60)
        acting = threading.Thread(target=run, daemon=True)
        acting.start()
        until(
            lambda: len(self.server.lines) >= before + stages or not acting.is_alive(),
            f"the server is at {kind}",
            PATIENCE_SECONDS,
        )
        time.sleep(self.random.random() * MOMENT_SECONDS)  # so the kill happens at a random moment
        self.server.kill()
        self.kills[kind] += acting.is_alive()
        if self.random.random() < 0.5:
            self.sink.kill()
            self.sink.start()
            self.kills["sink"] += 1
        self.server.start()

    def _ranked(self, label: str) -> list[tuple[str, int]]:
        return sorted(self.hours[label].items(), key=lambda each: (-each[1], each[0]))

    def _check_hour(self, lb: laurels.Leaderboards, label: str) -> None:
        """Check the archive of an hour: the first positions, with a token in place of each erased
        member."""
        of_hour: dict[str, Any] = {"window": "hour", "period": label}
        assert lb.verify("head", **of_hour).verified
        expected = [
            ("erased" if member in self.erased else member, score)
            for member, score in self._ranked(label)[:HEAD]
        ]
        listed = [
            ("erased" if entry.member.startswith("erased-") else entry.member, entry.score)
            for entry in lb.top("head", limit=HEAD, **of_hour)
        ]
        assert listed == expected
        [sealed] = [each for each in lb.archived("head") if each.period == label]
        assert (sealed.entries, sealed.revision) == (ARCHIVED, 0)

    def finish(self, place: Place) -> None:
        """Let the sink send what it has not sent, and check everything."""
        with self.server.boards() as lb:
            lb.seal()
        self.sink.finish()
        with self.server.boards() as lb:
            for label in self.hours:
                self._check_hour(lb, label)
            for board in BOARDS:
                self._check_periods(lb, board.name)
            ids = self._check_payouts(lb)
            audited = str(list(lb.audit(limit=1_000)))
            lb.check()
        with closing(sqlite3.connect(self.followed)) as database:
            followed = " ".join(database.iterdump())
            sent = {id for (id,) in database.execute("SELECT id FROM laurels_payouts")}
        assert sent == ids
        texts = [text for text in place.texts() if not text.partition(" ")[0].endswith(CHANGES_KEY)]
        for member in self.erased:
            assert member not in audited
            assert member not in followed
            assert [text for text in texts if member in text] == []
        print(f"{self.kills}; {len(ids)} payouts, {len(self.erased)} members erased")

    def _check_periods(self, lb: laurels.Leaderboards, board: str) -> None:
        """Check that each period of a board was closed once and sealed once, in the same order, and
        is whole in the archive."""
        changes = all_changes(lb, board)
        closes, seals = [
            [(each.data["window"], each.data["period"]) for each in changes if each.kind == kind]
            for kind in ("close", "seal")
        ]
        assert max(Counter(closes).values()) == 1
        assert closes == seals
        archived = lb.archived(board, limit=1_000)
        assert {(each.window, each.period) for each in archived} == set(seals)
        for each in archived:
            assert lb.verify(board, window=each.window, period=each.period).verified

    def _check_payouts(self, lb: laurels.Leaderboards) -> set[str]:
        """Check that each prize was made once, and return the ids of all payouts."""
        payouts = all_payouts(lb, "head")
        made = Counter((each.period, each.position, each.prize) for each in payouts)
        owed = {
            (label, position, "gold" if position == 1 else "top"): 1
            for label in self.hours
            for position in range(1, 61)
        }
        assert made == owed
        for each in payouts:
            member, _ = self._ranked(each.period)[each.position - 1]
            assert each.member.startswith("erased-") if member in self.erased else True
            assert each.member == member or member in self.erased
        return {each.id for each in payouts}

    def end(self) -> None:
        self.sink.kill()
        self.server.kill()


@pytest.mark.parametrize("seed", some(1, range(2)))
def test_nothing_is_lost_or_done_twice_by_kills_of_a_service_and_a_sink(
    seed: int, tmp_path: Path, scaled: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_LEDGER_MAIN", f"sqlite:////{tmp_path / 'ledger.db'}")
    clock, server = laurels.ManualClock(NOW_MS), IndexServer()
    season = Season(server.url, tmp_path, Random(f"index server kills {seed}"))
    try:
        season.begin()
        for number in range(scaled(len(KINDS), 50)):
            season.play(KINDS[number % len(KINDS)])
        with ExitStack() as stack:
            season.finish(Place(f"{server.url}?prefix=", clock, stack))
    finally:
        season.end()
        server.stop()
