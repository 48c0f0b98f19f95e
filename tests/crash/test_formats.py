"""Folders of all earlier formats can be opened, and give the recorded answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import msgspec
import pytest

import laurels
from laurels.errors import FormatTooNew, SnapshotDamaged
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.form import FORMAT, MAGIC
from laurels.stores.local.snapshot.taking import opened
from tests.crash.fixtures.make import HERE, LAST, NOON, answers, fill

FORMATS = range(1, FORMAT + 1)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a copy of the recorded folder of the newest format."""
    return Path(shutil.copytree(HERE / f"format-{FORMAT}", tmp_path / "kept"))


def recorded(format: int = FORMAT) -> object:
    """Return the recorded answers. Fields of definitions that are newer than the recording get
    their default values."""
    boards = msgspec.json.decode((HERE / f"format-{format}.json").read_bytes())
    for board in boards.values():
        defined = laurels.Board.from_json(board["definition"])
        board["definition"] = msgspec.json.decode(defined.to_json())
    return boards


@pytest.mark.parametrize("format", FORMATS)
def test_a_folder_of_every_format_gives_the_recorded_answers(tmp_path: Path, format: int) -> None:
    folder = shutil.copytree(HERE / f"format-{format}", tmp_path / "kept")
    with laurels.open(folder, clock=laurels.ManualClock(LAST)) as lb:
        stored = lb.stats().kept
        assert stored.snapshot_offset is not None
        assert 1 < stored.log_from <= stored.snapshot_offset < lb.stats().offset
        assert answers(lb) == recorded(format)
        assert lb.submit("gifts", "member-5", 1, id="the last").status == "duplicate"
        lb.check()
        lb.rebuild()
        assert answers(lb) == recorded(format)


def test_the_older_snapshot_gives_the_same_answers(kept: Path) -> None:
    SnapshotFiles(kept).newest_first()[0].path.unlink()
    with laurels.open(kept, clock=laurels.ManualClock(LAST)) as lb:
        assert answers(lb) == recorded()


def test_a_rebuild_from_the_whole_log_gives_the_same_answers(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOON)
    with laurels.open(tmp_path, clock=clock, log_keep=True) as lb:
        fill(lb, clock)
        lb.rebuild()
        assert answers(lb) == recorded()


@pytest.mark.parametrize("part", range(8))
def test_a_damaged_snapshot_is_never_read(kept: Path, part: int) -> None:
    newest = SnapshotFiles(kept).newest_first()[0].path
    whole = newest.read_bytes()
    rng = Random(part)
    for place in [part, *rng.sample(range(len(whole)), 60)]:
        turned = bytearray(whole)
        turned[place] ^= 1 << rng.randrange(8)
        for content in (turned, whole[:place]):
            newest.write_bytes(content)
            with pytest.raises((SnapshotDamaged, FormatTooNew)):
                opened(newest, MemoryIndex(1))


def test_a_snapshot_of_a_later_format_is_refused_and_left_unchanged(kept: Path) -> None:
    newest = SnapshotFiles(kept).newest_first()[0].path
    content = bytearray(newest.read_bytes())
    content[len(MAGIC)] = FORMAT + 1
    newest.write_bytes(content)
    with pytest.raises(FormatTooNew, match=f"format {FORMAT + 1}"):
        laurels.open(kept)
    assert newest.read_bytes() == content
