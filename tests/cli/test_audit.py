"""`audit` lists the administrative calls of commands and of servers, in every kind of store."""

from __future__ import annotations

import asyncio
import os
import pwd
import warnings
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import laurels
from laurels.errors import Forked, NotInAuditLog
from laurels.stores.local.files.audit import NAME
from laurels.wire.audit_entry import AuditEntry
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON, Served

from .running import Shell

USER = pwd.getpwuid(os.getuid()).pw_name
WHO = f"the command line (user {USER})"


def administer(shell: Shell) -> None:
    """Run every administrative command in order, and also commands that are refused or that only
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
    """Return the entries of the audit log, oldest first."""
    entries: list[dict[str, Any]] = shell.json("audit", *arguments)
    return msgspec.convert(entries[::-1], list[AuditEntry])


def brief(entries: list[AuditEntry]) -> list[tuple[str, str | None, str | None]]:
    return [(entry.verb, entry.board, entry.target) for entry in entries]


def test_each_administrative_command_on_a_folder_adds_one_entry(shell: Shell) -> None:
    administer(shell)
    entries = audited(shell)
    assert brief(entries) == EXPECTED
    assert {entry.by for entry in entries} == {WHO}
    assert {entry.status for entry in entries} == {200}
    assert entries[1].request == {"title": "Gifts"}
    assert entries[2].request["windows"] == ["all", "day"], "the entry has the whole definition"
    assert brief(audited(shell, "gifts")) == EXPECTED[:3]
    assert brief(audited(shell, "--limit", "1")) == EXPECTED[-1:]
    assert (shell.directory / "boards" / NAME).stat().st_mode & 0o777 == 0o600
    out = shell.ok("audit", "gifts").out
    assert WHO in out
    assert '{"title":"Gifts"}' in out


def test_commands_on_an_index_server_are_recorded_there(
    shell: Shell, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAURELS_URL", server.url)
    administer(shell)
    assert brief(audited(shell)) == EXPECTED
    assert {entry.by for entry in audited(shell)} == {WHO}


def test_a_server_records_the_commands_that_are_sent_to_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shell.directory / "boards"
    with Served(folder, admin_key=ADMIN_KEY) as served:
        monkeypatch.setenv("LAURELS_URL", served.url)
        monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
        administer(shell)
        entries = audited(shell)
        assert [verb for verb, *_ in brief(entries)] == [verb for verb, *_ in EXPECTED]
        assert {entry.by for entry in entries} == {"LAURELS_ADMIN_KEY"}
        assert brief(audited(shell, "--limit", "1")) == EXPECTED[-1:]
        monkeypatch.setenv("LAURELS_KEY", "lk_unknown")
        assert shell("audit").err.startswith("error [unauthorized]")
        monkeypatch.setenv("LAURELS_URL", str(folder))
        assert audited(shell) == entries, "the audit log can be read while the folder is served"


def test_more_entries_than_a_page_has_are_read_from_a_server(
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


def test_an_audit_log_that_cannot_be_written_causes_a_warning(shell: Shell) -> None:
    shell.ok("board", "create", "gifts")
    (shell.directory / "boards" / NAME).write_bytes(b"no database " * 1_000)
    ran = shell.ok("board", "create", "more")
    assert ran.err.startswith("warning: `create` is not in the audit log: ")
    assert shell("audit").err.startswith("error [storage_failed]")


def test_a_program_and_the_command_line_are_recorded_under_their_own_names(shell: Shell) -> None:
    with laurels.open(shell.directory / "boards") as lb:
        lb.create(laurels.Board("gifts"))
    shell.ok("board", "delete", "gifts", "--yes")
    assert [entry.by for entry in audited(shell)] == [f"a program (user {USER})", WHO]


def test_an_entry_that_a_program_cannot_write_causes_a_warning(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database " * 1_000)

    async def tasks() -> None:
        async with laurels.open_async(tmp_path) as lb:
            await asyncio.gather(*[lb.set("gifts", f"m{n}", n) for n in range(3)])

    with laurels.open(tmp_path) as lb:
        with pytest.warns(NotInAuditLog, match="`create` is not in the audit log: ") as warned:
            lb.create(laurels.Board("gifts"))
        assert warned[0].filename == __file__
        with warnings.catch_warnings(action="error"), pytest.raises(NotInAuditLog):
            lb.set("gifts", "ann", 1)
    with pytest.warns(NotInAuditLog, match="`set`"):
        asyncio.run(tasks())
    with laurels.open(tmp_path) as lb:
        assert lb.top("gifts").total == 4, "unrecorded calls must be carried out"


def test_a_forked_child_writes_no_entries(tmp_path: Path) -> None:
    with laurels.open(tmp_path) as lb:
        lb.create(laurels.Board("gifts"))
        child = os.fork()
        if child == 0:
            try:
                lb.delete("gifts")
            except Forked:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert [entry.verb for entry in lb.audit()] == ["create"]


def test_reading_the_audit_log_creates_no_file(shell: Shell, tmp_path: Path) -> None:
    assert shell("audit").err.startswith("error [folder_missing]")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert shell.json("audit", "--at", str(empty)) == []
    assert list(empty.iterdir()) == []


def test_accepting_a_clock_needs_a_key_for_all_boards() -> None:
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
