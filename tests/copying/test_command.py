"""`laurels copy` between stores given by URLs, even if the process is killed during the copy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.json import decode

import laurels
from laurels import Board
from laurels.errors.copies import NameTaken
from tests.cli.running import Shell
from tests.counts import rare
from tests.internals import copies_of
from tests.redis.servers import Server

KILLED = """
import os, signal
from laurels.stores.local.copies import LocalCopies
from laurels.stores.redis.copies import ServerCopies
Copies = ServerCopies if {on_server} else LocalCopies
{method} = Copies.{method}
calls = 0
def killing(*arguments):
    global calls
    calls += 1
    if calls == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return {method}(*arguments)
Copies.{method} = killing
"""
"""Code that makes a process kill itself at call number `at` of a method that writes a copy, before
the method does anything."""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    return Shell(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def fill(url: str | Path) -> None:
    with laurels.open(url) as lb:
        for name in ("gifts", "gems", "points"):
            lb.create(Board(name, windows=["all", "7d=rolling:7d/1d", "day"]))
            lb.submit_many(name, [(f"m{i}", i, None, f"e{i}") for i in range(5_000)])


def test_boards_are_copied_and_compared(shell: Shell) -> None:
    fill("boards")
    ran = shell("copy", "boards", "other", "--board", "g*")
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.out.splitlines()
    assert first == (
        "gems: copied 20,000 rows; equal: 3 rankings with 15,000 entries, 1 tallies, "
        "5,000 event ids, data of 0 members, 0 positions, "
        "0 sealed periods, 0 payouts"
    )
    assert second.startswith("gifts: copied")
    with laurels.open("other", create=False) as lb:
        assert [each.name for each in lb.boards()] == ["gems", "gifts"]
        assert lb.top("gems").entries[0].member == "m4999"
        assert lb.submit("gems", "m7", 7, id="e7").status == "duplicate"
    again = shell("copy", "boards", "other", "--json")
    assert again.code == 0
    assert [(each["board"], each["copied"]) for each in again.json()] == [
        ("gems", False),
        ("gifts", False),
        ("points", True),
    ]


def test_a_difference_ends_with_1(shell: Shell) -> None:
    fill("boards")
    assert shell("copy", "boards", "other").code == 0
    with laurels.open("other") as lb:
        lb.set("gems", "m7", 1_000_000)
    ran = shell("copy", "boards", "other")
    assert ran.code == 1
    assert "gems: copied before; the copy differs from the source:\n  ranking of 7d" in ran.out
    assert "\n  ranking of all" in ran.out
    assert "gifts: copied before; equal" in ran.out


def test_the_position_of_a_forgotten_sink_is_not_copied(shell: Shell, server: Server) -> None:
    with laurels.open("boards") as lb:
        lb.create(Board("jewels"))
        lb.submit_many("jewels", [("ann", 1)], position=("sink:shop", "7"))
        lb.submit_many("jewels", [], position=("sink:shop", ""))
    ran = shell("copy", "boards", server.url)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.rstrip().endswith("0 positions, 0 sealed periods, 0 payouts")


def test_a_taken_name_does_not_stop_the_copy_of_other_boards(shell: Shell) -> None:
    fill("boards")
    with laurels.open("other") as lb:
        lb.create(Board("gems"))
    ran = shell("copy", "boards", "other", "--json")
    assert ran.code == 1
    assert "[name_taken]" in ran.err
    assert [each.get("code") for each in ran.json()] == ["name_taken", None, None]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["boards", "boards"], "usage"),
        (["boards", "./boards"], "usage"),
        (["boards", "other", "--board", "none"], "unknown_board"),
        (["boards", "other", "--board", "\n"], "invalid_key"),
        (["nowhere", "other"], "folder_missing"),
        (["boards"], "usage"),
    ],
)
def test_wrong_usage_is_refused_with_a_code(shell: Shell, arguments: list[str], code: str) -> None:
    with laurels.open("boards") as lb:
        lb.create(Board("gifts"))
    ran = shell("copy", *arguments)
    assert ran.code == 2
    assert f"[{code}]" in ran.err
    assert not Path("nowhere").exists()


MORE = [("begin", 1), ("put", 4), ("finish", 3)]
"""The calls before which a copy is also killed in `make torture`."""


@pytest.mark.parametrize(
    ("method", "at", "on_server"),
    [
        *[("begin", 2, True), ("put", 1, False), ("put", 11, True), ("finish", 1, False)],
        *rare(("begin", 2, False), ("put", 1, True), ("put", 11, False), ("finish", 1, True)),
        *rare(*((*case, on) for case in MORE for on in (False, True))),
    ],
)
def test_a_copy_that_was_killed_is_finished_by_the_next_one(
    shell: Shell, server: Server, method: str, at: int, on_server: bool
) -> None:
    fill("boards")
    target = f"{server.url}?prefix={method}{at}:" if on_server else "other"
    prelude = KILLED.format(method=method, at=at, on_server=on_server)
    killed = shell.process("copy", "boards", target, prelude=prelude)
    assert killed.returncode == -9, killed.stderr
    with laurels.open(target, create=False) as lb:
        lb.check()
        finished = [each.name for each in lb.boards()]
    ran = shell("copy", "boards", target, "--json")
    assert ran.code == 0, ran.err
    assert [each["board"] for each in ran.json() if not each["copied"]] == finished
    with laurels.open(target, create=False) as lb, laurels.open("boards") as source:
        lb.check()
        for name in ("gifts", "gems", "points"):
            pages = [each.top(name, limit=10_000).entries for each in (lb, source)]
            assert pages[0] == pages[1]


def test_boards_move_to_an_index_server_and_back(shell: Shell, server: Server) -> None:
    fill("boards")
    url = f"{server.url}?prefix=there:"
    assert shell("copy", "boards", url).code == 0
    with laurels.open(url, create=False) as lb:
        assert lb.submit("gems", "m7", 7, id="e7").status == "duplicate"
        assert lb.submit("gems", "m7", 7, id="new").score == 14
        lb.check()
    assert shell("copy", url, "back", "--board", "gems").code == 0
    with laurels.open("back", create=False) as lb:
        assert lb.submit("gems", "m7", 7, id="new").status == "duplicate"
        assert lb.rank("gems", "m4999", window="7d") == 1
        lb.check()


@pytest.mark.parametrize(("shards", "source", "target"), [(1, 0, 1), (1, 1, 0), (3, 1, 0)])
def test_sinks_continue_in_the_copy(
    shards: int, source: int, target: int, shell: Shell, server: Server
) -> None:
    """A sink that has sent everything sends the later changes from the copy, each once. A sink that
    has not sent everything is named in the output."""
    here, there = ("boards", f"{server.url}?prefix={shards}{source}:")[source], "other"
    if target:
        there = f"{server.url}?prefix=copy:"
    run = ("sink", "run", "lines", "--to", "lines.jsonl", "--until-end")
    with laurels.open(here) as lb:
        lb.create(Board("gifts", changes="1d", shards=shards))
        lb.submit_many("gifts", [("ann", 1), ("bob", 2)])
    assert shell(*run, "--at", here).code == 0
    assert shell("sink", "run", "slow", "--to", "slow.jsonl", "--until-end", "--at", here).code == 0
    with laurels.open(here) as lb:
        lb.submit("gifts", "cid", 3)
    assert shell(*run, "--at", here).code == 0
    ran = shell("copy", here, there)
    assert ran.code == 0, ran.err
    assert "not compared: 1 changes that the sink slow has not sent" in ran.out
    assert "lines" not in ran.out
    with laurels.open(there, create=False) as lb:
        lb.submit("gifts", "dan", 4)
    ran = shell(*run, "--at", there)
    assert ran.code == 0, ran.err
    sent = [decode(line) for line in (shell.directory / "lines.jsonl").read_bytes().splitlines()]
    assert sorted(each["member"] for each in sent if each["kind"] == "event") == [
        *("ann", "bob", "cid", "dan"),
    ]
    with laurels.open(here) as lb:
        positions = lb.positions("gifts")
    assert [name for name in positions if name.startswith("sink:")] == ["sink:lines", "sink:slow"]


def test_a_copy_keeps_event_time(shell: Shell) -> None:
    with laurels.open("boards", clock="event") as lb:
        lb.create(Board("gifts", windows=["day", "all"], keep=3))
        lb.submit("gifts", "alice", 5, at=86_400_000 * 20_000)
    assert shell("copy", "boards", "other").code == 0
    with laurels.open("other", create=False) as lb:
        assert lb.top("gifts").entries[0].score == 5
    with laurels.open("clocked") as lb:
        lb.create(Board("other"))
        lb.submit("other", "bob", 1)
    ran = shell("copy", "boards", "clocked")
    assert ran.code == 2
    assert "[invalid_clock]" in ran.err


def test_help_has_examples() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "laurels", "copy", "--help"], capture_output=True, check=True
    )
    assert b"laurels copy ./boards redis://" in ran.stdout


@pytest.mark.parametrize("place", ["folder", "server"])
def test_an_unfinished_copy_is_removed(shell: Shell, server: Server, place: str) -> None:
    fill("boards")
    to = "other" if place == "folder" else server.url
    with laurels.open("boards") as lb, laurels.open(to) as target:
        copies_of(target).begin(copies_of(lb).origin("gems"))
        copies_of(target).put("gems", list(copies_of(lb).pieces("gems"))[:2])
        with pytest.raises(NameTaken):
            target.create(Board("gems"))
    ran = shell("abandon", "gems", "--at", to)
    assert (ran.code, ran.out) == (0, "removed the unfinished copy of gems\n")
    assert "there is no unfinished copy" in shell("abandon", "gems", "--at", to).err
    [entry, *_] = [each for each in shell.json("audit", "--at", to) if each["verb"] == "abandon"]
    assert entry["board"] == "gems"
    with laurels.open(to) as target:
        target.create(Board("gems"))
        target.delete("gems")
