"""A backup, and a restored folder, is either complete or absent, even while another process
writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels import errors
from laurels.stores.local.recovery.backup import back_up, restore
from laurels.stores.local.snapshot.files import SnapshotFiles
from tests.cli.running import Shell
from tests.comparison import everything

BOARD = laurels.Board("gifts", windows=["all", "day", "3h=rolling:3h/1h"], dedupe="7d")


def filled(folder: Path) -> list[laurels.Entry]:
    """Fill a folder with everything that a board stores, with snapshots, with a trimmed log, and
    with log entries after the newest snapshot."""
    with laurels.open(folder) as lb:
        lb.create(BOARD)
        for i in range(12):
            lb.submit("gifts", f"m{i}", i, id=f"id{i}")
            if i in (4, 8):
                lb.snapshot()
        lb.set_data("gifts", "m3", {"name": "Three"})
        lb.submit_many("gifts", [("m1", 5)], position=("file", "line 7"))
        assert lb.stats().kept.log_from > 1
        return list(lb.export("gifts"))


def assert_the_same(folder: Path, expected: list[laurels.Entry]) -> None:
    with laurels.open(folder, create=False) as lb:
        assert list(lb.export("gifts")) == expected
        assert lb.position("gifts", "file") == "line 7"
        three = lb.standing("gifts", "m3", with_data=True)
        assert three is not None
        assert three.data == {"name": "Three"}
        assert lb.submit("gifts", "m11", 1, id="id11").status == "duplicate"
        assert lb.submit("gifts", "new", 1).status == "applied"
        lb.check()


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The path of a backup of a filled folder."""
    filled(tmp_path / "boards")
    back_up(tmp_path / "boards", tmp_path / "it.backup")
    return tmp_path / "it.backup"


def test_scopes_are_restored(tmp_path: Path) -> None:
    board = laurels.Board(
        "rooms", windows=["all", "3h=rolling:3h/1h"], scopes=[[], ["room"]], rank_by="room"
    )
    clock = laurels.ManualClock(1_795_176_000_000)
    with laurels.open(tmp_path / "boards", clock=clock) as lb:
        lb.create(board)
        for i in range(12):
            lb.submit("rooms", f"m{i % 5}", i, labels={"room": f"{i % 3},"})
            if i in (4, 8):
                lb.snapshot()
        before = everything(lb)
    back_up(tmp_path / "boards", tmp_path / "it.backup")
    restore(tmp_path / "it.backup", tmp_path / "restored")
    with laurels.open(tmp_path / "restored", clock=clock) as lb:
        assert everything(lb) == before
        assert lb.scopes("rooms", "room") == [{"room": f"{i},"} for i in range(3)]
        lb.check()


def test_a_restored_folder_equals_the_original(shell: Shell) -> None:
    expected = filled(shell.directory / "boards")
    ran = shell.ok("backup", "it.backup")
    assert ran.out == "it.backup: everything up to offset 15\n"
    ran = shell.ok("restore", "it.backup", "--at", "again")
    assert ran.out == "again: restored up to offset 15\n"
    assert_the_same(shell.directory / "again", expected)
    assert_the_same(shell.directory / "boards", expected)
    assert sorted(path.name for path in shell.directory.iterdir()) == [
        "again",
        "boards",
        "it.backup",
    ]


def test_json_describes_the_content_of_a_backup(shell: Shell) -> None:
    filled(shell.directory / "boards")
    expected = {"offset": 15, "log_from": 10, "snapshot_offset": 10}
    for arguments in (["backup", "it"], ["restore", "it", "--at", "again"]):
        description = shell.json(*arguments)
        assert description.pop("notes")["format"] == "1"
        assert description == expected


def test_the_backup_of_a_folder_without_snapshots_has_its_log(tmp_path: Path) -> None:
    with laurels.open(tmp_path / "boards", clock="event", log_keep=True) as lb:
        lb.create(BOARD)
        lb.submit("gifts", "ann", 1, at=1_795_176_000_000)
        written = back_up(tmp_path / "boards", tmp_path / "it")
        lb.submit("gifts", "ann", 1, at=1_795_176_000_000)
    assert (written.offset, written.log_from, written.snapshot_offset) == (2, 1, None)
    restore(tmp_path / "it", tmp_path / "again")
    with laurels.open(tmp_path / "again") as lb:
        ann = lb.standing("gifts", "ann")
        assert ann is not None
        assert ann.score == 1
        assert lb.stats().now_ms == 1_795_176_000_000
        lb.snapshot()
        lb.submit("gifts", "ann", 1, at=1_795_176_000_000)
        lb.snapshot()
        assert lb.stats().kept.log_from == 1


def test_an_empty_folder_can_be_backed_up_and_restored_into(tmp_path: Path) -> None:
    laurels.open(tmp_path / "boards").close()
    back_up(tmp_path / "boards", tmp_path / "it")
    (tmp_path / "again").mkdir()
    restore(tmp_path / "it", tmp_path / "again")
    with laurels.open(tmp_path / "again", create=False) as lb:
        assert lb.boards() == []


def test_a_backup_skips_a_damaged_newest_snapshot(tmp_path: Path) -> None:
    expected = filled(tmp_path / "boards")
    newest, older = SnapshotFiles(tmp_path / "boards").newest_first()
    newest.path.write_bytes(newest.path.read_bytes()[:-5])
    assert back_up(tmp_path / "boards", tmp_path / "it").snapshot_offset == older.offset
    restore(tmp_path / "it", tmp_path / "again")
    assert_the_same(tmp_path / "again", expected)
    older.path.unlink()
    with pytest.raises(errors.LogDamaged, match="begins after its newest valid snapshot"):
        back_up(tmp_path / "boards", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_folder_without_an_intact_snapshot_is_backed_up_by_its_whole_log(tmp_path: Path) -> None:
    with laurels.open(tmp_path / "boards", log_keep=True) as lb:
        lb.create(BOARD)
        lb.snapshot()
    [snapshot] = SnapshotFiles(tmp_path / "boards").newest_first()
    snapshot.path.write_bytes(b"no")
    assert back_up(tmp_path / "boards", tmp_path / "it").snapshot_offset is None


def refused(shell: Shell, code: str, *arguments: str) -> str:
    """Return the error message of a command that must be refused."""
    ran = shell(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error [{code}]: ")
    assert ran.err.count("\n") == 1
    return ran.err


def test_an_impossible_backup_or_restore_is_refused_with_a_code(shell: Shell) -> None:
    filled(shell.directory / "boards")
    shell.file("taken", "mine")
    refused(shell, "backup_exists", "backup", "taken")
    assert (shell.directory / "taken").read_text() == "mine"
    refused(shell, "nothing_to_back_up", "backup", "it", "--at", "memory:")
    refused(shell, "nothing_to_back_up", "restore", "taken", "--at", "memory:")
    refused(shell, "folder_missing", "backup", "it", "--at", "nowhere")
    refused(shell, "storage_failed", "backup", "no/such/folder/it")
    refused(shell, "snapshot_damaged", "restore", "taken", "--at", "again")
    refused(shell, "storage_failed", "restore", "nothing", "--at", "again")
    snapshot = SnapshotFiles(shell.directory / "boards").newest_first()[0].path
    refused(shell, "snapshot_damaged", "restore", str(snapshot), "--at", "again")
    shell.ok("backup", "taken", "--force")
    for there in ("boards", "taken"):
        refused(shell, "folder_not_empty", "restore", "taken", "--at", there)
    assert sorted(path.name for path in shell.directory.iterdir()) == ["boards", "taken"]


def test_a_backup_that_fails_leaves_the_previous_one(
    backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backup.read_bytes()
    monkeypatch.setattr("laurels.stores.local.recovery.backup.verify", _damaged)
    with pytest.raises(errors.SnapshotDamaged):
        back_up(backup.parent / "boards", backup, overwrite=True)
    assert backup.read_bytes() == before
    assert sorted(path.name for path in backup.parent.iterdir()) == ["boards", "it.backup"]


def _damaged(path: Path) -> None:
    raise errors.SnapshotDamaged(f"{path} is damaged")


def test_no_part_of_a_damaged_backup_is_restored(backup: Path) -> None:
    whole = backup.read_bytes()
    rng = Random(7)
    folder = backup.parent / "again"
    for place in [0, 17, len(whole) - 1, *rng.sample(range(len(whole)), 80)]:
        turned = bytearray(whole)
        turned[place] ^= 1 << rng.randrange(8)
        for content in (turned, whole[:place], whole + b"\0"):
            backup.write_bytes(content)
            with pytest.raises((errors.SnapshotDamaged, errors.FormatTooNew)):
                restore(backup, folder)
            assert sorted(path.name for path in backup.parent.iterdir()) == ["boards", "it.backup"]
    backup.write_bytes(whole)
    restore(backup, folder)


def test_a_failed_restore_leaves_no_folder(backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (backup.parent / ".again.restoring").mkdir()
    (backup.parent / ".again.restoring" / "left").touch()
    with monkeypatch.context() as patched:
        patched.setattr("laurels.stores.local.recovery.backup.write_log", _no_room)
        with pytest.raises(errors.StorageFailed, match="No room"):
            restore(backup, backup.parent / "again")
    assert sorted(path.name for path in backup.parent.iterdir()) == ["boards", "it.backup"]
    restore(backup, backup.parent / "again")
    assert not (backup.parent / "again" / "left").exists()


def _no_room(*_: object) -> None:
    raise OSError(28, "No room")


WRITER = """
import sys, laurels
with laurels.open(sys.argv[1]) as lb:
    lb.create(laurels.Board("gifts", windows=["all", "3h=rolling:3h/1h"], dedupe="7d"))
    for batch in range(100_000):
        lb.submit_many("gifts", [(f"m{batch}-{i}", batch) for i in range(5)], key=f"b{batch}")
        if batch % 7 == 6:
            lb.snapshot()
        sys.stdout.write(f"{batch}\\n")
        sys.stdout.flush()
"""


@contextmanager
def writing(folder: Path) -> Iterator[Iterator[bytes]]:
    """A process that writes batches and takes snapshots, and prints the acknowledged batches."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.kill()


def test_a_backup_during_writes_has_all_acknowledged_events(
    tmp_path: Path,
) -> None:
    with writing(tmp_path / "boards") as acknowledged:
        for number in range(8):
            for _ in range(9):
                batch = int(next(acknowledged))
            written = back_up(tmp_path / "boards", tmp_path / f"{number}")
            assert written.offset >= batch + 2
    for number in range(8):
        restore(tmp_path / f"{number}", tmp_path / f"again{number}")
        with laurels.open(tmp_path / f"again{number}") as lb:
            batches = lb.stats().offset - 1
            assert batches >= 9 * (number + 1)
            assert lb.stats("gifts").remembered == 5 * batches
            entries = [(entry.member, entry.score) for entry in lb.export("gifts")]
            assert sorted(entries) == sorted(
                (f"m{batch}-{i}", batch) for batch in range(batches) for i in range(5)
            )
            lb.check()
