"""`top`, `rank`, `around` and `export`: their output for people, and for programs."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import laurels

from .running import Shell


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts", "--title", "Gifts", "--column", "amount:scale=2")
    lines = "".join(f"m{i},{i}.5,{i}\n" for i in range(1, 8))
    content = f"member,amount,at\n{lines}".encode()
    shell.ok("import", "gifts", "-", "--at-format", "s", stdin=content)
    return shell


def _entries(page: Any) -> list[tuple[int, str, Any]]:
    return [(entry["rank"], entry["member"], entry["score"]) for entry in page["entries"]]


def test_top_lists_the_best_members_page_by_page(gifts: Shell) -> None:
    page = gifts.json("top", "gifts", "--limit", "2")
    assert _entries(page) == [(1, "m7", 7.5), (2, "m6", 6.5)]
    assert page["total"] == 7
    assert page["as_of"]["window"] == "all"
    assert set(page) == {"entries", "total", "as_of", "next", "certain"}
    following = gifts.json("top", "gifts", "--limit", "2", "--after", page["next"])
    assert _entries(following) == [(3, "m5", 5.5), (4, "m4", 4.5)]
    both = gifts("top", "gifts", "--after", page["next"], "--offset", "1")
    assert (both.code, both.err.split(":")[0]) == (2, "error [invalid_offset]")
    assert _entries(gifts.json("top", "gifts", "--offset", "6")) == [(7, "m1", 1.5)]
    assert _entries(gifts.json("top", "gifts", "--reverse", "-n", "1")) == [(7, "m1", 1.5)]


def test_top_prints_a_table_and_the_command_of_the_next_page(gifts: Shell) -> None:
    lines = gifts.ok("top", "gifts", "-n", "2").out.splitlines()
    assert lines[0] == "Gifts, all"
    assert [line.split() for line in lines if "m" in line][1:3] == [
        ["1", "m7", "7.50"],
        ["2", "m6", "6.50"],
    ]
    assert "7 members" in lines
    assert lines[-1].startswith("next page: --after ")


def test_scores_are_written_digit_for_digit(gifts: Shell) -> None:
    gifts.ok("import", "gifts", "-", stdin=b"member,amount\nrich,90071992547409.91\n")
    assert '"score":90071992547409.91' in gifts.ok("top", "gifts", "--json").out
    assert "90071992547409.91" in gifts.ok("top", "gifts").out
    assert "rich,90071992547409.91\n" in gifts.ok("export", "gifts").out


def test_rank_of_one_member_shows_its_standing(gifts: Shell) -> None:
    standing = gifts.json("rank", "gifts", "m5", "--to-rank", "1")
    assert standing["rank"] == 3
    assert standing["total"] == 7
    assert (standing["above"]["member"], standing["above"]["gap"]) == ("m6", 1.0)
    assert (standing["below"]["member"], standing["below"]["gap"]) == ("m4", 1.0)
    assert standing["to_rank"] == {"rank": 1, "gap": 2.0}
    card = gifts.ok("rank", "gifts", "m5", "--to-rank", "1").out
    for text in ("3 of 7", "5.50", "2. m6 with 6.50, 1.00 ahead", "4. m4 with 4.50, 1.00 behind"):
        assert text in card


def test_needed_shows_the_value_to_reach_a_rank(gifts: Shell) -> None:
    assert gifts.json("needed", "gifts", "m5", "1")["value"] == 2.01
    assert gifts.ok("needed", "gifts", "m5", "1").out == "m5 needs 2.01 for rank 1\n"
    assert gifts.json("needed", "gifts", "m7", "1") is None
    assert "m7 needs nothing" in gifts.ok("needed", "gifts", "m7", "3").out
    assert gifts.ok("needed", "gifts", "nobody", "8").out == "nobody needs 0.00 for rank 8\n"
    assert "2.01 for rank 1, in one event" in gifts.ok("rank", "gifts", "m5", "--to-rank", "1").out
    ran = gifts("needed", "gifts", "m5", "0")
    assert (ran.code, "invalid_rank" in ran.err) == (2, True)


def test_rank_of_several_members_orders_them(gifts: Shell) -> None:
    page = gifts.json("rank", "gifts", "m2", "m6")
    assert [(e["place"], e["rank"], e["member"]) for e in page["entries"]] == [
        (1, 2, "m6"),
        (2, 6, "m2"),
    ]
    assert page["absent"] == []


def test_members_that_are_not_ranked_are_reported(gifts: Shell) -> None:
    ran = gifts("rank", "gifts", "nobody")
    assert (ran.code, ran.out) == (1, "nobody is not ranked\n")
    ran = gifts("rank", "gifts", "nobody", "--json")
    assert (ran.code, ran.json()) == (1, None)
    ran = gifts("rank", "gifts", "m1", "nobody", "nobody", "--json")
    assert (ran.code, ran.json()["absent"]) == (1, ["nobody"])
    assert "not ranked: nobody" in gifts("rank", "gifts", "m1", "nobody").out
    ran = gifts("around", "gifts", "nobody", "--json")
    assert (ran.code, ran.json()) == (1, None)
    assert gifts("around", "gifts", "nobody").code == 1


def test_around_shows_the_neighbours_of_a_member(gifts: Shell) -> None:
    page = gifts.json("around", "gifts", "m4", "--radius", "1")
    assert [member for _, member, _ in _entries(page)] == ["m5", "m4", "m3"]
    lines = gifts.ok("around", "gifts", "m4", "-r", "1").out.splitlines()
    assert [line.split() for line in lines if line.startswith(">")] == [[">", "4", "m4", "4.50"]]


def test_member_data_is_shown_on_request(gifts: Shell) -> None:
    with laurels.open(str(gifts.directory / "boards")) as lb:
        lb.set_data("gifts", "m7", {"name": "Ann", "tags": [1]})
    entry = gifts.json("top", "gifts", "--data")["entries"][0]
    assert entry["data"] == {"name": "Ann", "tags": [1]}
    assert "data" not in gifts.json("top", "gifts")["entries"][0]
    for command in (["top", "gifts"], ["rank", "gifts", "m7"], ["export", "gifts"]):
        assert "Ann" in gifts.ok(*command, "--data").out
        assert "Ann" not in gifts.ok(*command).out


def test_each_column_of_a_board_is_a_column_of_the_output(shell: Shell) -> None:
    shell.ok("board", "create", "race", "--column", "level", "--column", "time:order=asc,scale=1")
    shell.ok("import", "race", "-", stdin=b"member,level,time\na,3,1.5\nb,3,0.5\n")
    assert _entries(shell.json("top", "race")) == [(1, "b", [3, 0.5]), (2, "a", [3, 1.5])]
    assert shell.ok("export", "race").out == "rank,member,level,time\n1,b,3,0.5\n2,a,3,1.5\n"
    heading = shell.ok("top", "race").out.splitlines()[1].split()
    assert heading == ["rank", "member", "level", "time"]
    assert "2. a with 3, 1.5" in shell.ok("rank", "race", "b").out


def test_export_writes_csv_or_json_lines(gifts: Shell) -> None:
    rows = gifts.ok("export", "gifts").out.splitlines()
    assert rows[:2] == ["rank,member,amount", "1,m7,7.50"]
    assert len(rows) == 8
    lines = gifts.ok("export", "gifts", "--format", "jsonl").out
    assert lines.splitlines()[0] == '{"member":"m7","rank":1,"score":7.50}'
    assert gifts.ok("export", "gifts", "--json").out == lines


def test_export_to_a_file_replaces_it_only_if_it_succeeds(gifts: Shell) -> None:
    assert gifts.ok("export", "gifts", "-o", "out.csv").out == ""
    assert (gifts.directory / "out.csv").read_text() == gifts.ok("export", "gifts").out
    assert gifts("export", "gifts", "--window", "day", "-o", "out.csv").code == 2
    assert (gifts.directory / "out.csv").read_text() == gifts.ok("export", "gifts").out
    assert not list(gifts.directory.glob("*.part"))
    assert gifts("export", "gifts", "-o", "missing/out.csv").err.startswith("error [output_failed")


def test_a_closed_output_pipe_is_not_reported_as_an_error(gifts: Shell) -> None:
    prelude = "import os\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\n"
    ran = gifts.process("export", "gifts", prelude=prelude)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_control_characters_in_ids_are_escaped(shell: Shell) -> None:
    shell.ok("board", "create", "g")
    ids = ["\x1b[31mred\x1b[0m", "[bold]b[/bold]", "\u202eabc", "a\\x1b", ":smile:", "é漢", "a\rb"]
    with laurels.open(str(shell.directory / "boards")) as lb:
        lb.submit_many("g", [(member, 1) for member in ids])
    escaped = [r"\x1b[31mred\x1b[0m", "[bold]b[/bold]", r"\u202eabc", r"a\\x1b", ":smile:", "é漢"]
    for command in (
        ["top", "g"],
        ["rank", "g", *ids],
        ["around", "g", ids[0]],
        ["rank", "g", ids[0]],
    ):
        out = shell.ok(*command).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\r" not in out
    for text in escaped:
        assert text in shell.ok("top", "g").out
    error = shell("rank", "g", "a", "--window", "\x1b[31m").err
    assert "\x1b" not in error
    assert {entry["member"] for entry in shell.json("top", "g")["entries"]} == set(ids)


def test_long_ids_are_not_cut_if_the_output_is_not_a_terminal(shell: Shell) -> None:
    shell.ok("board", "create", "g")
    shell.ok("import", "g", "-", stdin=b"member,score\n" + b"x" * 128 + b",1\n")
    assert "x" * 128 in shell.ok("top", "g").out


def test_queries_create_no_folder(shell: Shell) -> None:
    for command in (
        ["top", "g"],
        ["rank", "g", "a"],
        ["around", "g", "a"],
        ["export", "g"],
        ["check"],
        ["rebuild"],
        ["board", "list"],
        ["board", "show", "g"],
        ["board", "change", "g", "--keep", "3"],
        ["board", "delete", "g", "--yes"],
    ):
        ran = shell(*command)
        assert ran.code == 2
        assert ran.err.startswith("error [folder_missing]")
    assert list(Path(shell.directory).iterdir()) == []


def test_check_and_rebuild_report_the_number_of_boards(gifts: Shell) -> None:
    report = gifts.json("check")
    assert (report["boards"], report["entries"]) == (1, 7)
    assert gifts.ok("check").out.startswith("in order: 1 boards")
    assert gifts.json("rebuild")["boards"] == 1
    assert gifts.ok("rebuild").out.startswith("rebuilt: 1 boards")


def test_a_check_that_fails_ends_with_1(gifts: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: laurels.Leaderboards) -> None:
        raise laurels.errors.CheckFailed("two structures differ")

    monkeypatch.setattr(laurels.Leaderboards, "check", failing)
    ran = gifts("check")
    assert (ran.code, ran.err.split(":")[0]) == (1, "error [check_failed]")


def test_a_check_of_a_damaged_log_ends_with_1(gifts: Shell) -> None:
    path = gifts.directory / "boards" / "log.db"
    with closing(sqlite3.connect(path)) as log:
        log.execute("UPDATE log SET body = x'00' WHERE offset = 2")
        log.commit()
    ran = gifts("check")
    assert (ran.code, ran.err.split(":")[0]) == (1, "error [log_damaged]")
    assert gifts("top", "gifts").code == 2
