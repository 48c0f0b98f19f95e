"""A store is killed while it seals, confirms and corrects. Afterwards it has exactly the payouts
that follow from the standings, each once, and every acknowledged confirmation."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

import laurels
from laurels.model.prizes import prizes_of
from tests.archive.payout_writer import DAY_MS, PRIZES
from tests.conftest import Scaled
from tests.forked import Forked
from tests.prizes import Row, recounted

START_MS = 1_795_000_000_000


def run_until_killed(
    folder: Path | str,
    start_ms: int,
    seed: int,
    lines: int,
    program: str = "tests.archive.payout_writer",
) -> list[str]:
    """Run a writer until it has printed this many lines, and kill it a moment later."""
    arguments = [folder, str(start_ms), str(seed)]
    with Forked(program, arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed: list[str] = []
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            if len(printed) == lines:
                Timer(Random(seed).random() / 50, process.kill).start()
        process.wait()
    assert process.returncode == -9
    return printed


def check(folder: Path | str, acknowledged: list[str], now_ms: int) -> None:
    """Compare all payouts with what was acknowledged, and with the standings of their periods."""
    prizes = prizes_of(PRIZES)
    with laurels.open(str(folder), clock=laurels.ManualClock(now_ms)) as lb:
        lb.seal()
        payouts: list[laurels.Payout] = []
        after: str | None = None
        while True:
            page = lb.payouts("b", limit=1_000, after=after)
            payouts += page
            if (after := page.next) is None:
                break
        assert len({each.id for each in payouts}) == len(payouts)
        references = {each.id: each.reference for each in payouts}
        owed: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        for each in payouts:
            if each.state != "superseded":
                sign = -1 if each.withdrawn else 1
                units = sign if each.amount is None else int(each.amount)
                owed[each.period][each.member, each.prize] += units
        for line in acknowledged:
            verb, _, rest = line.partition(" ")
            if verb == "confirmed":
                assert references[rest] == f"for {rest}"
            elif verb == "sealed":
                assert rest in owed
            elif verb == "disqualified":
                period, member = rest.split()
                assert lb.rank("b", member, period=period) is None
        for period, sums in owed.items():
            rows: list[Row] = [(e.member, e.score) for e in lb.top("b", period=period, limit=100)]
            won: Counter[tuple[str, str]] = Counter()
            for member, prize, amount in recounted(prizes, rows):
                won[member, prize] += 1 if amount is None else amount
            assert +sums == won, period
            assert not -sums
        check_changes(lb, payouts)
        lb.check()


def check_changes(lb: laurels.Leaderboards, payouts: list[laurels.Payout]) -> None:
    """Check that the changes of the board have each confirmation, due payout and correction exactly
    once."""
    changes: list[Any] = []
    cursor: str | None = None
    while page := lb.changes("b", after=cursor, limit=10_000):
        changes += page
        cursor = page.cursor
    by_kind: defaultdict[str, list[Any]] = defaultdict(list)
    for each in changes:
        by_kind[each.kind].append(each.data)
    confirmed = {each.id for each in payouts if each.state == "confirmed"}
    assert Counter(each["payout"] for each in by_kind["confirm"]) == Counter(confirmed)
    due = {each.id for each in payouts if each.state in ("due", "confirmed")}
    assert Counter(each["id"] for each in by_kind["payout"]) == Counter(due)
    revisions = Counter((each["period"], each["revision"]) for each in by_kind["disqualify"])
    assert set(revisions.values()) <= {1}
    for archived in lb.archived("b", limit=1_000):
        found = [number for period, number in revisions if period == archived.period]
        assert sorted(found) == list(range(1, archived.revision + 1))


def test_nothing_is_owed_twice_and_nothing_is_lost_by_kills(tmp_path: Path, scaled: Scaled) -> None:
    random: Any = Random("payout kills")
    folder = tmp_path / "boards"
    acknowledged: list[str] = []
    now_ms = START_MS
    for seed in range(scaled(8, 200)):
        acknowledged += run_until_killed(folder, now_ms, seed, random.randint(2, 40))
        at = [int(line.split()[1]) for line in acknowledged if line.startswith("at ")]
        now_ms = max([now_ms, *at]) + DAY_MS
        check(folder, acknowledged, now_ms)
