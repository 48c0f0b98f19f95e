"""Commands give the same results on a server, over HTTP, as on its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import laurels
from laurels.server.answers.hot_keys import LEAST
from tests.serving import ADMIN_KEY, Served

from .running import Shell


@pytest.fixture
def served(shell: Shell) -> Iterator[Served]:
    """The URL of a server that serves the folder of the commands."""
    with Served(shell.directory / "boards") as server:
        yield server


@pytest.fixture
def remote(shell: Shell, served: Served, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a function that runs commands on the server."""
    monkeypatch.setenv("LAURELS_URL", served.url)
    return shell


def test_boards_are_stored_at_a_server(remote: Shell) -> None:
    remote.ok("board", "create", "gifts", "--window", "all", "--window", "day")
    assert [board["name"] for board in remote.json("board", "list")] == ["gifts"]
    assert remote.json("board", "change", "gifts", "--title", "Gifts")["title"] == "Gifts"
    assert remote.json("board", "show", "gifts")["windows"] == ["all", "day"]
    assert "current" in remote.ok("board", "show", "gifts").out
    remote.ok("board", "delete", "gifts", "--yes")
    assert remote.json("board", "list") == []


def test_a_file_is_imported_over_http_and_nothing_counts_twice(remote: Shell) -> None:
    remote.ok("board", "create", "gifts")
    rows = "".join(f"m{i % 700:03},{i % 13 + 1}\n" for i in range(25_000))
    file = remote.file("gifts.csv", f"member,value\n{rows}")
    first = remote.json("import", "gifts", file, "--batch", "100000")
    assert first["files"][0]["applied"] == 25_000
    file.write_text(f"member,value\n{rows}late,1\n")
    assert remote.json("import", "gifts", file)["files"][0]["applied"] == 1
    scores = remote.scores("gifts")
    assert sum(scores.values()) == sum(i % 13 + 1 for i in range(25_000)) + 1


def test_rejected_lines_are_reported_over_http(remote: Shell) -> None:
    remote.ok("board", "create", "gifts")
    file = remote.file("gifts.csv", "member,value\nann,1\nbob,x\n,3\n")
    ran = remote("import", "gifts", file, "--json")
    assert ran.code == 1
    assert ran.json()["files"][0]["reasons"] == {"invalid_value": 1, "member_empty": 1}


def test_queries_are_answered_by_a_server(remote: Shell) -> None:
    remote.ok("board", "create", "gifts")
    remote.ok("import", "gifts", remote.file("g.csv", "member,value\nann,5\nbob,3\n"))
    assert "ann" in remote.ok("top", "gifts").out
    assert remote.json("rank", "gifts", "bob")["rank"] == 2
    assert remote("rank", "gifts", "zed").code == 1
    assert remote.json("around", "gifts", "ann", "--radius", "0")["total"] == 2
    assert remote.ok("export", "gifts").out == "rank,member,score\n1,ann,5\n2,bob,3\n"


def test_hot_boards_and_members_are_listed(remote: Shell) -> None:
    remote.ok("board", "create", "gifts")
    with laurels.open(os.environ["LAURELS_URL"]) as lb:
        lb.submit("gifts", "ann", 5)
        assert lb.hot().boards == []
        for _ in range(LEAST):
            lb.rank("gifts", "ann")
            lb.top("gifts")
        assert lb.hot().to_dict()["members"] == [
            {"board": "gifts", "member": "ann", "count": LEAST}
        ]
    shown = remote.json("hot")
    assert shown["boards"] == [{"board": "gifts", "count": 2 * LEAST}]
    assert shown["members"] == [{"board": "gifts", "member": "ann", "count": LEAST}]
    lines = remote.ok("hot").out.splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["gifts", str(2 * LEAST)],
        ["gifts", "ann", str(LEAST)],
    ]
    assert lines[-1].startswith("queries of the last ")


def test_check_rebuild_and_snapshot_work_on_a_server(remote: Shell) -> None:
    remote.ok("board", "create", "gifts")
    assert remote.json("check")["boards"] == 1
    assert remote.json("rebuild")["boards"] == 1
    assert remote.json("snapshot")["snapshot_offset"] == 1


def test_a_folder_that_is_served_names_the_address(shell: Shell, served: Served) -> None:
    ran = shell("top", "gifts")
    assert ran.code == 2
    assert f"use --at {served.url}" in ran.err


def test_an_unreachable_server_is_reported(shell: Shell) -> None:
    ran = shell("top", "gifts", "--at", "http://127.0.0.1:9")
    assert ran.code == 2
    assert ran.err.startswith("error [server_unreachable]: http://127.0.0.1:9 does not answer")


def test_a_server_has_its_own_clock(remote: Shell) -> None:
    ran = remote("board", "create", "gifts", "--clock", "event")
    assert (ran.code, "invalid_clock" in ran.err) == (2, True)


def test_a_key_is_taken_from_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with Served(shell.directory / "boards", admin_key=ADMIN_KEY) as served:
        monkeypatch.setenv("LAURELS_URL", served.url)
        assert "unauthorized" in shell("board", "list").err
        monkeypatch.setenv("LAURELS_KEY", ADMIN_KEY)
        assert shell.json("board", "list") == []
        with laurels.open(served.url.replace("//", f"//{ADMIN_KEY}@")) as lb:
            assert lb.boards() == []
