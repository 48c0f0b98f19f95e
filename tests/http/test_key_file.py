"""The key files: if the disk fails or the process is killed, no acknowledged key is lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from laurels.errors import FormatTooNew, StorageFailed
from laurels.errors.service import KeysDamaged, Unauthorized
from laurels.server.auth.access import Keys
from laurels.stores.local.files.key_file import KEYS_FILE, FolderKeyStore
from laurels.stores.local.log.memory import MemoryLog
from laurels.wire.answers import problem
from tests.serving import ADMIN_KEY, JSON, Served

PREVIOUS = f"{KEYS_FILE}.previous"


class KeyFolder:
    """A folder with keys, which several processes open one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._notes = MemoryLog()

    def open(self) -> Keys:
        store = FolderKeyStore(self.path, self._notes, self.warnings.append)
        return Keys(store, None, os.urandom, lambda: 1_000)

    def names(self) -> list[str]:
        return [key.name for key in self.open().listed()]


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path)


def refusing(whole: int, number: int) -> Callable[[int, bytes], int]:
    """Return a replacement of `os.write` that writes `whole` bytes in total, over all its calls.
    After that, every call raises an OSError with this number."""
    real, left = os.write, [whole]

    def write(file: int, content: bytes) -> int:
        if not left[0]:
            raise OSError(number, os.strerror(number))
        written = real(file, bytes(content)[: left[0]])
        left[0] -= written
        return written

    return write


@pytest.mark.parametrize("whole", [0, 1, 50, 300])
def test_a_full_disk_leaves_the_keys_as_they_are(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    keys = folder.open()
    _, secret = keys.create("game", "write")
    with monkeypatch.context() as full:
        full.setattr(os, "write", refusing(whole, errno.ENOSPC))
        for change in (lambda: keys.create("page", "read"), lambda: keys.revoke("game")):
            with pytest.raises(StorageFailed) as refused:
                change()
            assert str(folder.path) not in str(refused.value)
    assert keys.caller(secret).name == "game"
    assert folder.names() == ["game"]
    assert folder.warnings == []
    assert not [*folder.path.glob("*.unfinished")]


def on_disk_of(folder: Path, most: int) -> Callable[[int, bytes], int]:
    """Return a replacement of `os.write` for a disk that has room for `most` bytes and contains
    only the files of this folder."""
    real = os.write

    def write(file: int, content: bytes) -> int:
        used = sum(each.stat().st_size for each in folder.iterdir() if each.is_file())
        if used + len(content) > most:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, content)

    return write


def test_a_key_is_revoked_on_a_full_disk(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = folder.open()
    _, secret = keys.create("game", "write")
    keys.create("page", "read")
    used = sum(each.stat().st_size for each in folder.path.iterdir())
    with monkeypatch.context() as full:
        full.setattr(os, "write", on_disk_of(folder.path, used))
        with pytest.raises(StorageFailed):
            keys.create("more", "read")
        keys.revoke("game")
        with pytest.raises(Unauthorized):
            keys.caller(secret)
        assert folder.names() == ["page"]
        assert (folder.path / PREVIOUS).read_bytes() == (folder.path / KEYS_FILE).read_bytes()
    assert folder.warnings == []


def test_a_full_disk_does_not_destroy_the_only_readable_copy(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.open().create("game", "write")
    keys = folder.open()
    (folder.path / KEYS_FILE).write_bytes(b"damaged")
    with monkeypatch.context() as full:
        full.setattr(os, "write", on_disk_of(folder.path, 0))
        with pytest.raises(KeysDamaged):
            keys.revoke("game")
    assert folder.names() == ["game"]


def test_a_short_write_is_continued(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, content: real(file, bytes(content)[:7]))
    folder.open().create("game", "write")
    assert folder.names() == ["game"]


def test_a_key_file_that_reads_back_differently_is_not_accepted(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.open().create("game", "write")
    real = os.write
    with monkeypatch.context() as lying:
        lying.setattr(os, "write", lambda file, content: real(file, b" " * len(content)))
        with pytest.raises(StorageFailed):
            folder.open().create("page", "read")
    assert folder.names() == ["game"]


def test_a_kill_at_any_rename_leaves_whole_keys(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends before one of the two renames of a change, so the files that it has written
    remain. The keys are those from before the change."""
    folder.open().create("game", "write")
    for survived in range(2):
        renames = [survived]
        real = Path.replace

        def replace(self: Path, target: Path) -> Path:
            if not renames[0]:  # noqa: B023
                raise KeyboardInterrupt
            renames[0] -= 1  # noqa: B023
            return real(self, target)  # noqa: B023

        with monkeypatch.context() as killed:
            killed.setattr(Path, "replace", replace)
            with pytest.raises(KeyboardInterrupt):
                folder.open().revoke("game")
        assert folder.names() == ["game"]
    assert folder.warnings == []
    folder.open().create("page", "read")
    assert folder.names() == ["game", "page"]


@pytest.mark.parametrize("place", [*range(0, 700, 61), 11])
def test_a_flipped_bit_leaves_the_other_file_in_use(folder: KeyFolder, place: int) -> None:
    _, secret = folder.open().create("game", "write", ["room-1"])
    file = folder.path / KEYS_FILE
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= 1
    file.write_bytes(content)
    caller = folder.open().caller(secret)
    assert (caller.name, caller.boards) == ("game", ("room-1",))
    assert folder.warnings, "no warning about the damage"
    assert KEYS_FILE in folder.warnings[0]


def test_a_revoked_key_does_not_come_back_with_the_previous_file(folder: KeyFolder) -> None:
    keys = folder.open()
    keys.create("game", "write")
    _, secret = keys.create("gone", "admin")
    keys.revoke("gone")
    (folder.path / KEYS_FILE).write_text("")
    again = folder.open()
    with pytest.raises(Unauthorized):
        again.caller(secret)
    assert [key.name for key in again.listed()] == ["game"]


def test_the_error_names_two_damaged_files(folder: KeyFolder) -> None:
    folder.open().create("game", "write")
    for name in (KEYS_FILE, PREVIOUS):
        (folder.path / name).write_text("{}")
    with pytest.raises(KeysDamaged, match=rf"{KEYS_FILE}.*{PREVIOUS}"):
        folder.open()


def test_format_1_is_read_and_a_newer_one_is_not(folder: KeyFolder) -> None:
    file = folder.path / KEYS_FILE
    old = {
        "name": "game",
        "scope": "write",
        "boards": ["room-*"],
        "created_ms": 5,
        "sha256": "cb0254584f8aa1f800c029fba683cafb49ab2c192e96a6f251b389ac0f12bab3",
        "rate": 5.0,
    }
    file.write_text(json.dumps({"format": 1, "secret": "00" * 32, "keys": [old]}))
    keys = folder.open()
    caller = keys.caller("secret-of-the-old-key")
    assert (caller.name, caller.boards, caller.rate) == ("game", ("room-*",), 5.0)
    assert caller.key_id == folder.open().caller("secret-of-the-old-key").key_id
    keys.create("page", "read")
    assert json.loads(file.read_text())["format"] == 2
    assert folder.open().caller("secret-of-the-old-key").key_id == caller.key_id
    for name in (KEYS_FILE, PREVIOUS):
        (folder.path / name).write_text(json.dumps({"format": 3}))
    with pytest.raises(FormatTooNew):
        folder.open()


def test_no_answer_names_a_path_of_the_server(tmp_path: Path) -> None:
    boards = tmp_path / "boards"
    headers = {**JSON, "authorization": f"Bearer {ADMIN_KEY}"}
    with Served(boards, admin_key=ADMIN_KEY) as server:
        httpx.post(f"{server.url}/v1/keys", json={"name": "game"}, headers=headers)
        for name in (KEYS_FILE, PREVIOUS):
            (boards / name).write_text("{}")
        answer = httpx.post(f"{server.url}/v1/keys", json={"name": "page"}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (500, "keys_damaged")
        assert str(tmp_path) not in answer.text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/srv/boards/log.db is damaged", "log.db is damaged"),
        ("[Errno 28] No space left: '/srv/boards/x.tmp'", "[Errno 28] No space left: 'x.tmp'"),
        ("the server redis://host:6379/0 is away", "the server redis://host:6379/0 is away"),
        ("1/2 of it", "1/2 of it"),
    ],
)
def test_paths_are_left_out_of_answers(text: str, redacted: str) -> None:
    assert problem(StorageFailed(text), 503, "").what == redacted


def test_a_revoked_key_leaves_no_time_of_its_last_use(folder: KeyFolder) -> None:
    keys = folder.open()
    kept, kept_secret = keys.create("kept", "read")
    _, secret = keys.create("gone", "read")
    for each in (kept_secret, secret):
        keys.caller(each)
    keys.store_last_used()
    keys.revoke("gone")
    assert json.loads((folder.path / "keys-used.json").read_text()) == {kept.id: 1_000}
    assert folder.open().last_used() == {kept.id: 1_000}
