"""A file gets the name of a snapshot only when it is complete. A failed write does not change older
snapshots."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from laurels.errors import Closed, SnapshotDamaged, StorageFailed
from laurels.stores.local.snapshot import form, taking
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.form import Section
from laurels.stores.local.snapshot.taking import MIN_LOG_BYTES, is_due

SECTIONS = [(b"A", b"x" * 1_000), (b"B", b"y" * 1_000)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_snapshot_is_named_by_the_offset_reached_at_its_end(tmp_path: Path) -> None:
    reached = 3

    def sections() -> Iterator[Section]:
        nonlocal reached
        yield SECTIONS[0]
        reached = 17
        yield SECTIONS[1]

    taken = SnapshotFiles(tmp_path).write(sections(), lambda: reached)
    assert names(tmp_path) == ["snapshot-00000000000000000017.laurels"]
    assert (taken.offset, taken.nbytes) == (17, taken.path.stat().st_size)
    with taken.path.open("rb") as file:
        assert list(form.read_sections(file, "it")) == SECTIONS


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for offset in (9, 100, 20, 99):
        files.write(SECTIONS, lambda offset=offset: offset)  # type: ignore[misc]
    (tmp_path / "snapshot-00000000000000000500.damaged").touch()
    (tmp_path / "snapshot-7.laurels").touch()
    files.prune()
    assert [snapshot.offset for snapshot in files.newest_first()] == [100, 99]
    assert len(names(tmp_path)) == 4


def test_a_quarantined_snapshot_is_kept_but_never_used(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    files.write(SECTIONS, lambda: 5).set_aside()
    assert files.newest_first() == []
    assert names(tmp_path) == ["snapshot-00000000000000000005.damaged"]


def test_a_partial_snapshot_left_by_a_crash_is_removed(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    files.clear_unfinished()
    (tmp_path / "snapshot.unfinished").write_bytes(b"half")
    assert files.newest_first() == []
    files.clear_unfinished()
    assert names(tmp_path) == []


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["os.fsync", "os.fdatasync", "pathlib.Path.replace"])
def test_a_disk_error_leaves_other_snapshots_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    files = SnapshotFiles(tmp_path)
    files.write(SECTIONS, lambda: 5)
    monkeypatch.setattr("laurels.stores.local.snapshot.files._FLUSH", 500)
    with monkeypatch.context() as patched:
        patched.setattr(call, full)
        with pytest.raises(StorageFailed, match="No space left"):
            files.write(SECTIONS, lambda: 9)
    assert names(tmp_path) == ["snapshot-00000000000000000005.laurels"]
    files.write(SECTIONS, lambda: 9)


def test_a_snapshot_that_fails_verification_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def damage(descriptor: int) -> None:
        fsync(descriptor)
        os.pwrite(descriptor, b"?", 500)

    files = SnapshotFiles(tmp_path)
    monkeypatch.setattr(os, "fsync", damage)
    with pytest.raises(SnapshotDamaged):
        files.write(SECTIONS, lambda: 9)
    assert names(tmp_path) == []


def test_an_aborted_snapshot_leaves_no_file(tmp_path: Path) -> None:
    def sections() -> Iterator[Section]:
        yield SECTIONS[0]
        raise Closed("the store is closed")

    with pytest.raises(Closed):
        SnapshotFiles(tmp_path).write(sections(), lambda: 9)
    assert names(tmp_path) == []


def test_a_snapshot_is_due_when_reading_the_log_would_take_longer() -> None:
    assert not is_due(0, 0)
    assert not is_due(MIN_LOG_BYTES, 0)
    assert is_due(MIN_LOG_BYTES + 1, 0)
    assert not is_due(10 * MIN_LOG_BYTES, 10 * MIN_LOG_BYTES)
    assert is_due(10 * MIN_LOG_BYTES + 1, 10 * MIN_LOG_BYTES)
    assert taking.MIN_LOG_BYTES == 64 << 20
