"""The mark shows whether the log has lost its end, and a damaged or missing mark is always
reported."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import laurels
from laurels.errors import LogDamaged

EVENTS = 20


@pytest.fixture
def open_copy(tmp_path: Path) -> Path:
    """Return a copy of an open folder, which is what a power cut would leave."""
    made, copy = tmp_path / "made", tmp_path / "copy"
    with laurels.open(made) as lb:
        lb.create(laurels.Board("gifts"))
        for i in range(EVENTS):
            lb.submit("gifts", f"m{i}", 1)
        shutil.copytree(made, copy)
    return copy


def _total(folder: Path) -> int:
    with laurels.open(folder) as lb:
        total: int = lb.top("gifts").total
        return total


def _cut_write_ahead_file(folder: Path) -> None:
    """Cut off the second half of the write-ahead file, so that the log loses its newest entries."""
    path = folder / "log.db-wal"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_flipped_bit_in_the_mark_leaves_an_intact_folder_usable(
    open_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (open_copy / "log.mark").read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (open_copy / "log.mark").write_bytes(damaged)
        caplog.clear()
        with laurels.open(open_copy) as lb:
            assert lb.top("gifts").total == EVENTS
            doubt = lb.stats().kept.end_unverified
        (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert doubt is not None
        assert "log.mark" in line
        assert "log.db is damaged" not in line
        assert doubt in line


def test_a_damaged_mark_is_rewritten_and_then_trusted(open_copy: Path) -> None:
    (open_copy / "log.mark").write_bytes(b"\xff" * 40)
    assert _total(open_copy) == EVENTS
    with laurels.open(open_copy) as lb:
        assert lb.stats().kept.end_unverified is None


def test_a_log_that_lost_its_end_is_refused_because_of_the_mark(open_copy: Path) -> None:
    _cut_write_ahead_file(open_copy)
    with pytest.raises(LogDamaged) as refused:
        laurels.open(open_copy)
    assert str(open_copy / "log.db") in str(refused.value)
    assert f"remove {open_copy / 'log.mark'}" in str(refused.value)


def test_the_advice_for_a_log_that_lost_its_end_works(
    open_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _cut_write_ahead_file(open_copy)
    (open_copy / "log.mark").unlink()
    with laurels.open(open_copy) as lb:
        assert 0 < lb.top("gifts").total < EVENTS
        assert "is missing" in str(lb.stats().kept.end_unverified)
        lb.submit("gifts", "new", 1)
    assert any("is missing" in record.getMessage() for record in caplog.records)


def test_a_snapshot_also_shows_that_the_log_lost_its_end(tmp_path: Path) -> None:
    made, copy = tmp_path / "made", tmp_path / "copy"
    with laurels.open(made) as lb:
        lb.create(laurels.Board("gifts"))
        for i in range(EVENTS):
            lb.submit("gifts", f"m{i}", 1)
        lb.snapshot()
        shutil.copytree(made, copy)
    _cut_write_ahead_file(copy)
    (copy / "log.mark").unlink()
    with pytest.raises(LogDamaged) as refused:
        laurels.open(copy)
    assert "snapshot" in str(refused.value)


def test_a_mark_of_an_earlier_version_is_read(open_copy: Path) -> None:
    (open_copy / "log.mark").write_bytes(b"%020d" % (EVENTS + 1))
    with laurels.open(open_copy) as lb:
        assert lb.stats().kept.end_unverified is None
    (open_copy / "log.mark").write_bytes(b"%020d" % (EVENTS + 2))
    with pytest.raises(LogDamaged):
        laurels.open(open_copy)


def test_the_end_of_the_log_of_a_new_folder_is_verified(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with laurels.open(tmp_path / "new") as lb:
        assert lb.stats().kept.end_unverified is None
    assert caplog.records == []
