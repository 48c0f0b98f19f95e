"""Folders that an earlier version wrote: they open, give the same answers, pass `check`, and accept
new events."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import laurels
from tests.golden import folder
from tests.golden.trace import BOARDS


@pytest.fixture(params=folder.folders(), ids=lambda path: path.name)
def kept(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


def test_a_folder_of_an_earlier_version_gives_the_recorded_answers(
    kept: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(kept, tmp_path / "boards")
    clock = laurels.ManualClock(folder.end_ms(kept))
    with laurels.open(copied, clock=clock) as lb:
        assert folder.encoded(folder.answers(lb)) == folder.expected(kept)
        assert lb.check().boards == len(BOARDS) + 1
        assert lb.submit("sums", "member-001", 5).status == "applied"
    with laurels.open(copied, clock=clock) as lb:
        rank = lb.rank("sums", "member-001")
        lb.rebuild()
        assert lb.rank("sums", "member-001") == rank is not None


def test_there_are_folders_with_and_without_snapshots() -> None:
    counts = [len(list(path.glob("snapshot-*.laurels"))) for path in folder.folders()]
    assert min(counts) == 0
    assert max(counts) > 0
