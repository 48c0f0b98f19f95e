"""`audit` lists the administrative calls of commands and of servers, in every kind of store."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from laurels.stores.local.files.audit import NAME
from laurels.wire.audit_entry import AuditEntry
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

from .running import Shell

WHO = f"the command line (user {pwd.getpwuid(os.getuid()).pw_name})"


def administer(shell: Shell) -> None:
    """Run each administrative command in order, and also some that are refused and some that only
    read."""
    shell.file("boards.toml", '[boards.gifts]\nwindows = ["all", "day"]\n[boards.race]\n')
    shell.ok("board", "create", "gifts", "--window", "all")
    shell.ok("board", "change", "gifts", "--title", "Gifts")
    assert shell("board", "change", "nothing", "--title", "x").code == 2
    assert shell("board", "create", "gifts").code == 2
    shell.ok("board", "apply", "boards.toml")
    shell.ok("board", "apply", "boards.toml")
    shell.file("in.csv", "member,value\na,1\n")
    shell.ok("import", "more", "in.csv", "--create")
    shell.ok("key", "create", "game", "--board", "gifts")
    shell.ok("key", "rotate", "game", "--grace", "1m")
    shell.ok("key", "rotate", "--tokens")
    shell.ok("key", "revoke", "game")
    assert shell("key", "revoke", "game").code == 2
    shell.ok("rebuild")
    shell.ok("clock", "accept")
    shell.ok("top", "gifts")
    shell.ok("board", "delete", "race", "--yes")


EXPECTED: list[tuple[str, str | None, str | None]] = [
    ("create", "gifts", None),
    ("change", "gifts", None),
    ("change", "gifts", None),
    ("create", "race", None),
    ("create", "more", None),
    ("create_key", None, "game"),
    ("rotate_key", None, "game"),
    ("rotate_signing", None, None),
    ("revoke_key", None, "game"),
    ("rebuild", None, None),
    ("accept_clock", None, None),
    ("delete", "race", None),
]


def audited(shell: Shell, *arguments: str) -> list[AuditEntry]:
    """Return the entries, oldest first."""
    found: list[dict[str, Any]] = shell.json("audit", *arguments)
    return msgspec.convert(found[::-1], list[AuditEntry])


def brief(found: list[AuditEntry]) -> list[tuple[str, str | None, str | None]]:
    return [(entry.verb, entry.board, entry.target) for entry in found]


def test_each_administrative_command_on_a_folder_is_one_entry(shell: Shell) -> None:
    administer(shell)
    found = audited(shell)
    assert brief(found) == EXPECTED
    assert {entry.by for entry in found} == {WHO}
    assert {entry.status for entry in found} == {200}
    assert found[1].request == {"title": "Gifts"}
    assert found[2].request == {"title": "", "windows": ["all", "day"]}
    assert brief(audited(shell, "gifts")) == EXPECTED[:3]
    assert brief(audited(shell, "--limit", "1")) == EXPECTED[-1:]
    assert (shell.directory / "boards" / NAME).stat().st_mode & 0o777 == 0o600
    out = shell.ok("audit", "gifts").out
    assert WHO in out
    assert '{"title":"Gifts"}' in out


def test_commands_on_an_index_server_are_entries_there(
    shell: Shell, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_URL", server.url)
    administer(shell)
    assert brief(audited(shell)) == EXPECTED
    assert {entry.by for entry in audited(shell)} == {WHO}


def test_a_server_writes_the_entries_of_commands_at_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shell.directory / "boards"
    with Served(folder, admin_key=ADMIN_KEY) as served:
        monkeypatch.setenv("LAURELS_URL", served.url)
        monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
        administer(shell)
        found = audited(shell)
        assert [verb for verb, *_ in brief(found)] == [verb for verb, *_ in EXPECTED]
        assert {entry.by for entry in found} == {"LAURELS_ADMIN_KEY"}
        assert brief(audited(shell, "--limit", "1")) == EXPECTED[-1:]
        monkeypatch.setenv("LAURELS_KEY", "lk_unknown")
        assert shell("audit").err.startswith("error [unauthorized]")
        monkeypatch.setenv("LAURELS_URL", str(folder))
        assert audited(shell) == found, "the file of a folder that is served can be read"


def test_more_entries_than_a_page_are_read_from_a_server(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.cli.auditing.MAX_PAGE", 2)
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", **JSON}
        for number in range(5):
            httpx.put(f"{served.url}/v1/boards/b{number}", json={}, headers=headers)
        at = ("--at", served.url)
        assert [entry.board for entry in audited(shell, *at)] == ["b0", "b1", "b2", "b3", "b4"]
        assert [entry.board for entry in audited(shell, *at, "--limit", "3")] == ["b2", "b3", "b4"]


def test_an_audit_log_that_cannot_be_written_is_a_warning(shell: Shell) -> None:
    shell.ok("board", "create", "gifts")
    (shell.directory / "boards" / NAME).write_bytes(b"no database " * 1_000)
    ran = shell.ok("board", "create", "more")
    assert ran.err.startswith("warning: `create` is not in the audit log: ")
    assert shell("audit").err.startswith("error [storage_failed]")


def test_a_folder_without_entries_is_only_looked_at(shell: Shell, tmp_path: Path) -> None:
    assert shell("audit").err.startswith("error [folder_missing]")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert shell.json("audit", "--at", str(empty)) == []
    assert list(empty.iterdir()) == []


def test_accepting_a_clock_concerns_the_whole_store() -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        admin = {"Authorization": f"Bearer {ADMIN_KEY}", **JSON}
        fields = {"name": "rooms", "scope": "admin", "boards": ["room-*"]}
        made = httpx.post(f"{served.url}/v1/keys", json=fields, headers=admin).json()
        rooms = {"Authorization": f"Bearer {made['key']}", **JSON}
        accept = f"{served.url}/v1/clock/accept"
        assert httpx.post(accept, headers=rooms).status_code == 403
        assert httpx.post(f"{accept}?reason=leap%20checked", headers=admin).status_code == 200
        (entry, _) = httpx.get(f"{served.url}/v1/audit", headers=admin).json()["entries"]
        assert (entry["verb"], entry["reason"]) == ("accept_clock", "leap checked")
