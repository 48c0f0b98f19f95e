"""A store that would be slow to open again takes a snapshot when it is closed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import laurels
from laurels.errors import LogDamaged, StorageFailed
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.recovery.progress import reporting
from laurels.stores.local.snapshot import taking
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.taking import is_due_on_close

MIB = 1 << 20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the store treat a small log like one that takes a second to fold."""
    monkeypatch.setattr(taking, "SECOND_OF_LOG", 2_000)


def _fill(lb: laurels.Leaderboards, prefix: str, count: int = 200) -> None:
    lb.create(laurels.Board("gifts"), exist_ok=True)
    for i in range(count):
        lb.submit("gifts", f"{prefix}{i}", 1)


def _snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("snapshot-*"))


@pytest.mark.parametrize(
    ("log_bytes", "snapshot_bytes", "due"),
    [
        (2 * MIB, 0, False),
        (3 * MIB, 0, True),
        (60 * MIB, 900 * MIB, True),
        (60 * MIB, 10_000 * MIB, False),
        (0, 0, False),
    ],
)
def test_a_snapshot_on_close_is_due_when_replay_is_slower(
    log_bytes: int, snapshot_bytes: int, due: bool
) -> None:
    assert is_due_on_close(log_bytes, snapshot_bytes) is due


@pytest.mark.usefixtures("small")
def test_after_a_snapshot_on_close_no_entry_is_folded(tmp_path: Path) -> None:
    with laurels.open(tmp_path) as lb:
        _fill(lb, "m")
        assert _snapshots(tmp_path) == []
    assert len(_snapshots(tmp_path)) == 1
    totals: dict[str, int] = {}

    def note(phase: str, _: int, total: int) -> None:
        totals[phase] = total

    with reporting(note):
        opened = laurels.open(tmp_path)
    with opened as lb:
        assert lb.top("gifts").total == 200
        lb.check()
    assert totals["reading the log"] == 0
    assert totals["reading the snapshot"] > 0
    assert len(_snapshots(tmp_path)) == 1, "without writes no snapshot is due"


@pytest.mark.usefixtures("small")
def test_a_snapshot_on_close_trims_the_log(tmp_path: Path) -> None:
    for name in "abc":
        with laurels.open(tmp_path) as lb:
            _fill(lb, name)
    assert len(_snapshots(tmp_path)) == 2
    with laurels.open(tmp_path) as lb:
        assert lb.stats().kept.log_from > 200
        assert lb.top("gifts").total == 600
        lb.check()


def test_a_short_log_gets_no_snapshot_on_close(tmp_path: Path) -> None:
    with laurels.open(tmp_path) as lb:
        _fill(lb, "m", 20)
    assert _snapshots(tmp_path) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("error", [StorageFailed("the disk is full"), MemoryError()])
def test_the_store_closes_even_if_the_snapshot_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def full(*_: object) -> None:
        raise error

    with laurels.open(tmp_path) as lb:
        _fill(lb, "m")
        monkeypatch.setattr(SnapshotFiles, "write", full)
    assert any("no snapshot was taken" in record.getMessage() for record in caplog.records)
    monkeypatch.undo()
    with laurels.open(tmp_path) as lb:
        assert lb.top("gifts").total == 200


@pytest.mark.usefixtures("small")
def test_a_store_that_was_killed_before_its_log_was_trimmed_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> bool:
        raise LogDamaged("killed here")

    for name in "abc":
        with laurels.open(tmp_path) as lb:
            _fill(lb, name)
            monkeypatch.setattr(SqliteLog, "trim", killed)
        monkeypatch.undo()
        monkeypatch.setattr(taking, "SECOND_OF_LOG", 2_000)
    with laurels.open(tmp_path) as lb:
        assert lb.top("gifts").total == 600
        lb.check()


@pytest.mark.usefixtures("small")
def test_a_snapshot_on_close_logs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "laurels"), laurels.open(tmp_path) as lb:
        _fill(lb, "m")
    assert caplog.records == []


def test_opening_reports_its_progress(tmp_path: Path) -> None:
    with laurels.open(tmp_path) as lb:
        _fill(lb, "a")
        lb.snapshot()
        _fill(lb, "b")
    seen: list[tuple[str, int, int]] = []

    def note(phase: str, done: int, total: int) -> None:
        seen.append((phase, done, total))

    with reporting(note):
        laurels.open(tmp_path).close()
    ended = dict.fromkeys(phase for phase, done, total in seen if done == total)
    assert [*ended] == ["reading the snapshot", "reading the log"]
    of_log = [done for phase, done, _ in seen if phase == "reading the log"]
    assert len(of_log) >= 3
    assert of_log == sorted(of_log)
