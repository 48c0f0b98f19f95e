"""`laurels changes` prints a line for each change, and can continue after any change."""

import signal
import subprocess
import sys
from pathlib import Path

from msgspec.json import decode

import laurels
from tests.serving import Served

from .running import Shell


def test_changes_are_shown(shell: Shell) -> None:
    shell("board", "create", "gifts", "--changes", "7d")
    with laurels.open(str(shell.directory / "boards")) as lb:
        lb.change("gifts", scopes=[[], ["room"]])
        lb.submit("gifts", "ann", 5, id="a b", labels={"room": "42"})
        lb.submit("gifts", "ann", -7)
        lb.set_data("gifts", "ann", {"n": 1})
        lb.remove("gifts", "ann")
    lines = shell("changes", "gifts").out.splitlines()
    assert [line.split("  ")[1].strip() for line in lines] == [
        "create",
        "change",
        "event",
        "event",
        "data",
        "remove",
    ]
    assert lines[-4].endswith("event     ann  +5  = 5  room=42  id=a b")
    assert lines[-3].endswith("event     ann  -7  = -2")
    assert lines[-2].endswith('data      ann  {"n":1}')


def test_a_cursor_continues_after_the_last_line(shell: Shell) -> None:
    shell("board", "create", "gifts", "--changes", "7d")
    with laurels.open(str(shell.directory / "boards")) as lb:
        lb.submit_many("gifts", [("ann", 5), ("bob", 7), ("cid", 9)])
    *first, end = shell.ok("changes", "gifts", "--json", "--limit", "2").out.splitlines()
    assert [decode(line)["member"] for line in first] == [None, "ann"]
    cursor = decode(end)["cursor"]
    *rest, end = shell.ok("changes", "gifts", "--json", "--after", cursor).out.splitlines()
    assert [decode(line)["member"] for line in rest] == ["bob", "cid"]
    assert shell.ok("changes", "gifts", "--after", decode(end)["cursor"]).out == ""
    assert shell.ok("changes", "gifts", "--after", "now").out == ""
    lines = shell.ok("changes", "gifts", "--initial").out.splitlines()
    assert [line.split()[1:3] for line in lines[:2]] == [["initial", "cid"], ["initial", "bob"]]
    assert lines[-1].endswith("initial_end")


def test_following_a_board_can_be_continued_after_ctrl_c(shell: Shell, tmp_path: Path) -> None:
    with Served(tmp_path / "served") as served, laurels.open(served.url) as lb:
        lb.create(laurels.Board("gifts", changes="7d"))
        at = ("gifts", "--json", "--at", served.url)
        command = [sys.executable, "-m", "laurels", "changes", *at, "--follow"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert decode(child.stdout.readline())["kind"] == "create"
            for member in ("ann", "bob"):
                lb.submit("gifts", member, 1)
                assert decode(child.stdout.readline())["member"] == member
            child.send_signal(signal.SIGINT)
            out, err = child.communicate()
        assert child.returncode == 130, err
        lb.submit("gifts", "cid", 1)
        *rest, _ = shell.ok("changes", *at, "--after", decode(out)["cursor"]).out.splitlines()
        # If Ctrl-C comes right after a line was printed, the change in that line may be shown
        # again.
        assert [decode(line)["member"] for line in rest] in (["cid"], ["bob", "cid"])
