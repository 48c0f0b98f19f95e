"""`board create | list | show | change | delete`."""

import msgspec
import pytest

import laurels

from .running import Shell


def test_a_board_is_created_with_every_option(shell: Shell) -> None:
    created = shell.json(
        *("board", "create", "b", "--title", "B", "--tie", "last", "--tie-resolution", "1s"),
        *("--column", "level:op=last", "--column", "time:order=asc,scale=2,min=-1.5,max=99"),
        *("--rank", "dense", "--window", "all", "--window", "month:keep=12", "--keep", "3"),
        *("--tz", "Asia/Shanghai", "--week-start", "sunday", "--grace", "1h", "--dedupe", "2h"),
        *("--dedupe-max", "1000"),
    )
    assert laurels.Board.from_json(created) == laurels.Board(
        "b",
        title="B",
        columns=[
            laurels.Column("level", op="last"),
            laurels.Column("time", order="asc", scale=2, min="-1.5", max=99),
        ],
        tie="last",
        tie_resolution="1s",
        rank="dense",
        windows=["all", "month:keep=12"],
        tz="Asia/Shanghai",
        week_start="sunday",
        grace="1h",
        dedupe="2h",
        dedupe_max=1000,
        keep=3,
    )
    assert shell.json("board", "show", "b") == created
    assert shell.json("board", "list") == [created]


def test_a_definition_is_read_from_a_file_or_standard_input(shell: Shell) -> None:
    definition = {"name": "other", "windows": ["day"], "keep": 5}
    path = shell.file("b.json", msgspec.json.encode(definition))
    created = shell.json("board", "create", "b", "--file", path, "--keep", "7")
    assert (created["name"], created["windows"], created["keep"]) == ("b", ["day"], 7)
    content = msgspec.json.encode(created)
    copy = shell.json("board", "create", "c", "--file", "-", stdin=content)
    assert copy == created | {"name": "c"}


def test_the_error_lists_every_fault_and_no_folder_is_left(shell: Shell) -> None:
    ran = shell(
        *("board", "create", "b", "--column", "a:op=most", "--window", "decade", "--keep", "0"),
        *("--tz", "Mars/Phobos"),
    )
    assert ran.code == 2
    assert ran.err.startswith("error [invalid_board]")
    for fault in ("most", "decade", "keep", "Mars/Phobos"):
        assert fault in ran.err
    assert not (shell.directory / "boards").exists()


def test_creating_an_existing_board_is_refused(shell: Shell) -> None:
    shell.ok("board", "create", "b")
    assert shell("board", "create", "b").err.startswith("error [board_exists]")
    shell.ok("board", "create", "b", "--exist-ok")
    assert shell("board", "create", "b", "--keep", "9", "--exist-ok").code == 2


def test_show_and_list_print_text_for_people(shell: Shell) -> None:
    shell.ok("board", "create", "b", "--title", "The board", "--window", "all", "--window", "day")
    shell.ok("import", "b", "-", stdin=b"member,score\na,1\n")
    listed = shell.ok("board", "list").out.splitlines()[2]
    assert listed.split() == ["b", "The", "board", "score", "all,", "day"]
    output = shell.ok("board", "show", "b").out
    for text in ("The board", "sum, desc, scale 0", "ordinal", "UTC", "current"):
        assert text in output


def test_a_board_can_be_changed(shell: Shell) -> None:
    shell.ok("board", "create", "b", "--window", "all", "--window", "d=day")
    changed = shell.json("board", "change", "b", "--title", "New", "--keep", "4")
    assert (changed["title"], changed["keep"]) == ("New", 4)
    changed = shell.json("board", "change", "b", "--window", "d=day:keep=9", "--window", "hour")
    assert changed["windows"] == ["all", "d=day:keep=9", "hour"]
    ran = shell("board", "change", "b", "--window", "d=week")
    assert ran.err.startswith("error [unsafe_change]")
    assert shell("board", "change", "b").err.startswith("error [usage]")
    assert shell.json("board", "show", "b") == changed


def test_start_and_end_can_be_set_and_removed(shell: Shell) -> None:
    limits = ("--tz", "Asia/Shanghai", "--starts", "2026-12-01", "--ends", "2999-12-24T20:00Z")
    made = shell.json("board", "create", "b", *limits)
    assert (made["starts"], made["ends"]) == ("2026-11-30T16:00:00Z", "2999-12-24T20:00:00Z")
    output = shell.ok("board", "show", "b").out
    assert made["starts"] in output
    assert made["ends"] in output
    assert "ends" not in shell.json("board", "change", "b", "--ends", "")
    ran = shell("board", "change", "b", "--ends", "2001-01-01")
    assert ran.code != 0
    later = shell.json("board", "change", "b", "--ends", "2999-01-01", "--starts", "")
    assert later["ends"] == "2998-12-31T16:00:00Z"
    assert shell.json("board", "change", "b", "--retain", "30d")["retain"] == "30d"
    assert "30d after the end" in shell.ok("board", "show", "b").out
    assert "retain" not in shell.json("board", "change", "b", "--retain", "")
    made = shell.json("board", "create", "c", "--ends", "2999-12-24", "--retain", "1h")
    assert made["retain"] == "1h"
    assert "expected ends with retain" in shell("board", "create", "d", "--retain", "1h").err


def test_zeros_can_be_hidden_and_ranked_again(shell: Shell) -> None:
    assert shell.json("board", "create", "b", "--hide-zero")["hide_zero"] is True
    assert "are not ranked" in shell.ok("board", "show", "b").out
    shell.ok("import", "b", "-", stdin=b"member,score\nann,0\nbob,-1\n")
    assert shell.scores("b") == {"bob": -1}
    assert "hide_zero" not in shell.json("board", "change", "b", "--rank-zero")
    assert shell.scores("b") == {"ann": 0, "bob": -1}
    assert shell.json("board", "change", "b", "--hide-zero")["hide_zero"] is True
    assert shell.scores("b") == {"bob": -1}


def test_max_age_can_be_set_changed_and_removed(shell: Shell) -> None:
    assert shell.json("board", "create", "b", "--max-age", "500ms")["max_age"] == "500ms"
    assert "500ms" in shell.ok("board", "show", "b").out
    assert "max_age" not in shell.json("board", "change", "b", "--max-age", "0s")
    assert shell.json("board", "change", "b", "--max-age", "2s")["max_age"] == "2s"
    assert "expected a duration" in shell("board", "change", "b", "--max-age", "soon").err


@pytest.mark.parametrize(
    ("there", "window", "hint"),
    [
        ("d=day", "day:tz=Asia/Shanghai", "d=day:keep=5"),
    ],
)
def test_a_window_like_an_existing_one_needs_a_name_of_its_own(
    shell: Shell, there: str, window: str, hint: str
) -> None:
    shell.ok("board", "create", "b", "--window", there)
    ran = shell("board", "change", "b", "--window", window)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    assert f"--window {hint}" in ran.err
    changed = shell.json("board", "change", "b", "--window", hint)
    assert len(changed["windows"]) == 1
    added = shell.json("board", "change", "b", "--window", f"other={window}")
    assert added["windows"][1] == f"other={window}"


def test_the_options_of_a_window_change_under_its_short_name(shell: Shell) -> None:
    shell.ok("board", "create", "b", "--window", "day")
    changed = shell.json("board", "change", "b", "--window", "day:keep=5")
    assert changed["windows"] == ["day=day:keep=5"]
    assert shell.json("board", "change", "b", "--window", "day")["windows"] == ["day"]


def test_delete_removes_a_board_and_needs_confirmation(shell: Shell) -> None:
    shell.ok("board", "create", "b")
    refused = shell("board", "delete", "b")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error [usage]")
    assert shell.json("board", "delete", "b", "--yes") == {"deleted": "b"}
    assert shell("board", "delete", "b", "--yes").err.startswith("error [unknown_board]")
    assert shell.json("board", "list") == []


def test_delete_reports_changes_that_a_sink_has_not_sent(shell: Shell) -> None:
    shell.ok("board", "create", "b", "--changes", "1d")
    run = ("sink", "run", "s", "--to", "lines.jsonl", "--until-end")
    shell.ok(*run)
    assert shell("board", "delete", "b").err.startswith("error [usage]")
    with laurels.open(str(shell.directory / "boards")) as lb:
        lb.submit_many("b", [("ann", 1), ("bob", 2)])
    ran = shell("board", "delete", "b", "--yes")
    assert (ran.code, ran.out) == (0, "deleted b\n")
    assert ran.err == (
        "b: a sink has not reported 2 changes as sent; they are kept for 1d after the deletion\n"
    )


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_delete_asks_on_a_terminal(shell: Shell, answer: str, code: int, left: int) -> None:
    shell.ok("board", "create", "b")
    ended, _ = shell.on_a_terminal("board", "delete", "b", answer=answer)
    assert ended == code
    assert len(shell.json("board", "list")) == left


def test_a_column_can_be_a_sum_of_measures(shell: Shell) -> None:
    column = "hot:scale=1,measure=like,measure=gift*0.2"
    made = shell.json("board", "create", "b", "--column", column)
    assert made["columns"][0]["measures"] == {"gift": "0.2", "like": 1}
    assert "gift times 0.2, like times 1" in shell.ok("board", "show", "b").out
    (shell.directory / "rows.jsonl").write_text(
        '{"member": "ann", "value": {"like": 3, "gift": 10}}'
    )
    shell.ok("import", "b", "rows.jsonl")
    assert shell.json("rank", "b", "ann")["score"] == 5.0
    ran = shell("board", "create", "c", "--column", "hot:measure=like*x")
    assert (ran.code, "invalid_board" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "column",
    ["a:", "a:op", "a:size=3", "a:scale=x", "a:scale=-1", "a:op=sum,op=last", "a:op=sum,"],
)
def test_an_invalid_column_is_refused(shell: Shell, column: str) -> None:
    ran = shell("board", "create", "b", "--column", column)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_json"),
        (b"[1]", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b"[" * 100_000, "json_too_deep"),
        (b'{"colums":[]}', "invalid_board"),
        (b'{"format":2}', "format_too_new"),
    ],
)
def test_a_file_without_a_definition_is_refused(shell: Shell, content: bytes, code: str) -> None:
    ran = shell("board", "create", "b", "--file", shell.file("b.json", content))
    assert (ran.code, ran.err.split(":")[0]) == (2, f"error [{code}]")
