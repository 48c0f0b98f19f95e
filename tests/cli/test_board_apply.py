"""`board apply`: the boards of a file, created and changed where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.cli.board_plan import Step, carry_out
from laurels.client.call import Call
from laurels.client.wire import Wire
from tests.redis.servers import Server
from tests.serving import Served

from .running import Ran, Shell

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "boards.toml"
TWO = """
[defaults]
keep = 5

[boards.gifts]
title = "Gifts"
windows = ["all", "day"]

[boards.race]
columns = [{ name = "time", op = "best", order = "asc", scale = 2, max = 99.5 }]
"""


@pytest.fixture(params=["folder", "http", "redis"])
def at(request: pytest.FixtureRequest, shell: Shell) -> Iterator[str]:
    """A deployment without boards."""
    if request.param == "folder":
        yield str(shell.directory / "boards")
    elif request.param == "http":
        with Served(shell.directory / "served") as served:
            yield served.url
    else:
        server: Server = request.getfixturevalue("server")
        yield server.url


def apply(shell: Shell, content: str, *options: str, name: str = "boards.toml") -> Ran:
    return shell("board", "apply", shell.file(name, content), *options)


def applied(shell: Shell, content: str, *options: str, name: str = "boards.toml") -> Any:
    return shell.json("board", "apply", shell.file(name, content), *options)


def actions(document: Any) -> dict[str, str]:
    return {board["name"]: board["action"] for board in document["boards"]}


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


def test_what_cannot_be_changed_safely_stops_all(shell: Shell, at: str) -> None:
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
        "1 to create, 1 to change, 0 unchanged, 1 not in the file left alone; "
        "nothing was done (--dry-run)"
    )
    assert shell.json("board", "list", *to) == before
    assert apply(shell, TWO, *to).out.splitlines()[-1] == (
        "1 created, 1 changed, 0 unchanged, 1 not in the file left alone"
    )
    assert names(shell, *to) == ["gifts", "other", "race"]


def test_a_dry_run_makes_no_folder(shell: Shell) -> None:
    assert actions(applied(shell, TWO, "--dry-run")) == {"gifts": "create", "race": "create"}
    assert not (shell.directory / "boards").exists()


def test_in_memory(shell: Shell) -> None:
    assert "2 created, 0 changed" in apply(shell, TWO, "--at", "memory:").out


def test_a_new_folder_is_kept_by_the_clock_asked_for(shell: Shell) -> None:
    applied(shell, TWO, "--clock", "event")
    ran = shell("import", "race", "-", "--json", stdin=b"member,value\na,1\n")
    assert ran.json()["files"][0]["reasons"] == {"at_required": 1}


def test_the_example(shell: Shell) -> None:
    made = shell.json("board", "apply", EXAMPLE)
    assert set(actions(made).values()) == {"create"}
    boards = {board["name"]: board for board in shell.json("board", "list")}
    assert boards["gifts"] | {"keep": 12, "tz": "Europe/Paris"} == boards["gifts"]
    assert boards["hot"]["windows"] == ["today=day:keep=2", "7d=rolling:7d/1h"]
    assert boards["season.2026"]["windows"] == ["all", "weeks=week:keep=52,week_start=sunday"]
    assert [column["name"] for column in boards["heroes"]["columns"]] == ["level", "points"]
    assert "0 created, 0 changed, 5 unchanged" in shell.ok("board", "apply", EXAMPLE).out


def test_the_file_on_the_page(shell: Shell) -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    (_, block) = page.split("```toml\n")
    applied(shell, block.partition("```")[0])
    boards = {board["name"]: board for board in shell.json("board", "list")}
    assert (boards["gifts"]["windows"], boards["gifts"]["keep"]) == (["all", "day"], 12)
    assert (boards["race"]["windows"], boards["race"]["tz"]) == (["all"], "Asia/Shanghai")
    assert "season.2026" in boards


def test_a_field_left_out_has_its_default(shell: Shell) -> None:
    shell.ok("board", "create", "a", "--title", "By hand", "--keep", "9")
    shell.ok("board", "create", "b", "--grace", "1m")
    assert "title 'By hand' → ''; keep 9 → 2" in apply(shell, "[boards.a]").out
    ran = apply(shell, "[boards.b]")
    assert (ran.code, "grace cannot change" in ran.out) == (1, True)


def test_a_key_that_may_only_read(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shell.directory / "served"
    shell.ok("board", "create", "gifts", "--keep", "5", "--window", "all", "--at", str(folder))
    made = shell.ok("key", "create", "reader", "--scope", "read", "--at", str(folder))
    with Served(folder) as served:
        monkeypatch.setenv("LAURELS_KEY", made.out.split()[0])
        assert "1 to create, 1 to change" in apply(shell, TWO, "--dry-run", "--at", served.url).out
        ran = apply(shell, TWO, "--at", served.url)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [forbidden]")
    assert ran.out.splitlines()[-1].startswith("stopped after 0 of 2 boards: 0 created")


def test_a_server_that_lets_few_requests_in_is_waited_for(shell: Shell) -> None:
    content = "".join(f"[boards.b{i}]\n" for i in range(12))
    with Served(shell.directory / "served", rate=10, burst=5) as served:
        ran = apply(shell, content, "--at", served.url)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "12 created, 0 changed, 0 unchanged")


def test_what_is_shown_can_be_applied_elsewhere(shell: Shell) -> None:
    shell.ok("board", "apply", EXAMPLE)
    listed = shell.ok("board", "list", "--json").out
    copied = shell.json("board", "apply", "-", "--at", "copy", stdin=listed.encode())
    assert set(actions(copied).values()) == {"create"}
    assert shell.ok("board", "list", "--json", "--at", "copy").out == listed
    for name in ("race", "season.2026"):
        shown = shell.file("one.json", shell.ok("board", "show", name, "--json").out)
        assert actions(shell.json("board", "apply", shown)) == {name: "unchanged"}


def test_one_file_in_all_its_forms(shell: Shell) -> None:
    applied(shell, TWO)
    tables = """
        [[boards]]
        name = "gifts"
        keep = 5
        title = "Gifts"
        windows = [{ type = "all" }, { type = "day" }]
        [[boards]]
        name = "race"
        keep = 5
        [[boards.columns]]
        name = "time"
        op = "best"
        order = "asc"
        scale = 2
        max = "99.50"
    """
    column = '{"name": "time", "op": "best", "order": "asc", "scale": 2, "max": 99.50}'
    gifts, race = '"title": "Gifts", "windows": ["all", "day"]', f'"columns": [{column}]'
    as_json = (
        f'{{"defaults": {{"keep": 5}}, "boards": {{"gifts": {{{gifts}}}, "race": {{{race}}}}}}}'
    )
    named = f'{{"name": "gifts", {gifts}}}, {{"name": "race", {race}}}'
    for name, content in (
        ("b.toml", tables),
        ("b.toml", f"\ufeff{tables}".replace("\n", "\r\n")),
        ("b.JSON", as_json),
        ("b.json", f'{{"defaults": {{"keep": 5}}, "boards": [{named}]}}'),
        ("b.txt", as_json),
    ):
        assert set(actions(applied(shell, content, name=name)).values()) == {"unchanged"}


def test_numbers_are_exact(shell: Shell) -> None:
    digits = "0.123456789012345"
    column = f'{{ name = "a", scale = 15, min = -{digits}, max = {digits} }}'
    applied(shell, f"[boards.b]\ncolumns = [{column}]")
    (column,) = shell.json("board", "show", "b")["columns"]
    assert (column["min"], column["max"]) == (f"-{digits}", digits)


def test_every_fault_of_every_board_is_named(shell: Shell) -> None:
    content = """
        [defaults]
        keep = 0
        colour = "red"
        grace = "2h"

        [boards.a]
        tz = "Mars/Phobos"
        tie = "never"
        dedupe = "3h"
        [boards.b]
        keep = 3
        colums = []
        [boards.c]
        keep = 0
        dedupe = "3h"
        columns = [{ name = "x", scale = 99, min = nan }, 7]
        [boards."bad name"]
        [boards.d.e]
        keep = 1
    """
    ran = apply(shell, content)
    assert (ran.code, ran.out) == (2, "")
    *faults, error = ran.err.splitlines()
    where = str(shell.directory / "boards.toml")
    assert all(fault.startswith(f"{where}: ") for fault in faults)
    found = [fault.removeprefix(f"{where}: ") for fault in faults]
    for place, said in (
        ("defaults", "unknown field 'colour'"),
        ("defaults", "keep is 0"),
        ("defaults", "dedupe is shorter than the longest grace, 2h"),
        ("board a", "tz is 'Mars/Phobos'"),
        ("board a", "tie is 'never'"),
        ("board b", "unknown field 'colums'"),
        ("board c", "keep is 0"),
        ("board c", "column 'x': scale is 99"),
        ("board c", "7 is no column"),
        ("board 'bad name'", "'bad name' is no name for a board"),
        ("board d", "unknown field 'e': for a board called d.e write [boards.\"d.e\"]"),
    ):
        assert [f for f in found if f.startswith(f"{place}: {said}")], (place, said, found)
    assert not [fault for fault in found if fault.startswith(("board a: dedupe", "board b: keep"))]
    assert len(set(found)) == len(found)
    assert error == (
        f"error [invalid_board]: {len(found)} faults, and nothing was done; "
        "correct what is named and define the board again"
    )
    assert not (shell.directory / "boards").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no board is defined: write a table [boards.NAME]"),
        ("[boards]", "no board is defined"),
        ("[]", "no board is defined"),
        ("[gifts]\nkeep = 3", "unknown table 'gifts': a board is written [boards.gifts]"),
        ("[board.gifts]", "unknown field 'board': write boards"),
        ("[default]\n[boards.a]", "unknown field 'default': write defaults"),
        ("keep = 3\n[boards.a]", "keep belongs to a board"),
        ("format = 1\n[boards.a]", "unknown field 'format': there are defaults and boards"),
        ("defaults = 3\n[boards.a]", "defaults: 3 is no table of fields"),
        ('[defaults]\nname = "a"\n[boards.a]', "defaults: a name is one board's"),
        ("boards = 3", "boards: 3 is no table of boards"),
        ("[boards]\na = 3", "board a: 3 is no table of fields"),
        ('[boards.a]\nname = "b"', "board a: its name is 'b' inside"),
        ("[[boards]]\nkeep = 3", "board 1: has no name"),
        ("boards = [3]", "board 1: 3 is no table of fields"),
        ('[[boards]]\nname = "a"\n[[boards]]\nname = "a"', "board a: is there 2 times"),
        ("[boards.a]\nformat = 2", "board a: the definition of the board has format 2"),
        ("[boards.a]\ngrace = 05:00:00", "board a: grace: datetime.time(5, 0)"),
        ('{"boards": {"a": {"title": null}}}', "board a: title is None"),
    ],
)
def test_files_that_define_no_boards(shell: Shell, content: str, said: str) -> None:
    ran = apply(shell, content)
    assert (ran.code, ran.out) == (2, "")
    where = shell.directory / "boards.toml"
    assert ran.err.startswith(f"error [invalid_board]: {where}: {said}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("b.toml", b"[boards.a]\nkeep = \n", "invalid_toml", "line 2, column 8"),
        ("b.toml", b"[boards.a]\n[boards.a]\n", "invalid_toml", "line 2"),
        ("b.toml", b"[boards.a]\nkeep = 1\nkeep = 2\n", "invalid_toml", "line 3"),
        ("b.toml", b"[boards.a]\n# \xff\n", "invalid_toml", "line 2"),
        ("b.toml", b"keep = " + b"9" * 5_000, "invalid_toml", "too many digits"),
        ("b.toml", b"a = " + b"[" * 100_000, "invalid_toml", "nested too deeply"),
        ("b.json", b'{"boards":\n {"a": }}', "invalid_json", "line 2, column 8"),
        ("b.json", b'{"boards": {"a": {}, "a": {}}}', "invalid_json", "'a' is there twice"),
        ("b.json", b'{"boards": {"a": {"keep": NaN}}}', "invalid_json", "NaN is no number"),
        ("b.json", b"\xff", "invalid_json", "line 1"),
        ("b.json", b"", "invalid_json", "line 1"),
        ("b.json", b"9" * 5_000, "invalid_json", "too many digits"),
        ("b.json", b"[" * 100_000, "json_too_deep", "nested too deeply"),
    ],
)
def test_files_that_cannot_be_read(
    shell: Shell, name: str, content: bytes, code: str, said: str
) -> None:
    ran = shell("board", "apply", shell.file(name, content))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error [{code}]: {shell.directory / name}")
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b"])
def test_files_that_are_not_there(shell: Shell, name: str) -> None:
    assert shell("board", "apply", name).err.startswith("error [source_unreadable]: ")
    assert not (shell.directory / "boards").exists()


MEANWHILE = [
    ("delete", "there is no board 'b'"),
    ("change", "window 'hour' cannot go"),
    ("create", "'c'"),
]


@pytest.mark.parametrize("at", ["http", "redis"], indirect=True)
@pytest.mark.parametrize(("what", "said"), MEANWHILE)
def test_somebody_writes_a_board_meanwhile(
    shell: Shell, at: str, monkeypatch: pytest.MonkeyPatch, what: str, said: str
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
        patched.setattr("laurels.cli.applying.carry_out", meanwhile)
        ran = apply(shell, content, "--json", *to)
    done = ["a", "b"] if what == "create" else ["a"]
    assert ran.code == 2
    assert ran.err.startswith("error [changed_meanwhile]: somebody else has written board ")
    assert said in ran.err
    document = ran.json()
    assert document["error"] == "changed_meanwhile"
    assert [board["name"] for board in document["boards"] if board["done"]] == done
    again = apply(shell, content, *to)
    if what == "delete":
        assert again.out.splitlines()[-1] == "3 created, 0 changed, 1 unchanged"
    else:
        assert again.code == 1


def test_an_equal_board_made_meanwhile_is_taken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(lb: laurels.Leaderboards, step: Step) -> None:
        lb.create(step.board)
        carry_out(lb, step)

    monkeypatch.setattr("laurels.cli.applying.carry_out", meanwhile)
    assert "2 created" in apply(shell, TWO).out


def test_a_stop_tells_what_was_done_and_the_next_run_goes_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopping(lb: laurels.Leaderboards, step: Step) -> None:
        if step.board.name == "race":
            raise KeyboardInterrupt
        carry_out(lb, step)

    with monkeypatch.context() as patched:
        patched.setattr("laurels.cli.applying.carry_out", stopping)
        ran = apply(shell, TWO)
        assert ran.code == 130
        stopped = "stopped after 1 of 2 boards: 1 created, 0 changed, 0 unchanged"
        assert ran.out.splitlines()[-1] == stopped
        ran = apply(shell, TWO, "--json")
    assert (ran.code, ran.json()["interrupted"]) == (130, True)
    assert actions(applied(shell, TWO)) == {"gifts": "unchanged", "race": "create"}


def test_two_thousand_boards(shell: Shell) -> None:
    content = '[defaults]\nwindows = ["all", "day"]\n'
    content += "".join(f"[boards.b{i:04}]\ntitle = 'Board {i}'\n" for i in range(2_000))
    ran = apply(shell, content)
    assert ran.out.splitlines()[-1] == "2,000 created, 0 changed, 0 unchanged"
    assert apply(shell, content).out == "0 created, 0 changed, 2,000 unchanged\n"
    one = apply(shell, content.replace("'Board 1234'", "'Another'")).out
    assert "title 'Board 1234' → 'Another'" in one
    assert one.splitlines()[-1] == "0 created, 1 changed, 1,999 unchanged"
    wrong = apply(shell, content.replace("[defaults]", "[defaults]\nkeep = 0"))
    assert wrong.err.count("\n") == 1
    assert "defaults: keep is 0" in wrong.err


def test_a_bar_is_drawn_on_a_terminal(shell: Shell) -> None:
    content = "".join(f"[boards.b{i:03}]\n" for i in range(400))
    code, shown = shell.on_a_terminal("board", "apply", str(shell.file("b.toml", content)))
    assert code == 0
    assert "400 created" in shown
    assert "boards" in shown
    assert "/s" in shown


def test_one_reading_and_a_write_for_each_board_that_changes(
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


def test_titles_are_shown_and_never_obeyed(shell: Shell) -> None:
    applied(shell, '[boards.a]\ntitle = "x"')
    out = apply(shell, '[boards.a]\ntitle = "[red]\\u001b[31m"').out
    assert "[red]\\x1b[31m" in out
