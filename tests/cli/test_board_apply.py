"""`board apply` creates the boards in a file, and changes existing ones where that is safe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import laurels
from laurels.cli.boards.board_plan import Step, carry_out
from laurels.stores.http.call import Call
from laurels.stores.http.transport import Wire
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import Served

from .applying import TWO, actions, applied, apply
from .running import Shell


@pytest.fixture(params=["folder", "http", "redis"])
def at(request: pytest.FixtureRequest, shell: Shell) -> Iterator[str]:
    """The URL of a deployment without boards."""
    if request.param == "folder":
        yield str(shell.directory / "boards")
    elif request.param == "http":
        with Served(shell.directory / "served") as served:
            yield served.url
    else:
        server: Server = request.getfixturevalue("server")
        yield server.url


def names(shell: Shell, *options: str) -> list[str]:
    return [board["name"] for board in shell.json("board", "list", *options)]


def test_boards_are_created_changed_and_then_unchanged(shell: Shell, at: str) -> None:
    to = ("--at", at)
    made = applied(shell, TWO, *to)
    assert actions(made) == {"gifts": "create", "race": "create"}
    assert all(board["done"] for board in made["boards"])
    with laurels.open(at) as lb:
        assert lb.boards() == [
            laurels.Board("gifts", title="Gifts", windows=["all", "day"], keep=5),
            laurels.Board(
                "race",
                columns=[laurels.Column("time", op="best", order="asc", scale=2, max="99.5")],
                keep=5,
            ),
        ]
        lb.submit("gifts", "ann", 3)
    assert set(actions(applied(shell, TWO, *to)).values()) == {"unchanged"}
    more = TWO.replace('"Gifts"', '"The gifts"').replace('"day"', '"day:keep=9", "hour"')
    changed = applied(shell, more.replace('"day:', '"day=day:'), *to)
    assert actions(changed) == {"gifts": "change", "race": "unchanged"}
    assert changed["boards"][0]["changes"] == [
        {"field": "title", "from": "Gifts", "to": "The gifts"},
        {
            "field": "windows",
            "from": ["all", "day"],
            "to": ["all", "day=day:keep=9", "hour"],
        },
    ]
    board = shell.json("board", "show", "gifts", *to)
    assert (board["title"], board["windows"]) == ("The gifts", ["all", "day=day:keep=9", "hour"])
    assert shell.scores("gifts", *to) == {"ann": 3}
    again = applied(shell, more.replace('"day:', '"day=day:'), *to)
    assert set(actions(again).values()) == {"unchanged"}


def test_an_unsafe_change_stops_the_whole_file(shell: Shell, at: str) -> None:
    to = ("--at", at)
    shell.ok("board", "create", "old", "--window", "day", *to)
    shell.ok("board", "create", "there", *to)
    before = shell.json("board", "list", *to)
    content = """
        [boards.new]
        [boards.old]
        tie = "last"
        windows = ["week"]
        [boards.there]
        title = "Changed"
    """
    for options in (("--dry-run",), ()):
        ran = apply(shell, content, "--json", *options, *to)
        assert (ran.code, ran.err) == (1, "")
        document = ran.json()
        assert actions(document) == {"new": "create", "old": "refused", "there": "change"}
        reasons = document["boards"][1]["reasons"]
        assert [reason.split()[0] for reason in reasons] == ["tie", "window"]
        assert not any(board["done"] for board in document["boards"])
        ran = apply(shell, content, *options, *to)
        assert ran.code == 1
        assert "1 refused, 1 to create, 1 to change, 0 unchanged; nothing was done" in ran.out
        assert "window 'day' cannot go" in ran.out
    assert shell.json("board", "list", *to) == before


def test_a_dry_run_does_nothing(shell: Shell, at: str) -> None:
    to = ("--at", at)
    shell.ok("board", "create", "gifts", "--keep", "5", "--window", "all", *to)
    shell.ok("board", "create", "other", *to)
    before = shell.json("board", "list", *to)
    document = applied(shell, TWO, "--dry-run", *to)
    assert actions(document) == {"gifts": "change", "race": "create"}
    assert (document["others"], document["dry_run"]) == (["other"], True)
    assert not any(board["done"] for board in document["boards"])
    out = apply(shell, TWO, "--dry-run", *to).out
    assert "title '' → 'Gifts'; windows all → all, day" in out
    assert out.splitlines()[-1] == (
        "1 to create, 1 to change, 0 unchanged, 1 not in the file; nothing was done (--dry-run)"
    )
    assert shell.json("board", "list", *to) == before
    assert apply(shell, TWO, *to).out.splitlines()[-1] == (
        "1 created, 1 changed, 0 unchanged, 1 not in the file"
    )
    assert names(shell, *to) == ["gifts", "other", "race"]


def test_a_dry_run_makes_no_folder(shell: Shell) -> None:
    assert actions(applied(shell, TWO, "--dry-run")) == {"gifts": "create", "race": "create"}
    assert not (shell.directory / "boards").exists()


def test_boards_can_be_applied_in_memory(shell: Shell) -> None:
    assert "2 created, 0 changed" in apply(shell, TWO, "--at", "memory:").out


def test_a_new_folder_uses_the_requested_clock(shell: Shell) -> None:
    applied(shell, TWO, "--clock", "event")
    ran = shell("import", "race", "-", "--json", stdin=b"member,value\na,1\n")
    assert ran.json()["files"][0]["reasons"] == {"at_required": 1}


def test_a_key_that_may_only_read_can_only_do_a_dry_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shell.directory / "served"
    shell.ok("board", "create", "gifts", "--keep", "5", "--window", "all", "--at", str(folder))
    made = shell.ok("key", "create", "reader", "--scope", "read", "--at", str(folder))
    with Served(folder, open=False) as served:
        monkeypatch.setenv("LAURELS_KEY", made.out.split()[0])
        assert "1 to create, 1 to change" in apply(shell, TWO, "--dry-run", "--at", served.url).out
        ran = apply(shell, TWO, "--at", served.url)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [forbidden]")
    assert ran.out.splitlines()[-1].startswith("stopped after 0 of 2 boards: 0 created")


def test_apply_waits_for_a_server_with_a_low_rate_limit(shell: Shell) -> None:
    content = "".join(f"[boards.b{i}]\n" for i in range(12))
    with Served(shell.directory / "served", rate=10, burst=5) as served:
        ran = apply(shell, content, "--at", served.url)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "12 created, 0 changed, 0 unchanged")


MEANWHILE = [
    ("delete", "there is no board .b.;"),
    ("change", "window .hour. cannot go"),
    ("create", "there is a board .c. already"),
]
"""What another program does during the command, and a pattern of the expected error. The pattern
allows any quotes around names, because stores quote them differently."""


@pytest.mark.parametrize("at", ["http", "redis"], indirect=True)
@pytest.mark.parametrize(("what", "message"), MEANWHILE)
def test_a_board_changed_by_another_program_meanwhile_stops_apply(
    shell: Shell, at: str, monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    to = ("--at", at)
    shell.ok("board", "create", "b", *to)
    content = '[boards.a]\n[boards.b]\ntitle = "B"\n[boards.c]\n[boards.d]'

    def meanwhile(lb: laurels.Leaderboards, step: Step) -> None:
        with laurels.open(at) as other:
            if step.board.name == "b" and what == "delete":
                other.delete("b")
            elif step.board.name == "b" and what == "change":
                other.change("b", windows=["all", "hour"])
            elif step.board.name == "c" and what == "create":
                other.create(laurels.Board("c", tie="last"))
        carry_out(lb, step)

    with monkeypatch.context() as patched:
        patched.setattr("laurels.cli.boards.applying.carry_out", meanwhile)
        ran = apply(shell, content, "--json", *to)
    done = ["a", "b"] if what == "create" else ["a"]
    assert ran.code == 2
    assert ran.err.startswith("error [changed_meanwhile]: another program has changed the board ")
    assert re.search(message, ran.err), ran.err
    document = ran.json()
    assert document["error"] == "changed_meanwhile"
    assert [board["name"] for board in document["boards"] if board["done"]] == done
    again = apply(shell, content, *to)
    if what == "delete":
        assert again.out.splitlines()[-1] == "3 created, 0 changed, 1 unchanged"
    else:
        assert again.code == 1


def test_an_equal_board_created_concurrently_is_accepted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(lb: laurels.Leaderboards, step: Step) -> None:
        lb.create(step.board)
        carry_out(lb, step)

    monkeypatch.setattr("laurels.cli.boards.applying.carry_out", meanwhile)
    assert "2 created" in apply(shell, TWO).out


def test_an_interrupted_apply_reports_progress_and_can_be_resumed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopping(lb: laurels.Leaderboards, step: Step) -> None:
        if step.board.name == "race":
            raise KeyboardInterrupt
        carry_out(lb, step)

    with monkeypatch.context() as patched:
        patched.setattr("laurels.cli.boards.applying.carry_out", stopping)
        ran = apply(shell, TWO)
        assert ran.code == 130
        stopped = "stopped after 1 of 2 boards: 1 created, 0 changed, 0 unchanged"
        assert ran.out.splitlines()[-1] == stopped
        ran = apply(shell, TWO, "--json")
    assert (ran.code, ran.json()["interrupted"]) == (130, True)
    assert actions(applied(shell, TWO)) == {"gifts": "unchanged", "race": "create"}


def test_many_boards_are_applied_from_one_file(shell: Shell, scaled: Scaled) -> None:
    many = scaled(300, 2_000)
    content = '[defaults]\nwindows = ["all", "day"]\n'
    content += "".join(f"[boards.b{i:04}]\ntitle = 'Board {i}'\n" for i in range(many))
    ran = apply(shell, content)
    assert ran.out.splitlines()[-1] == f"{many:,} created, 0 changed, 0 unchanged"
    assert apply(shell, content).out == f"0 created, 0 changed, {many:,} unchanged\n"
    one = apply(shell, content.replace("'Board 234'", "'Another'")).out
    assert "title 'Board 234' → 'Another'" in one
    assert one.splitlines()[-1] == f"0 created, 1 changed, {many - 1:,} unchanged"
    wrong = apply(shell, content.replace("[defaults]", "[defaults]\nkeep = 0"))
    assert wrong.err.count("\n") == 1
    assert "defaults: expected an integer from 1 to 10,000 for keep, got 0" in wrong.err


def test_a_progress_bar_is_drawn_on_a_terminal(shell: Shell) -> None:
    content = "".join(f"[boards.b{i:03}]\n" for i in range(400))
    code, output = shell.on_a_terminal("board", "apply", str(shell.file("b.toml", content)))
    assert code == 0
    assert "400 created" in output
    assert "boards" in output
    assert "/s" in output


def test_apply_reads_once_and_writes_only_changed_boards(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    answer = Wire.answer

    def noted(wire: Wire, call: Call[Any]) -> Any:
        sent.append(call.method)
        return answer(wire, call)

    monkeypatch.setattr(Wire, "answer", noted)
    with Served(shell.directory / "served") as served:
        apply(shell, TWO, "--at", served.url)
        assert sent == ["GET", "PUT", "PUT"]
        sent.clear()
        apply(shell, TWO.replace('"Gifts"', '"Others"'), "--at", served.url)
        assert sent == ["GET", "PATCH"]
        sent.clear()
        apply(shell, TWO.replace('"Gifts"', '"Others"'), "--at", served.url)
        assert sent == ["GET"]


def test_markup_in_titles_is_escaped(shell: Shell) -> None:
    applied(shell, '[boards.a]\ntitle = "x"')
    out = apply(shell, '[boards.a]\ntitle = "[red]\\u001b[31m"').out
    assert "[red]\\x1b[31m" in out
