"""A store opens from its newest intact snapshot, and reports any missing data."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import laurels
from laurels import errors
from laurels.stores.local.log.sqlite import MARK_NAME
from laurels.stores.local.snapshot.files import SnapshotFiles

CLOCK = laurels.ManualClock(1_795_176_000_000)
BOARD = laurels.Board("gifts", windows=["all", "day", "3h=rolling:3h/1h"])


def opened(folder: Path, *, log_keep: bool | None = None) -> laurels.Leaderboards:
    return laurels.open(folder, clock=CLOCK, log_keep=log_keep)


def submit(lb: laurels.Leaderboards, count: int) -> None:
    """Make this many commits. Each commit puts another member first."""
    for i in range(count):
        lb.submit("gifts", f"m{i}", 7 + lb.stats().offset)


def filled(folder: Path, *, log_keep: bool | None = None) -> list[laurels.Entry]:
    """Return a folder with snapshots at offsets 6 and 11, and four later entries in the log."""
    with opened(folder, log_keep=log_keep) as lb:
        lb.create(BOARD)
        submit(lb, 5)
        assert lb.snapshot() == 6
        submit(lb, 5)
        assert lb.snapshot() == 11
        submit(lb, 4)
        return list(lb.export("gifts"))


def assert_whole(lb: laurels.Leaderboards, expected: list[laurels.Entry]) -> None:
    assert list(lb.export("gifts")) == expected
    lb.check()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def snapshots(folder: Path) -> list[Path]:
    """Return the paths of the snapshots, newest first."""
    return [snapshot.path for snapshot in SnapshotFiles(folder).newest_first()]


def offsets(folder: Path) -> list[int]:
    """Return the offsets of the log's entries."""
    with closing(sqlite3.connect(folder / "log.db")) as log:
        return [row[0] for row in log.execute("SELECT offset FROM log ORDER BY offset")]


def test_opening_reads_the_newest_snapshot_and_the_log_after_it(tmp_path: Path) -> None:
    expected = filled(tmp_path)
    with opened(tmp_path) as lb:
        kept = lb.stats().kept
        assert (kept.snapshot_offset, kept.log_from, kept.damaged) == (11, 7, [])
        assert kept.snapshot_nbytes == snapshots(tmp_path)[0].stat().st_size
        assert_whole(lb, expected)


def test_two_snapshots_and_the_log_after_the_older_one_are_kept(tmp_path: Path) -> None:
    filled(tmp_path)
    assert offsets(tmp_path) == list(range(7, 16))
    with opened(tmp_path) as lb:
        assert lb.snapshot() == 15
        assert [path.name[-10:-8] for path in snapshots(tmp_path)] == ["15", "11"]
        assert lb.stats().kept.log_from == 12
    assert offsets(tmp_path) == list(range(12, 16))


def test_the_log_is_trimmed_in_small_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.local.log.sqlite._TRIM_ROWS", 2)
    expected = filled(tmp_path)
    assert offsets(tmp_path) == list(range(7, 16))
    with opened(tmp_path) as lb:
        monkeypatch.setattr("laurels.stores.local.log.sqlite._TRIM_BYTES", 1)
        lb.snapshot()
        assert_whole(lb, expected)
    assert offsets(tmp_path) == list(range(12, 16))


def test_a_damaged_newest_snapshot_is_set_aside_and_the_older_one_used(tmp_path: Path) -> None:
    expected = filled(tmp_path)
    newest, older = snapshots(tmp_path)
    damage(newest)
    with opened(tmp_path) as lb:
        kept = lb.stats().kept
        assert (kept.snapshot_offset, kept.damaged) == (6, [newest.name])
        assert_whole(lb, expected)
        assert snapshots(tmp_path) == [older]
        assert newest.with_suffix(".damaged").exists()
    with opened(tmp_path) as lb:
        assert lb.stats().kept.damaged == []
        lb.snapshot()
        assert_whole(lb, expected)


def test_a_trimmed_log_without_an_intact_snapshot_is_refused(
    tmp_path: Path,
) -> None:
    expected = filled(tmp_path)
    newest, older = snapshots(tmp_path)
    good = newest.read_bytes()
    for path in (newest, older):
        damage(path)
    for _ in range(2):
        with pytest.raises(errors.LogDamaged, match="begins at entry 7") as refused:
            opened(tmp_path)
        assert refused.value.code == "log_damaged"
        assert newest.name in str(refused.value)
        assert older.name in str(refused.value)
        assert "restore the folder from a backup" in str(refused.value)
    newest.write_bytes(good)
    with opened(tmp_path) as lb:
        assert list(lb.export("gifts")) == expected
        with pytest.raises(errors.SnapshotDamaged, match=older.name):
            lb.check()
        lb.snapshot()
        assert_whole(lb, expected)


@pytest.mark.parametrize("spoil", [damage, Path.unlink])
def test_a_whole_log_without_an_intact_snapshot_is_folded(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    expected = filled(tmp_path, log_keep=True)
    for path in snapshots(tmp_path):
        spoil(path)
    with opened(tmp_path) as lb:
        kept = lb.stats().kept
        assert (kept.snapshot_offset, kept.log_from) == (None, 1)
        assert len(kept.damaged) == (2 if spoil is damage else 0)
        assert_whole(lb, expected)


def test_with_log_keep_the_log_is_not_trimmed(tmp_path: Path) -> None:
    filled(tmp_path, log_keep=True)
    assert offsets(tmp_path) == list(range(1, 16))
    with opened(tmp_path) as lb:
        lb.snapshot()
    assert offsets(tmp_path) == list(range(1, 16))
    with opened(tmp_path, log_keep=False) as lb:
        assert lb.stats().kept.log_from == 1
        submit(lb, 1)
        lb.snapshot()
        assert lb.stats().kept.log_from == 16
    assert offsets(tmp_path) == [16]


def test_a_log_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "log.db")) as log:
        log.execute("DELETE FROM log WHERE offset = 15")
        log.commit()
    with pytest.raises(errors.LogDamaged, match=r"at entry 14, but \S*log\.mark says that 15"):
        opened(tmp_path)


@pytest.mark.parametrize("left", [10, 0])
def test_a_snapshot_newer_than_the_log_is_refused(tmp_path: Path, left: int) -> None:
    filled(tmp_path)
    (tmp_path / MARK_NAME).unlink()
    with closing(sqlite3.connect(tmp_path / "log.db")) as log:
        log.execute("DELETE FROM log WHERE offset > ?", (left,))
        log.commit()
    newest = snapshots(tmp_path)[0]
    with pytest.raises(errors.LogDamaged, match=f"ends at entry {left}, before .*{newest.name}"):
        opened(tmp_path)
    assert newest.exists()


def test_a_log_with_a_gap_after_the_snapshot_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "log.db")) as log:
        log.execute("DELETE FROM log WHERE offset <= 12")
        log.commit()
    with pytest.raises(errors.LogDamaged, match="entry 12"):
        opened(tmp_path)


def test_a_partial_snapshot_left_by_a_crash_is_removed(tmp_path: Path) -> None:
    expected = filled(tmp_path)
    (tmp_path / "snapshot.unfinished").write_bytes(b"laurels snapshot\nhalf")
    with opened(tmp_path) as lb:
        assert not (tmp_path / "snapshot.unfinished").exists()
        assert_whole(lb, expected)
