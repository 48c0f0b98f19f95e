"""An import that is interrupted and run again counts each line once."""

import csv
import gzip
import random
import signal
from pathlib import Path

import msgspec
import pytest

from tests.counts import covering, rare

from .running import KILLED, Shell

LINES = 200
BATCH = 20


@pytest.fixture
def gifts(shell: Shell) -> Shell:
    shell.ok("board", "create", "gifts", "--clock", "event")
    return shell


def _content(*, bad: bool = False) -> str:
    """Return the lines of events of 20 members, not in order of time. Some lines are malformed, and
    one event is refused."""
    lines = [f"m{i % 20},{i},2021-03-{1 + i * 7 % 28:02}" for i in range(LINES)]
    random.Random(7).shuffle(lines)
    if bad:
        for place in (5, 50, 111, 190):
            lines.insert(place, f"bad{place},x,2021-03-01")
            lines.insert(place, f"bad{place}")
    return "member,score,at\n" + "\n".join(lines) + "\n"


def _expected() -> dict[str, int]:
    return {f"m{m}": sum(range(m, LINES, 20)) for m in range(20)}


def _import(path: Path, *options: str) -> list[str]:
    return ["import", "gifts", str(path), "--batch", str(BATCH), *options]


def _reject_lines(path: Path) -> list[int]:
    with path.open(encoding="utf-8", newline="") as file:
        return [int(row["line"]) for row in csv.DictReader(file)]


AS_WRITTEN: list[str] = []
IN_TIME_ORDER = ["--clock", "event"]


@pytest.mark.parametrize(
    ("order", "before", "packed"),
    [
        *((AS_WRITTEN, True, False), (AS_WRITTEN, False, True)),
        *((IN_TIME_ORDER, True, True), (IN_TIME_ORDER, False, False)),
        *rare((AS_WRITTEN, True, True), (AS_WRITTEN, False, False)),
        *rare((IN_TIME_ORDER, True, False), (IN_TIME_ORDER, False, True)),
    ],
)
def test_an_import_that_is_killed_repeatedly_counts_each_line_once(
    gifts: Shell, order: list[str], before: bool, packed: bool
) -> None:
    content = _content().encode()
    path = gifts.file("in.csv", gzip.compress(content) if packed else content)
    for at in (1, 2, 4):
        prelude = KILLED.format(at=at, before=before, signal="SIGKILL")
        assert gifts.process(*_import(path, *order), prelude=prelude).returncode == -signal.SIGKILL
    gifts.ok(*_import(path, *order))
    assert gifts.scores("gifts") == _expected()
    gifts.ok(*_import(path, *order))
    assert gifts.scores("gifts") == _expected()
    gifts.ok("check")


@pytest.mark.parametrize(("order", "at"), covering([AS_WRITTEN, IN_TIME_ORDER], [1, 3, 6]))
def test_each_reject_is_written_once_despite_a_kill_before_the_commit(
    gifts: Shell, order: list[str], at: int
) -> None:
    path = gifts.file("in.csv", _content(bad=True))
    prelude = KILLED.format(at=at, before=True, signal="SIGKILL")
    gifts.process(*_import(path, *order), prelude=prelude)
    assert gifts(*_import(path, *order)).code in (0, 1)
    assert gifts.scores("gifts") == _expected()
    with path.open() as file:
        bad = [i for i, line in enumerate(file, 1) if line.startswith("bad")]
    assert sorted(_reject_lines(path.with_name("in.csv.gifts.rejects.csv"))) == bad


@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
def test_ctrl_c_ends_an_import_between_two_commits_and_says_how_to_continue(
    gifts: Shell, order: list[str]
) -> None:
    path = gifts.file("in.csv", _content())
    prelude = KILLED.format(at=3, before=True, signal="SIGINT")
    ran = gifts.process(*_import(path, *order), "--json", prelude=prelude)
    assert ran.returncode == 130
    assert b"Traceback" not in ran.stderr
    assert b"run the same command again to continue" in ran.stderr
    (interrupted,) = msgspec.json.decode(ran.stdout)["files"]
    assert interrupted["interrupted"]
    assert interrupted["applied"] + interrupted["unchanged"] == 3 * BATCH
    (resumed,) = gifts.json(*_import(path, *order))["files"]
    assert resumed["applied"] + resumed["unchanged"] == LINES - 3 * BATCH
    assert gifts.scores("gifts") == _expected()


def test_ctrl_c_while_standard_input_is_read_advises_to_give_it_a_source_name(gifts: Shell) -> None:
    prelude = (
        "import os, signal\nfrom laurels.cli.importing.lines import Lines\n"
        "take = Lines.take\n"
        "def taking(lines):\n"
        "    if lines.line == 50: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return take(lines)\n"
        "Lines.take = taking\n"
    )
    content = _content().encode()
    ran = gifts.process(*("import", "gifts", "-", "--batch", "20"), prelude=prelude, stdin=content)
    assert ran.returncode == 130
    assert b"without --source" in ran.stderr
    assert b"40 applied" in ran.stdout


def test_standard_input_is_resumed_by_its_name(gifts: Shell) -> None:
    content = _content().encode()
    command = ["import", "gifts", "-", "--batch", str(BATCH), "--source", "the log"]
    prelude = KILLED.format(at=4, before=True, signal="SIGKILL")
    gifts.process(*command, prelude=prelude, stdin=content)
    gifts.ok(*command, stdin=content)
    assert gifts.scores("gifts") == _expected()


def test_standard_input_without_a_name_is_counted_each_time(gifts: Shell) -> None:
    content = b"member,score,at\na,1,2021-03-01\n"
    for _ in range(2):
        (figures,) = gifts.json("import", "gifts", "-", stdin=content)["files"]
        assert figures["source"] is None
    assert gifts.scores("gifts") == {"a": 2}


@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
def test_appended_lines_are_counted(gifts: Shell, order: list[str]) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01\n")
    gifts.ok(*_import(path, *order))
    path.write_text(path.read_text() + "a,2,2021-03-03\nb,1,2021-03-02\n")
    (figures,) = gifts.json(*_import(path, *order))["files"]
    assert (figures["lines"], figures["resumed_after"]) == (2, 2)
    assert gifts.scores("gifts") == {"a": 3, "b": 1}


def test_lines_appended_during_an_interruption_are_counted_last(
    gifts: Shell,
) -> None:
    path = gifts.file("in.csv", _content() + "\n\n")
    prelude = KILLED.format(at=4, before=False, signal="SIGKILL")
    gifts.process(*_import(path, "--clock", "event"), prelude=prelude)
    path.write_text(path.read_text() + "late,1,2021-03-01\n")
    gifts.ok(*_import(path, "--clock", "event"))
    assert gifts.scores("gifts") == _expected() | {"late": 1}


def test_a_section_that_is_resumed_is_not_read_beyond_its_end(gifts: Shell) -> None:
    path = gifts.file("in.csv", _content() + '"open,1,2021-03-01\n')
    prelude = KILLED.format(at=4, before=False, signal="SIGKILL")
    gifts.process(*_import(path, "--clock", "event"), prelude=prelude)
    path.write_text(path.read_text() + 'b",7,2021-03-01\nc,1,2021-03-01\n')
    for _ in range(2):
        gifts.ok(*_import(path, "--clock", "event"))
        assert gifts.scores("gifts") == _expected() | {'b"': 7, "c": 1}


@pytest.mark.parametrize(
    "changed",
    [
        "member,score,at\na,2,2021-03-01\nb,1,2021-03-01\n",
        "member,score,at\na,1,2021-03-01\n",
        "member,score,at\na,1,2021-03-01\nb,1,2021-03-01000\n",
        "member,score,at,x\n",
        "",
    ],
)
@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
def test_a_changed_file_is_refused(gifts: Shell, changed: str, order: list[str]) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01\nb,1,2021-03-01")
    gifts.ok(*_import(path, *order))
    path.write_text(changed)
    ran = gifts(*_import(path, *order))
    assert ran.code == 2
    assert ran.err.startswith("error [source_changed]" if changed else "error [usage]")
    assert gifts.scores("gifts") == {"a": 1, "b": 1}


def test_a_changed_file_may_be_imported_as_another_source(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01\n")
    gifts.ok(*_import(path))
    path.write_text("member,score,at\na,5,2021-03-01\n")
    gifts.ok(*_import(path, "--source", "corrected"))
    assert gifts.scores("gifts") == {"a": 6}


def test_a_last_line_without_its_end_is_not_counted_in_two_pieces(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01")
    gifts.ok(*_import(path))
    path.write_text("member,score,at\na,1,2021-03-01\nb,1,2021-03-01\n")
    ran = gifts(*_import(path))
    assert ran.err.startswith("error [source_changed]")
    assert gifts.scores("gifts") == {"a": 1}


def test_the_order_of_an_interrupted_import_is_kept(gifts: Shell) -> None:
    path = gifts.file("in.csv", _content())
    prelude = KILLED.format(at=4, before=False, signal="SIGKILL")
    gifts.process(*_import(path, "--clock", "event"), prelude=prelude)
    assert gifts(*_import(path)).err.startswith("error [usage]")
    gifts.ok(*_import(path, "--clock", "event"))
    assert gifts.scores("gifts") == _expected()


def test_the_position_in_a_file_is_kept_for_each_board(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01\n")
    gifts.ok("board", "create", "others")
    for board in ("gifts", "others"):
        gifts.ok("import", board, path)
        assert gifts.scores(board) == {"a": 1}


def test_a_recreated_board_is_imported_from_the_start(gifts: Shell) -> None:
    path = gifts.file("in.csv", "member,score,at\na,1,2021-03-01\n")
    gifts.ok(*_import(path))
    gifts.ok("board", "delete", "gifts", "--yes")
    gifts.ok("board", "create", "gifts")
    gifts.ok(*_import(path))
    assert gifts.scores("gifts") == {"a": 1}


def test_a_damaged_packed_file_is_counted_up_to_the_damage(gifts: Shell) -> None:
    packed = gzip.compress(_content().encode() * 50)
    path = gifts.file("in.csv.gz", packed[: len(packed) // 2])
    ran = gifts(*_import(path), "--json")
    assert ran.code == 2
    assert f"error [source_unreadable]: {path}: " in ran.err
    (figures,) = ran.json()["files"]
    assert figures["error"] == "source_unreadable"
    assert figures["applied"] > 0
    assert gifts.scores("gifts")
