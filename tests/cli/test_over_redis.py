"""Commands give the same results with boards on an index server as with boards in a folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import laurels
from tests.redis.servers import Server

from .running import Shell

CSV = "member,value,id\nann,5,e1\nbob,7,e2\nann,4,e3\nann,4,e3\ncid,x,e4\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def url(server: Server, tmp_path: Path) -> str:
    return f"{server.url}?prefix={tmp_path.name}:"


def test_boards_are_created_filled_and_queried(shell: Shell, url: str) -> None:
    at = ("--at", url)
    shell.ok("board", "create", "gifts", "--window", "all", "--window", "day", *at)
    file = shell.file("gifts.csv", CSV)
    ran = shell("import", "gifts", file, *at)
    assert ran.code == 1
    assert "3 applied" in ran.out
    assert "1 duplicates" in ran.out
    again = shell("import", "gifts", file, *at)
    assert "nothing new" in again.out
    assert shell.scores("gifts", *at) == {"ann": 9, "bob": 7}
    assert shell.json("rank", "gifts", "ann", *at)["rank"] == 1
    assert [e["member"] for e in shell.json("top", "gifts", *at)["entries"]] == ["ann", "bob"]
    assert len(shell.json("around", "gifts", "bob", *at)["entries"]) == 2
    assert shell.json("check", *at)["rankings"] == 2
    assert "rebuilt: 1 boards" in shell.ok("rebuild", *at).out
    assert "gifts" in shell.ok("board", "list", *at).out
    assert "day" in shell.ok("board", "show", "gifts", *at).out
    shell.ok("board", "change", "gifts", "--title", "Gifts", *at)
    assert shell.json("board", "show", "gifts", *at)["title"] == "Gifts"
    shell.ok("board", "delete", "gifts", "--yes", *at)
    assert shell("top", "gifts", *at).code == 2


KILLED_BETWEEN_CALLS = """
import os
from laurels.stores.redis.index.index import RedisIndex
apply, calls = RedisIndex.apply, 0
async def killing(*arguments, **options):
    global calls
    calls += 1
    if calls == 3:
        os._exit(9)
    return await apply(*arguments, **options)
RedisIndex.apply = killing
"""


def test_a_replay_that_was_killed_between_two_periods_counts_nothing_twice(
    shell: Shell, url: str
) -> None:
    rows = "".join(f"m{i % 7},1,2026-01-{1 + i % 28:02}\n" for i in range(280))
    file = shell.file("history.csv", f"member,value,at\n{rows}")
    shell.ok(
        "board",
        "create",
        "b",
        "--window",
        "all",
        "--window",
        "day",
        "--clock",
        "event",
        "--at",
        url,
    )
    replay = ("import", "b", file, "--clock", "event", "--at", url)
    assert shell.process(*replay, prelude=KILLED_BETWEEN_CALLS).returncode == 9
    assert sum(shell.scores("b", "--at", url).values()) == 20
    shell.ok(*replay)
    assert shell.scores("b", "--at", url) == {f"m{i}": 40 for i in range(7)}


def test_a_history_is_replayed(shell: Shell, url: str) -> None:
    rows = "".join(f"m{i % 7},1,2026-01-{1 + i % 28:02}\n" for i in range(2_800))
    file = shell.file("history.csv", f"member,value,at\n{rows}")
    options = ("--clock", "event", "--at", url)
    shell.ok("board", "create", "b", "--window", "all", "--window", "month", *options)
    shell.ok("import", "b", file, *options)
    assert sum(shell.scores("b", "--at", url).values()) == 2_800
    ran = shell("board", "create", "c", "--clock", "system", "--at", url)
    assert ran.code == 2
    assert "[invalid_clock]" in ran.err


def test_commands_for_folders_are_refused_on_a_server(shell: Shell, url: str) -> None:
    shell.ok("board", "create", "b", "--at", url)
    for command in (["backup", "b.backup"], ["restore", "b.backup"], ["snapshot"]):
        ran = shell(*command, "--at", url)
        assert ran.code == 2
        assert "[nothing_to_back_up]" in ran.err


def test_keys_are_kept_on_the_server(shell: Shell, url: str) -> None:
    at = ("--at", url)
    assert shell.ok("key", "create", "game", *at).out.startswith("lk_")
    assert [key["name"] for key in shell.json("key", "list", *at)] == ["game"]
    assert "[key_exists]" in shell("key", "create", "game", *at).err
    shell.ok("key", "revoke", "game", *at)
    assert shell.json("key", "list", *at) == []
    assert "[unknown_key]" in shell("key", "revoke", "game", *at).err


def test_reading_commands_create_no_keys_on_the_server(
    shell: Shell, server: Server, url: str
) -> None:
    assert shell("top", "none", "--at", url).code == 2
    shell.ok("board", "list", "--at", url)
    shell.ok("key", "list", "--at", url)
    prefix = url.partition("prefix=")[2]
    assert server.call("KEYS", f"{prefix}*") == []


def test_a_board_is_watched(shell: Shell, url: str) -> None:
    with laurels.open(url) as lb:
        lb.create(laurels.Board("b"))
        lb.submit("b", "ann", 1)
        with subprocess.Popen(
            [sys.executable, "-m", "laurels.cli", "watch", "b", "--json", "--at", url],
            stdout=subprocess.PIPE,
        ) as watching:
            assert watching.stdout is not None
            first = msgspec.json.decode(watching.stdout.readline())
            assert first["event"] == "top"
            lb.submit("b", "bob", 2)
            second = msgspec.json.decode(watching.stdout.readline())
            assert second["event"] == "change"
            assert second["data"]["order"] == ["bob", "ann"]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 130
    assert "[unknown_board]" in shell("watch", "none", "--at", url).err


def test_the_risks_of_a_server_are_not_repeated_with_every_command(shell: Shell) -> None:
    with Server("--appendonly", "no") as server:
        ran = shell.process("board", "list", "--at", server.url)
        assert (ran.returncode, ran.stderr) == (0, b"")


def test_events_left_out_of_a_ranking_by_a_label_are_shown(shell: Shell, url: str) -> None:
    with laurels.open(url) as lb:
        columns = [laurels.Column(max=10)]
        lb.create(laurels.Board("b", columns=columns, shards=2, rank_by="room"))
        lb.submit_many("b", [(f"m{i}", 6, None, None, {"room": "1"}) for i in range(4)])
    output = shell.ok("board", "show", "b", "--at", url).out
    assert "3 events would have taken a total out of the range" in output
