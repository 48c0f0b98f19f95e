"""The rejects file is opened before any event is counted, and an import does not overwrite the
rejects of another import."""

import csv
import os
from pathlib import Path

import pytest

from .running import Shell

BAD = "member,score\na,x\nb,1\n"


@pytest.fixture
def shell_of_two(shell: Shell) -> Shell:
    for board in ("one", "two"):
        shell.ok("board", "create", board)
    return shell


def _rejects(path: Path) -> list[tuple[str, str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["board"], row["line"], row["text"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("path", ["missing/x.csv", ".", "in.csv/x"])
def test_nothing_is_counted_if_rejects_cannot_be_written(shell_of_two: Shell, path: str) -> None:
    good = shell_of_two.file("in.csv", "member,score\nb,1\n")
    ran = shell_of_two("import", "one", good, "--rejects", path)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [output_failed]")
    assert "--rejects" in ran.err
    assert shell_of_two.scores("one") == {}


def test_a_full_disk_is_reported_once(shell_of_two: Shell) -> None:
    ran = shell_of_two("import", "one", shell_of_two.file("in.csv", BAD), "--rejects", "/dev/full")
    assert ran.code == 2
    assert "error [output_failed]" in ran.err
    shell_of_two("import", "one", shell_of_two.file("in.csv", BAD), "--rejects", "/dev/null")
    assert shell_of_two.scores("one") == {"b": 1}


def test_two_boards_have_different_rejects_files(shell_of_two: Shell) -> None:
    path = shell_of_two.file("in.csv", BAD)
    for board in ("one", "two"):
        assert shell_of_two("import", board, path).code == 1
    for board in ("one", "two"):
        assert _rejects(path.with_name(f"in.csv.{board}.rejects.csv")) == [(board, "2", "a,x")]


def test_rejects_files_of_unnamed_pipes_are_numbered(shell_of_two: Shell) -> None:
    for content in (b"a,x\n", b"c,y\n"):
        assert shell_of_two("import", "one", "-", "--no-header", stdin=content).code == 1
    rejects = [_rejects(shell_of_two.directory / f"stdin{n}.one.rejects.csv") for n in ("", "-2")]
    assert rejects == [[("one", "1", "a,x")], [("one", "1", "c,y")]]


def test_imports_that_share_a_rejects_file_keep_the_lines_of_each_other(
    shell_of_two: Shell,
) -> None:
    path = shell_of_two.file("in.csv", BAD)
    for board in ("one", "two"):
        shell_of_two("import", board, path, "--rejects", "all.csv")
    shared = shell_of_two.directory / "all.csv"
    assert _rejects(shared) == [("one", "2", "a,x"), ("two", "2", "a,x")]
    path.write_text("member,score\na,x\nb,1\nc,y\n")
    shell_of_two("import", "one", path, "--rejects", "all.csv")
    assert sorted(_rejects(shared)) == [
        ("one", "2", "a,x"),
        ("one", "4", "c,y"),
        ("two", "2", "a,x"),
    ]


def test_rejected_lines_are_written_unchanged(shell_of_two: Shell) -> None:
    content = b'member,score\n"a\r\nb",x\r\nc\rd,y\n\x00,z\ne,1\n'
    path = shell_of_two.file("in.csv", content)
    shell_of_two("import", "one", path)
    path.write_bytes(content + b"f,v\r\r\n")
    shell_of_two("import", "one", path)
    rejects = _rejects(path.with_name("in.csv.one.rejects.csv"))
    assert [text for _, _, text in rejects] == ['"a\r\nb",x', "c\rd,y", "\0,z", "f,v\r"]


def test_a_line_cut_off_by_a_kill_is_dropped(shell_of_two: Shell) -> None:
    path = shell_of_two.file("in.csv", BAD)
    shell_of_two("import", "one", path)
    rejects = path.with_name("in.csv.one.rejects.csv")
    rejects.write_text(rejects.read_text() + '"one","elsewhere",2,"invalid_va')
    path.write_text(BAD + "c,y\n")
    shell_of_two("import", "one", path)
    assert [line for _, line, _ in _rejects(rejects)] == ["2", "4"]


def test_rejects_are_written_through_a_symbolic_link(shell_of_two: Shell) -> None:
    path = shell_of_two.file("in.csv", BAD)
    link = shell_of_two.directory / "link.csv"
    link.symlink_to("real.csv")
    for content in (BAD, BAD + "c,y\n"):
        path.write_text(content)
        shell_of_two("import", "one", path, "--rejects", link)
    assert link.is_symlink()
    assert len(_rejects(shell_of_two.directory / "real.csv")) == 2


def test_a_path_that_is_not_utf8_needs_a_source_name(shell_of_two: Shell) -> None:
    path = os.fsdecode(os.fsencode(shell_of_two.directory) + b"/in\xff.csv")
    Path(path).write_text(BAD)
    ran = shell_of_two("import", "one", path)
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    assert "--source" in ran.err
    ran = shell_of_two("import", "one", path, "--source", "in", "--json")
    assert ran.code == 1
    assert ran.json()["files"][0]["file"].endswith("/in\\xff.csv")
