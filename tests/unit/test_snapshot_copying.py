"""A copy that is made between other operations equals the index at one moment, including all log
entries up to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.counts import some
from tests.folding import assert_same, follow
from tests.traffic import Traffic

import laurels
from laurels.stores.local.index import copying
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.taking import opened, take

# The traffic is random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the chunks of copies small, and copy in rounds until almost nothing is left."""
    monkeypatch.setattr(copying, "CHUNK", 9)
    monkeypatch.setattr(copying, "MAX_LEFT", 12)
    monkeypatch.setattr(copying, "MAX_ROUNDS", 5)
    monkeypatch.setattr(copying, "_BOARDS", 3)


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make copies of many rounds with few chunks each, even if little is left to copy."""
    monkeypatch.setattr(copying, "CHUNK", 200)
    monkeypatch.setattr(copying, "MAX_LEFT", 0)
    monkeypatch.setattr(copying, "MAX_ROUNDS", 30)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", some(1, range(8)))
def test_a_copy_in_many_pieces_matches_the_log_at_its_end(tmp_path: Path, seed: int) -> None:
    copied_amid_traffic(Traffic(seed, boards=3), tmp_path)


@pytest.mark.usefixtures("short_rounds")
@pytest.mark.parametrize("seed", some(1, range(100, 110)))
def test_a_copy_in_many_rounds_matches_the_log_at_its_end(tmp_path: Path, seed: int) -> None:
    copied_amid_traffic(Traffic(seed, boards=2), tmp_path)


BUSY = 250
"""Traffic happens after each of the first chunks of a copy, up to this number of chunks. Later
chunks have no traffic, because all traffic must be copied as well, and the comparison folds it
again."""


def copied_amid_traffic(traffic: Traffic, folder: Path) -> None:
    """Take a copy, with traffic between its chunks. Compare it with the folded log."""
    traffic.happen(100)
    pieces = 0

    def go_on() -> None:
        nonlocal pieces
        pieces += 1
        if pieces <= BUSY:
            traffic.happen(traffic.rng.choice([0, 1, 2, 4]))

    begun = traffic.log.offset
    files = SnapshotFiles(folder)
    taken = take(files, traffic.service._fold, traffic.service.reading, go_on)
    assert pieces > 10
    assert begun < taken.offset <= traffic.log.offset
    loaded = opened(taken.path, MemoryIndex(5))
    assert loaded.offset == taken.offset
    assert_same(loaded, traffic.log, loaded.now_ms)
    # If the rest of the log is folded into the copy, the copy has the state of the original.
    traffic.happen(60)
    follow(loaded, traffic.log, traffic.log.offset)
    assert_same(loaded, traffic.log, traffic.clock.now_ms())
    traffic.lb.check()
    traffic.lb.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", some(1, [2, 1, 3, 4, 5]))
def test_an_aborted_copy_does_not_affect_the_next(tmp_path: Path, seed: int) -> None:
    traffic = Traffic(1_000 + seed)
    traffic.happen(100)
    left = traffic.rng.randrange(1, 20)

    def go_on() -> None:
        nonlocal left
        left -= 1
        traffic.happen(2)
        if left == 0:
            raise laurels.errors.StorageFailed("no room")

    with pytest.raises(laurels.errors.StorageFailed):
        take(SnapshotFiles(tmp_path), traffic.service._fold, traffic.service.reading, go_on)
    assert not list(tmp_path.iterdir())
    traffic.happen(20)
    again = partial(traffic.happen, 2)
    taken = take(SnapshotFiles(tmp_path), traffic.service._fold, traffic.service.reading, again)
    loaded = opened(taken.path, MemoryIndex(seed))
    assert_same(loaded, traffic.log, loaded.now_ms)
    traffic.lb.close()
