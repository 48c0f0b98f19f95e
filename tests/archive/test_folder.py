"""A folder with an archive: its files are private and in backups, and damage is an error."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pytest
from msgspec.structs import replace

import laurels
from laurels.config.portable import portable
from laurels.errors import ArchiveDamaged, StorageFailed
from laurels.flows.copying.copying import copy_board
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import SYNCED_BYTES, FolderSegments
from laurels.stores.local.recovery.backup import back_up, restore

from .standings import KEY, archived, frozen, random_secret, rows_of

DAY = 86_400_000
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
FIRST, SECOND = "2026-11-20", "2026-11-21"


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture
def folder(tmp_path: Path, clock: laurels.ManualClock) -> Path:
    """Return a folder with two sealed days, each in a segment of its own."""
    path = tmp_path / "boards"
    with laurels.open(path, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["day:keep=1,archive=forever"], grace="0s"))
        for _ in range(2):
            lb.submit_many("b", [(f"m{i:04}", i) for i in range(700)])
            clock.advance(DAY)
            lb.seal()
        clock.advance(DAY)
    return path


def listed(lb: laurels.Leaderboards, period: str) -> list[tuple[str, int]]:
    return [(entry.member, entry.rank) for entry in lb.export("b", period=period)]


WHOLE = [(f"m{i:04}", 700 - i) for i in range(699, -1, -1)]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "archive").iterdir())


def test_the_files_are_private_to_their_owner(folder: Path, clock: laurels.ManualClock) -> None:
    paths = [folder / "archive", *segments(folder)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]
    folder.chmod(0o755)
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
    with laurels.open(folder, clock=clock):
        pass
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_backup_has_the_archive(folder: Path, tmp_path: Path, clock: laurels.ManualClock) -> None:
    with laurels.open(folder, clock=clock) as lb:
        archived = lb.archived("b")
        back_up(folder, tmp_path / "it.backup")
    restore(tmp_path / "it.backup", tmp_path / "restored")
    assert [path.read_bytes() for path in segments(tmp_path / "restored")] == [
        path.read_bytes() for path in segments(folder)
    ]
    paths = [tmp_path / "restored" / "archive", *segments(tmp_path / "restored")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]
    with laurels.open(tmp_path / "restored", clock=clock) as lb:
        assert lb.archived("b") == archived
        assert listed(lb, FIRST) == listed(lb, SECOND) == WHOLE
        assert lb.verify("b", period=FIRST).verified


def test_a_damaged_period_is_an_error_and_the_others_can_be_read(
    folder: Path, clock: laurels.ManualClock
) -> None:
    first, _ = segments(folder)
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    with laurels.open(folder, clock=clock) as lb:
        with pytest.raises(ArchiveDamaged, match="is not what was written"):
            lb.top("b", period=FIRST)
        with pytest.raises(ArchiveDamaged):
            lb.verify("b", period=FIRST)
        assert listed(lb, SECOND) == WHOLE
        lb.submit("b", "ann", 1)


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_missing_segment_is_an_error_of_its_periods_alone(
    folder: Path, clock: laurels.ManualClock, how: str
) -> None:
    first, _ = segments(folder)
    first.unlink() if how == "gone" else first.write_bytes(first.read_bytes()[:-3])
    with laurels.open(folder, clock=clock) as lb:
        with pytest.raises(ArchiveDamaged, match="the archive has no standings of the window"):
            lb.top("b", period=FIRST)
        assert listed(lb, SECOND) == WHOLE


def test_periods_that_have_left_the_archive_leave_the_disk(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    path = tmp_path / "boards"
    with laurels.open(path, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["hour:keep=1,archive=2"], grace="0s"))
    for _ in range(8):
        with laurels.open(path, clock=clock) as lb:
            lb.submit_many("b", [(f"m{i:04}", i) for i in range(700)])
            clock.advance(3_600_000)
            lb.seal()
            assert len(lb.archived("b")) <= 2
    assert len(segments(path)) <= 3


def test_what_was_written_but_not_sealed_is_dropped_when_the_folder_is_opened(
    folder: Path, clock: laurels.ManualClock
) -> None:
    """If a process is killed after it has written to the archive and before it has recorded the
    seal, the archive has a period, or a revision of one, that is not sealed."""
    archive = Archive(FolderSegments(folder / "archive"), random_secret())
    sealed = archive.periods()
    corrected = replace(sealed[0], revision=1)
    unsealed = replace(sealed[0], instance=sealed[0].instance + 7 * DAY)
    foreign = replace(sealed[0], uid="of a deleted board")
    rows = rows_of(600, 1)
    archive.write([(key, [frozen(rows)]) for key in (corrected, unsealed, foreign)])
    archive.close()
    with laurels.open(folder, clock=clock) as lb:
        assert listed(lb, FIRST) == listed(lb, SECOND) == WHOLE
        lb.submit_many("b", [(f"m{i:04}", i) for i in range(700)])
        clock.advance(DAY)
        lb.seal()
        assert listed(lb, FIRST) == WHOLE
        assert len(lb.archived("b")) == 3
    kept = Archive(FolderSegments(folder / "archive"), random_secret()).periods()
    assert {*sealed, foreign} <= {*kept}


def test_a_damaged_period_is_an_error_of_a_copy_and_not_left_out(
    folder: Path, clock: laurels.ManualClock
) -> None:
    segments(folder)[0].unlink()
    with (
        closing(portable(folder, clock, create=False)) as source,
        closing(portable("memory:", clock, create=True)) as target,
        pytest.raises(ArchiveDamaged, match="which a copy of the board needs"),
    ):
        copy_board(source.copies, target.copies, "b")


SEVERAL_PARTITIONS = 16 * 1_024 + 2_000
"""A number of members so large that the member index needs a scratch file."""


def test_a_large_ranking_is_archived_with_a_scratch_file_that_nobody_sees(tmp_path: Path) -> None:
    path, rows = tmp_path / "archive", rows_of(SEVERAL_PARTITIONS, 1)
    names: set[str] = set()
    archive = Archive(FolderSegments(path), random_secret())
    archive.write(
        [(KEY, [frozen(rows)])], lambda: names.update([each.name for each in path.iterdir()])
    )
    assert names == {"sealed.unfinished", "sealed-000000000001.laurels"}
    assert [each.name for each in path.iterdir()] == ["sealed-000000000001.laurels"]
    in_memory = archived(frozen(rows)).ranking("")
    period = archive.open(KEY)
    assert period is not None
    ranking = period.ranking("")
    assert ranking is not None
    assert in_memory is not None
    for position in range(0, len(rows), 7):
        member = rows[position].member
        assert ranking.position(member) == in_memory.position(member) == position
    for number in range(500):
        assert ranking.position(f"x{number}".encode()) == -1


def full_disk() -> int:
    """Open a file that cannot be written, and return its descriptor."""
    return os.open("/dev/full", os.O_RDWR)


def test_a_full_disk_leaves_the_archive_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rows = tmp_path / "archive", rows_of(SEVERAL_PARTITIONS, 2)
    archive = Archive(FolderSegments(path), random_secret())
    monkeypatch.setattr(FolderSegments, "scratch", lambda _: os.fdopen(full_disk(), "w+b"))
    with pytest.raises(StorageFailed, match="No space left"):
        archive.write([(KEY, [frozen(rows)])])
    assert not [*path.iterdir()]
    assert KEY not in archive
    monkeypatch.undo()
    archive.write([(KEY, [frozen(rows)])])
    assert KEY in archive


def test_a_scratch_file_that_a_kill_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "sealed.scratch").touch()
    assert FolderSegments(tmp_path).numbers() == []
    assert not [*tmp_path.iterdir()]


def test_a_large_segment_is_synced_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    sync = os.fdatasync

    def noted(file: int) -> None:
        sizes.append(os.fstat(file).st_size)
        sync(file)

    monkeypatch.setattr(os, "fdatasync", noted)
    content = random_secret()(5 * SYNCED_BYTES + 7)

    def write(file: BinaryIO) -> None:
        for at in range(0, len(content), 999):
            file.write(content[at : at + 999])

    FolderSegments(tmp_path).write(1, write)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]
    assert len(sizes) >= 4
    assert all(after - before < 1.3 * SYNCED_BYTES for before, after in pairwise([0, *sizes]))
