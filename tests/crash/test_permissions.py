"""Only the owner may read the files of a store, even if the umask of the process would allow
others."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import laurels
from laurels.config import announced, back_up, restore


def _modes(folder: Path) -> dict[str, str]:
    return {
        path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [folder, *folder.iterdir()]
    }


def _no_progress(done: int, of: int) -> None:
    pass


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _filled(folder: Path) -> None:
    with laurels.open(folder) as lb:
        lb.create(laurels.Board("gifts"))
        lb.submit("gifts", "alice", 1)
        lb.snapshot()
        lb.submit("gifts", "bob", 1)


@pytest.mark.usefixtures("umask")
def test_files_of_a_store_are_private_to_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "boards"
    with laurels.open(folder) as lb:
        lb.create(laurels.Board("gifts"))
        lb.submit("gifts", "alice", 1)
        lb.snapshot()
        lb.submit("gifts", "bob", 1)
        with announced(str(folder), "http://127.0.0.1:1"):
            modes = _modes(folder)
    assert {"log.db", "log.db-wal", "log.db-shm", "log.mark", "lock", "served-at"} <= set(modes)
    assert any(name.startswith("snapshot-") for name in modes)
    assert modes.pop("boards") == "0o700"
    assert set(modes.values()) == {"0o600"}, modes


@pytest.mark.usefixtures("umask")
def test_backups_and_restored_folders_are_private_to_their_owner(tmp_path: Path) -> None:
    _filled(tmp_path / "boards")
    backup, restored = tmp_path / "boards.backup", tmp_path / "restored"
    backup.touch(0o644)
    back_up(str(tmp_path / "boards"), backup, overwrite=True, progress=_no_progress)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    restore(backup, str(restored), progress=_no_progress)
    modes = _modes(restored)
    assert modes.pop("restored") == "0o700"
    assert set(modes.values()) == {"0o600"}, modes


def _open_to_all(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)


def test_an_old_folder_is_made_private_and_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "boards"
    _filled(folder)
    _open_to_all(folder)
    with caplog.at_level(logging.INFO, "laurels"), laurels.open(folder) as lb:
        assert lb.top("gifts").total == 2
        modes = _modes(folder)
    assert modes.pop("boards") == "0o700"
    assert set(modes.values()) == {"0o600"}, modes
    (line,) = [record.getMessage() for record in caplog.records]
    assert str(folder) in line
    assert "log.db" in line
    caplog.clear()
    with caplog.at_level(logging.INFO, "laurels"), laurels.open(folder):
        assert caplog.records == []


def test_a_folder_with_other_files_keeps_its_mode_and_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    _filled(folder)
    (folder / "index.html").touch(0o644)
    _open_to_all(folder)
    with laurels.open(folder):
        modes = _modes(folder)
    assert (modes.pop("project"), modes.pop("index.html")) == ("0o755", "0o644")
    assert set(modes.values()) == {"0o600"}, modes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")
def test_files_of_another_user_are_left_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "boards"
    _filled(folder)
    _open_to_all(folder)
    os.chown(folder / "lock", 12_345, 12_345)
    with laurels.open(folder) as lb:
        assert lb.top("gifts").total == 2
        assert _modes(folder)["lock"] == "0o644"
