"""Acknowledged events survive SIGKILL: each event is counted once and completely, and `check`
passes.

Kills interrupt commits, snapshots, trims of the log and the ends of steps. `make torture` has more
of them.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import laurels
from laurels.core.changes.answers import Change
from tests.conftest import Scaled
from tests.internals import local

from .writer import batch_members, room_of

IN_A_ROW = 12
SEED = 20_261_120


def _killed_run(folder: Path, first: int, lines: int) -> list[str]:
    """Run the writer until it has printed this many lines, then kill it. Return everything it
    printed."""
    command = [sys.executable, "-m", "tests.crash.writer", str(folder), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        printed = [writer.stdout.readline().strip() for _ in range(lines)]
        writer.kill()
        printed += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert all(printed), "the writer has ended"
    return printed


def _members(acknowledged: str) -> list[str]:
    if acknowledged.startswith("b"):
        return batch_members(int(acknowledged[1:]))
    return [acknowledged]


def test_every_acknowledged_event_counts_once_after_each_kill(
    tmp_path: Path, scaled: Scaled
) -> None:
    moments = random.Random(SEED)
    kills = scaled(5, 300)
    for first in range(0, kills, IN_A_ROW):
        _kill_in_a_row(tmp_path / str(first), min(IN_A_ROW, kills - first), moments)


def _judge_rooms(lb: laurels.Leaderboards, there: Iterable[str]) -> None:
    """Check that each member is ranked in its own room and in no other."""
    rooms = Counter(room_of(member)["room"] for member in there)
    assert {entry.member: entry.score for entry in lb.export("kills", by="room")} == rooms
    listed = lb.scopes("kills", "room")
    assert {scope["room"]: lb.count("kills", labels=scope) for scope in listed} == rooms


def _judge_refreshed(lb: laurels.Leaderboards, there: Iterable[str]) -> None:
    """Check that the refreshed window shows an earlier state, and that all scopes show the state of
    the same moment."""
    scores = {entry.member: entry.score for entry in lb.export("kills", window="9d")}
    assert set(scores) <= {*there}
    assert set(scores.values()) <= {1}
    rooms = Counter(room_of(member)["room"] for member in scores)
    for listed in lb.scopes("kills", "room"):
        count = lb.count("kills", window="9d", labels=listed)
        assert count == rooms[listed["room"]]
    by_room = lb.export("kills", window="9d", by="room")
    assert {entry.member: entry.score for entry in by_room} == rooms


def _assert_refreshed(lb: laurels.Leaderboards) -> None:
    """Check that the refreshed window shows all members once a refresh after the last kill is
    done."""
    while local(lb).pace(10_000)[0]:
        pass
    assert lb.count("kills", window="9d") == lb.count("kills") > 0


def _judge_changes(lb: laurels.Leaderboards, there: Iterable[str], earlier: list[str]) -> list[str]:
    """Check that each event has exactly one change, that changes from before the kill have kept
    their ids, and that no sequence number is missing. Return all ids."""
    changes, after = list[Change](), None
    while True:
        page = lb.changes("kills", after=after, limit=10_000)
        changes += page
        after = page.cursor
        if not page.more:
            break
    ids = [change.id for change in changes]
    assert ids[: len(earlier)] == earlier
    sequences = [int(id.split("/")[2]) for id in ids]
    assert sorted({*sequences}) == list(range(1, sequences[-1] + 1))
    assert sequences == sorted(sequences)
    counted = Counter(change.member for change in changes if change.kind == "event")
    assert counted == Counter(there)
    return ids


def _kill_in_a_row(folder: Path, kills: int, moments: random.Random) -> None:
    """Start and kill several writers of one folder one after another, and check the folder after
    each kill."""
    acknowledged: list[str] = []
    ids: list[str] = []
    for kill in range(kills):
        acknowledged += _killed_run(folder, kill * 1_000_000, moments.randint(1, 400))
        with laurels.open(str(folder)) as lb:
            there = {entry.member: entry.score for entry in lb.export("kills")}
            expected = [member for line in acknowledged for member in _members(line)]
            assert [there.get(member) for member in expected] == [1] * len(expected)
            assert set(there.values()) == {1}
            numbers = {member.split("-")[0] for member in there if member.startswith("b")}
            whole = [member for b in numbers for member in batch_members(int(b[1:]))]
            assert set(whole) <= set(there), "a batch was counted only in part"
            _judge_rooms(lb, there)
            _judge_refreshed(lb, there)
            ids = _judge_changes(lb, there, ids)
            lb.check()
    later = laurels.ManualClock(time.time_ns() // 1_000_000 + 1_000)
    with laurels.open(str(folder), clock=later) as lb:
        again = lb.submit_many(
            "kills", [(line, 1, None, line) for line in acknowledged if line.startswith("s")]
        )
        assert again.duplicates == len(again)
        _assert_refreshed(lb)
