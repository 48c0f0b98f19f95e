"""`import` reads events from files, and rejects and reports invalid lines."""

import csv
import gzip
from pathlib import Path

import pytest

from .running import Shell


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    return shell


def _rejects(path: Path) -> list[tuple[int, str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(int(row["line"]), row["code"], row["text"]) for row in rows]


def test_csv_is_imported_and_reported(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score\nalice,5\nbob,7\nalice,-1\n")
    report = gifts.json("import", "gifts", path)
    (figures,) = report["files"]
    assert figures.pop("seconds") >= 0
    assert report == {
        "board": "gifts",
        "files": [
            {
                "file": str(path),
                "source": str(path),
                "resumed_after": 0,
                "last_line": 4,
                "lines": 3,
                "applied": 3,
                "unchanged": 0,
                "duplicates": 0,
                "rejected": 0,
                "left": 0,
                "late": {},
                "reasons": {},
                "rejects_file": None,
                "interrupted": False,
                "error": None,
            }
        ],
    }
    assert gifts.scores("gifts") == {"bob": 7, "alice": 4}
    assert not list(gifts.directory.glob("*.rejects.csv"))


def test_json_lines_are_recognised(gifts: Shell) -> None:
    path = gifts.file("in.log", '{"member":"alice","value":5}\n{"member":"bob","score":7}\n')
    gifts.ok("import", "gifts", path)
    assert gifts.scores("gifts") == {"bob": 7, "alice": 5}


def test_a_compressed_file_is_imported(gifts: Shell) -> None:
    path = gifts.file("in.csv.gz", gzip.compress(b"member,score\nalice,5\n"))
    gifts.ok("import", "gifts", path)
    assert gifts.scores("gifts") == {"alice": 5}


def test_standard_input_may_be_compressed(gifts: Shell) -> None:
    content = b"member,score\nalice,5\n"
    gifts.ok("import", "gifts", "-", stdin=content)
    gifts.ok("import", "gifts", "-", stdin=gzip.compress(content))
    assert gifts.scores("gifts") == {"alice": 10}


def test_several_files_are_imported_and_reported_one_by_one(gifts: Shell) -> None:
    one, two = (gifts.file(f"{name}.csv", f"member,score\n{name},1\n") for name in ("a", "b"))
    report = gifts.json("import", "gifts", one, two)
    assert [figures["applied"] for figures in report["files"]] == [1, 1]
    assert gifts.scores("gifts") == {"a": 1, "b": 1}


def test_files_counted_before_a_faulty_one_are_reported(gifts: Shell) -> None:
    good = gifts.file("a.csv", "member,score\na,1\n")
    faulty = gifts.file("b.csv", "name\nb\n")
    ran = gifts("import", "gifts", good, faulty, "--json")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    assert str(faulty) in ran.err
    assert [figures["applied"] for figures in ran.json()["files"]] == [1]


def test_columns_times_and_ids_are_imported(shell: Shell) -> None:
    shell.ok(
        *("board", "create", "wins", "--column", "level:op=last", "--column", "wins:scale=1"),
        *("--window", "day=day:keep=10", "--tz", "Asia/Shanghai", "--clock", "event"),
    )
    path = shell.file(
        "in.txt",
        "01.03.2021|a|1|0.5|x\n02.03.2021|a|2|1|y\n02.03.2021|a|2|1|y\n02.03.2021|b|1|2|\n",
    )
    report = shell.json(
        *("import", "wins", path, "--no-header", "--delimiter", "|", "--member", "2"),
        *("--value", "3", "--value", "4", "--at-column", "1", "--at-format", "%d.%m.%Y"),
        *("--id", "5"),
    )
    assert report["files"][0]["duplicates"] == 1
    assert shell.scores("wins") == {"a": [2, 1.0], "b": [1, 2.0]}
    assert shell.scores("wins", "--period", "2021-03-01") == {"a": [1, 0.5]}


def test_times_without_a_zone_are_in_the_given_zone(shell: Shell) -> None:
    shell.ok("board", "create", "g", "--window", "day=day:keep=9", "--clock", "event")
    path = shell.file("in.csv", "member,score,at\na,1,2021-03-02T07:00\nb,1,2021-03-02T07:00Z\n")
    shell.ok("import", "g", path, "--tz", "Asia/Shanghai", "--clock", "event")
    assert shell.scores("g", "--period", "2021-03-01") == {"a": 1}
    assert shell.scores("g", "--period", "2021-03-02") == {"b": 1}


def test_a_tab_can_be_the_delimiter(gifts: Shell) -> None:
    path = gifts.file("in.tsv", "member\tscore\na,b\t1\n")
    gifts.ok("import", "gifts", path, "--delimiter", "tab")
    assert gifts.scores("gifts") == {"a,b": 1}


def test_export_can_be_imported(gifts: Shell) -> None:
    gifts.ok("import", "gifts", "-", stdin=b'member,score\n"a,""b""",5\n" c ",7\n')
    exported = gifts.ok("export", "gifts").out
    gifts.ok("board", "create", "copy")
    gifts.ok("import", "copy", "-", stdin=exported.encode())
    assert gifts.ok("export", "copy").out == exported


def test_rejects_are_counted_shown_and_written(gifts: Shell) -> None:
    lines = [
        b'{"member":"alice","score":5}',
        b"nonsense",
        b'{"member":"alice","score":0.5}',
        b'{"member":"alice","score":1e1000000}',
        b'{"member":"","score":1}',
        b'{"member":"' + b"x" * 129 + b'","score":1}',
        b"[" * 50_000,
        b'{"member":"\xff","score":1}',
        b'{"member":"alice","score":true}',
        b'{"member":"alice","score":"NaN"}',
        b'{"member":"alice","score":9007199254740992}',
        b'{"member":"alice","score":9007199254740991}',
        b'{"member":"alice","score":1,"at":99999999999999}',
        b'{"member":"alice","score":[1,2]}',
        b'{"member":"bob","score":7}',
    ]
    path = gifts.file("in.jsonl", b"\n".join(lines) + b"\n")
    ran = gifts("import", "gifts", path, "--json")
    assert ran.code == 1
    (figures,) = ran.json()["files"]
    expected = {
        2: "invalid_json",
        3: "too_many_places",
        4: "value_out_of_range",
        5: "member_empty",
        6: "member_too_long",
        7: "json_too_deep",
        8: "line_not_utf8",
        9: "invalid_value",
        10: "not_finite",
        11: "value_out_of_range",
        12: "total_out_of_range",
        13: "at_in_future",
        14: "wrong_columns",
    }
    assert figures["rejected"] == len(expected)
    assert figures["reasons"]["value_out_of_range"] == 2
    rejects = _rejects(path.with_name("in.jsonl.gifts.rejects.csv"))
    assert {line: code for line, code, _ in rejects} == expected
    assert {line: text for line, _, text in rejects}[8] == '{"member":"\\xff","score":1}'
    assert gifts.scores("gifts") == {"bob": 7, "alice": 5}
    assert "line 2: [invalid_json]" in ran.err
    assert len(ran.err.splitlines()) == 6


def test_rejects_of_standard_input_go_to_the_working_folder(gifts: Shell) -> None:
    assert gifts("import", "gifts", "-", stdin=b"member,score\na,x\nb,1\n").code == 1
    assert _rejects(gifts.directory / "stdin.gifts.rejects.csv") == [(2, "invalid_value", "a,x")]


def test_rejects_are_written_to_the_chosen_file(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score\na,x\nb,1\n")
    assert gifts("import", "gifts", path, "--rejects", "bad.csv").code == 1
    assert _rejects(gifts.directory / "bad.csv") == [(2, "invalid_value", "a,x")]
    assert not (gifts.directory / "in.csv.gifts.rejects.csv").exists()


def test_a_rejects_file_never_replaces_another_file(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score\na,x\nb,1\n")
    precious = gifts.file("bad.csv", "my,own\nfile,1\n")
    ran = gifts("import", "gifts", path, "--rejects", "bad.csv")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [output_failed]")
    assert precious.read_text() == "my,own\nfile,1\n"
    assert gifts.scores("gifts") == {}


def test_a_file_with_rejected_lines_only_can_be_imported_again_with_other_options(
    gifts: Shell,
) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,20210301000000\n")
    assert gifts("import", "gifts", path).code == 1
    gifts.ok("import", "gifts", path, "--at-format", "%Y%m%d%H%M%S")
    assert gifts.scores("gifts") == {"a": 1}
    assert not (gifts.directory / "in.csv.gifts.rejects.csv").exists()


def test_a_missing_board_or_folder_is_created_only_when_asked(shell: Shell) -> None:
    path = shell.file("in.csv", "member,score\na,1\n")
    assert shell("import", "gifts", path).err.startswith("error [folder_missing]")
    assert not (shell.directory / "boards").exists()
    shell.ok("import", "gifts", path, "--create")
    assert shell("import", "others", path).err.startswith("error [unknown_board]")
    shell.ok("import", "others", path, "--create")
    assert shell.scores("gifts") == shell.scores("others") == {"a": 1}


def test_output_that_is_not_a_terminal_has_no_progress_bar(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score\na,1\n")
    ran = gifts.ok("import", "gifts", path)
    assert ran.err == ""
    assert ran.out.startswith(f"{path}: 1 lines: 1 applied, 0 unchanged, 0 duplicates, 0 rejected")
