"""`export -o` writes complete files, even to devices, pipes and links, and exported files can be
imported."""

import os
import threading
from pathlib import Path

import pytest

from .running import Shell


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts")
    shell.ok("import", "gifts", "-", stdin=b"member,score\na,1\n")
    return shell


WHOLE = "rank,member,score\n1,a,1\n"


def test_an_export_can_be_written_to_a_device(gifts: Shell) -> None:
    gifts.ok("export", "gifts", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()
    full = gifts("export", "gifts", "-o", "/dev/full")
    assert (full.code, full.err.split(":")[0]) == (2, "error [output_failed]")
    assert Path("/dev/full").is_char_device()


def test_an_export_can_be_written_to_a_named_pipe(gifts: Shell) -> None:
    pipe = gifts.directory / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    gifts.ok("export", "gifts", "-o", pipe)
    reader.join(60)
    assert read == [WHOLE]
    assert pipe.is_fifo()


def test_an_export_writes_through_a_symbolic_link(gifts: Shell) -> None:
    target = gifts.file("real.csv", "old")
    target.chmod(0o640)
    link = gifts.directory / "link.csv"
    link.symlink_to(target)
    gifts.ok("export", "gifts", "-o", link)
    assert link.is_symlink()
    assert target.read_text() == WHOLE
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_files_with_data_are_readable_by_their_owner_only(gifts: Shell, umask: int) -> None:
    before = os.umask(umask)
    try:
        gifts.ok("export", "gifts", "-o", "out.csv")
        gifts("import", "gifts", gifts.file("in.csv", "member,score\na,x\n"))
    finally:
        os.umask(before)
    for name in ("out.csv", "in.csv.gifts.rejects.csv"):
        assert (gifts.directory / name).stat().st_mode & 0o777 == 0o600, name


def test_another_file_whose_name_ends_in_part_is_left_alone(gifts: Shell) -> None:
    other = gifts.file("out.csv.part", "mine")
    gifts.ok("export", "gifts", "-o", "out.csv")
    assert other.read_text() == "mine"
    assert (gifts.directory / "out.csv").read_text() == WHOLE
    assert not list(gifts.directory.glob(".laurels-*"))


def test_a_circle_of_links_is_an_error(gifts: Shell) -> None:
    (gifts.directory / "x").symlink_to("x")
    ran = gifts("export", "gifts", "-o", "x")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [output_failed]")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "columns",
    [["score"], ["amount:scale=2"], ["level:op=last", "time:op=last,order=asc,scale=3"]],
    ids=["score", "amount", "several"],
)
def test_an_export_can_be_imported_unchanged(shell: Shell, columns: list[str], form: str) -> None:
    options = [option for column in columns for option in ("--column", column)]
    for board in ("one", "two"):
        shell.ok("board", "create", board, *options, "--tie", "member")
    members = ["a", ' "b" ', "c,d", "e\rf", "g\n\nh", "\ufeffi", "ü\\x", "'"]
    lines = [
        f'{{"member":{_json(member)},"value":{[i] * len(columns)}}}'
        for i, member in enumerate(members)
    ]
    shell.ok("import", "one", "-", stdin="\n".join(lines).encode())
    exported = shell.ok("export", "one", "--format", form).out
    shell.ok("import", "two", "-", stdin=exported.encode())
    assert shell.ok("export", "two", "--format", form).out == exported
    assert exported.count("rank") == (1 if form == "csv" else len(members))


def _json(text: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'
