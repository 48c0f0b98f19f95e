"""The files of `board apply`: their forms, and every error they can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from .applying import TWO, actions, applied, apply
from .running import Shell

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "boards.toml"


def test_the_example_is_applied(shell: Shell) -> None:
    made = shell.json("board", "apply", EXAMPLE)
    assert set(actions(made).values()) == {"create"}
    boards = {board["name"]: board for board in shell.json("board", "list")}
    assert boards["gifts"] | {"keep": 12, "tz": "Europe/Paris"} == boards["gifts"]
    assert boards["hot"]["windows"] == ["today=day:keep=2", "7d=rolling:7d/1h"]
    assert boards["season.2026"]["windows"] == ["all", "weeks=week:keep=52,week_start=sunday"]
    assert [column["name"] for column in boards["heroes"]["columns"]] == ["level", "points"]
    assert boards["parties"]["scopes"] == [[], ["room"], ["gender", "zone"]]
    assert "0 created, 0 changed, 6 unchanged" in shell.ok("board", "apply", EXAMPLE).out


def test_the_file_in_the_documentation_is_applied(shell: Shell) -> None:
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


def test_listed_boards_can_be_applied_elsewhere(shell: Shell) -> None:
    shell.ok("board", "apply", EXAMPLE)
    listed = shell.ok("board", "list", "--json").out
    copied = shell.json("board", "apply", "-", "--at", "copy", stdin=listed.encode())
    assert set(actions(copied).values()) == {"create"}
    assert shell.ok("board", "list", "--json", "--at", "copy").out == listed
    for name in ("race", "season.2026"):
        definition = shell.file("one.json", shell.ok("board", "show", name, "--json").out)
        assert actions(shell.json("board", "apply", definition)) == {name: "unchanged"}


def test_every_file_format_defines_the_same_boards(shell: Shell) -> None:
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


def test_the_error_lists_every_fault_of_every_board(shell: Shell) -> None:
    content = """
        [defaults]
        keep = 0
        colour = "red"
        grace = "2h"
        dedupe = "1h"

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
    *lines, error = ran.err.splitlines()
    where = str(shell.directory / "boards.toml")
    assert all(line.startswith(f"{where}: ") for line in lines)
    errors = [line.removeprefix(f"{where}: ") for line in lines]
    for place, message in (
        ("defaults", "unknown field 'colour'"),
        ("defaults", "expected an integer from 1 to 10,000 for keep, got 0"),
        ("defaults", "expected dedupe to be at least the longest grace, 2h"),
        ("board a", "expected an IANA time zone such as Asia/Shanghai for tz, got 'Mars/Phobos'"),
        ("board a", "expected one of first, last, member for tie, got 'never'"),
        ("board b", "unknown field 'colums'"),
        ("board c", "expected an integer from 1 to 10,000 for keep, got 0"),
        ("board c", "column 'x': expected an integer from 0 to 15 for scale, got 99"),
        ("board c", "expected a column as a Column or a mapping, got 7"),
        ("board 'bad name'", "expected a name for a board, got 'bad name'"),
        ("board d", "unknown field 'e': for a board called d.e write [boards.\"d.e\"]"),
    ):
        assert [f for f in errors if f.startswith(f"{place}: {message}")], (place, message, errors)
    assert not [line for line in errors if line.startswith(("board a: dedupe", "board b: keep"))]
    assert len(set(errors)) == len(errors)
    assert error == (
        f"error [invalid_board]: {len(errors)} errors, and nothing was done; "
        "correct the errors that the message names, and define the board again"
    )
    assert not (shell.directory / "boards").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected at least one board, got none: write a table [boards.NAME]"),
        ("[boards]", "expected at least one board, got none"),
        ("[]", "expected at least one board, got none"),
        ("[gifts]\nkeep = 3", "unknown table 'gifts': a board is written [boards.gifts]"),
        ("[board.gifts]", "unknown field 'board': write boards"),
        ("[default]\n[boards.a]", "unknown field 'default': write defaults"),
        ("keep = 3\n[boards.a]", "keep belongs to a board"),
        ("format = 1\n[boards.a]", "unknown field 'format': a file has defaults and boards"),
        ("defaults = 3\n[boards.a]", "defaults: expected a table of fields, got 3"),
        (
            '[defaults]\nname = "a"\n[boards.a]',
            "defaults: expected no name, since each board has its own",
        ),
        ("boards = 3", "boards: expected a table or an array of boards, got 3"),
        ("[boards]\na = 3", "board a: expected a table of fields, got 3"),
        ('[boards.a]\nname = "b"', "board a: expected no `name`, or `name` 'a', got 'b'"),
        ("[[boards]]\nkeep = 3", "board 1: expected a name, got none"),
        ("boards = [3]", "board 1: expected a table of fields, got 3"),
        (
            '[[boards]]\nname = "a"\n[[boards]]\nname = "a"',
            "board a: expected each name once, got it 2 times",
        ),
        ("[boards.a]\nformat = 2", "board a: the definition of the board has format 2"),
        ("[boards.a]\ngrace = 05:00:00", "board a: grace: expected a duration "),
        (
            '{"boards": {"a": {"title": null}}}',
            "board a: expected text of at most 200 characters for title, got None",
        ),
    ],
)
def test_a_file_that_defines_no_boards_is_refused(shell: Shell, content: str, message: str) -> None:
    ran = apply(shell, content)
    assert (ran.code, ran.out) == (2, "")
    where = shell.directory / "boards.toml"
    assert ran.err.startswith(f"error [invalid_board]: {where}: {message}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("b.toml", b"[boards.a]\nkeep = \n", "invalid_toml", "line 2, column 8"),
        ("b.toml", b"[boards.a]\n[boards.a]\n", "invalid_toml", "line 2"),
        ("b.toml", b"[boards.a]\nkeep = 1\nkeep = 2\n", "invalid_toml", "line 3"),
        ("b.toml", b"[boards.a]\n# \xff\n", "invalid_toml", "line 2"),
        ("b.toml", b"keep = " + b"9" * 5_000, "invalid_toml", "too many digits"),
        ("b.toml", b"a = " + b"[" * 100_000, "invalid_toml", "nested too deeply"),
        ("b.json", b'{"boards":\n {"a": }}', "invalid_json", "line 2, column 8"),
        (
            "b.json",
            b'{"boards": {"a": {}, "a": {}}}',
            "invalid_json",
            "expected each name once in an object, got 'a' twice",
        ),
        (
            "b.json",
            b'{"boards": {"a": {"keep": NaN}}}',
            "invalid_json",
            "expected a finite number, got NaN",
        ),
        ("b.json", b"\xff", "invalid_json", "line 1"),
        ("b.json", b"", "invalid_json", "line 1"),
        ("b.json", b"9" * 5_000, "invalid_json", "too many digits"),
        ("b.json", b"[" * 100_000, "json_too_deep", "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    shell: Shell, name: str, content: bytes, code: str, message: str
) -> None:
    ran = shell("board", "apply", shell.file(name, content))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error [{code}]: {shell.directory / name}")
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b"])
def test_a_path_without_a_readable_file_is_refused(shell: Shell, name: str) -> None:
    assert shell("board", "apply", name).err.startswith("error [source_unreadable]: ")
    assert not (shell.directory / "boards").exists()
