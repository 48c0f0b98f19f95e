"""A source is paused, and a second run of the same source overtakes it. When the first run resumes,
it counts nothing twice: each commit names the position that it follows, and the store compares this
with its own position."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import laurels
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import Served

from .sourcing import FOUR_FIELDS, SourceProcess, four_fields, scores, written
from .test_source_kills import TELLING

MEMBERS, EACH = 12, 20
BOARDS = ("gifts", "gold")


@pytest.fixture(params=["service", "redis", "shards"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store with the boards gifts and gold, which are still empty."""
    shards = 3 if request.param == "shards" else 1
    boards = [laurels.Board(name, windows=["all", "day"], shards=shards) for name in BOARDS]
    if request.param == "service":
        with laurels.open(tmp_path / "boards") as lb:
            for board in boards:
                lb.create(board)
        with Served(tmp_path / "boards") as server:
            yield server.url
        return
    with Server() as redis:
        with laurels.open(redis.url) as lb:
            for board in boards:
                lb.create(board)
        yield redis.url


def test_an_overtaken_run_counts_nothing_more(at: str, tmp_path: Path, scaled: Scaled) -> None:
    rng = Random(7)
    events = [four_fields(board, f"m{i}", 1) for i in range(MEMBERS) for board in BOARDS]
    source = ("source", "--at", at, "--map", FOUR_FIELDS)
    for number in range(scaled(1, 40)):
        file = written(tmp_path / f"events{number}", events * 10)
        how = (f"s{number}", *source[1:], "--from", str(file))
        with SourceProcess(tmp_path, *how, "--batch", "5", prelude=TELLING) as paused:
            paused.wait_for_batches(rng.randrange(1, 20))
            paused.child.send_signal(signal.SIGSTOP)
            with SourceProcess(tmp_path, *how, "--batch", "7", "--until-end") as other:
                code, _, err = other.ended()
            assert code == 0, err
            paused.child.send_signal(signal.SIGCONT)
            code, _, err = paused.ended()
            assert (code, "source_overtaken" in err) == (2, True), err
        for board in BOARDS:
            assert scores(at, board) == {f"m{i}": 10 * (number + 1) for i in range(MEMBERS)}


def test_two_runs_at_once_count_once(at: str, tmp_path: Path) -> None:
    events = [four_fields(board, f"m{i}", 1) for i in range(MEMBERS) for board in BOARDS]
    file = written(tmp_path / "events", events * EACH)
    how = ("s", "--at", at, "--map", FOUR_FIELDS, "--from", str(file), "--until-end")
    with (
        SourceProcess(tmp_path, *how, "--batch", "7") as one,
        SourceProcess(tmp_path, *how, "--batch", "11") as other,
    ):
        codes = [one.ended(), other.ended()]
    assert all(code in (0, 2) for code, _, _ in codes), codes
    with SourceProcess(tmp_path, *how) as last:
        code, _, err = last.ended()
    assert code == 0, err
    for board in BOARDS:
        assert scores(at, board) == {f"m{i}": EACH for i in range(MEMBERS)}
