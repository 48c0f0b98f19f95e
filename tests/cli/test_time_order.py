"""`import --clock event` replays a history as if it happened live."""

import re
import shlex
import time

import pytest

from .running import Shell

HISTORY = """member,score,at
c,5,2021-03-31T23:59:59Z
a,1,2021-02-01T00:00:00Z
b,2,2021-02-28T23:59:59.999Z
a,4,2021-03-01T00:00:00Z
b,3,2021-01-31T00:00:00Z
"""


@pytest.fixture
def board(shell: Shell) -> Shell:
    shell.ok(
        *("board", "create", "g", "--window", "all", "--window", "month=month:keep=2"),
        *("--grace", "0ms", "--clock", "event"),
    )
    return shell


@pytest.mark.parametrize("batch", ["1", "2", "5000"])
def test_windows_show_the_period_of_the_last_event(board: Shell, batch: str) -> None:
    path = board.file("in.csv", HISTORY)
    board.ok("import", "g", path, "--clock", "event", "--batch", batch)
    top = board.json("top", "g", "--window", "month")
    assert top["as_of"]["period"] == "2021-03"
    assert board.scores("g", "--window", "month") == {"c": 5, "a": 4}
    assert board.scores("g", "--window", "month", "--period", "2021-02") == {"b": 2, "a": 1}
    assert board.scores("g") == {"a": 5, "b": 5, "c": 5}
    expired = board("top", "g", "--window", "month", "--period", "2021-01")
    assert (expired.code, expired.err.split(":")[0]) == (2, "error [period_expired]")


def test_equal_times_keep_the_order_of_the_file(shell: Shell) -> None:
    shell.ok("board", "create", "g", "--column", "score:op=last", "--clock", "event")
    lines = "".join(f"a,{i},2021-03-0{1 + (i + 1) % 2}\n" for i in range(20))
    shell.ok("import", "g", "-", "--clock", "event", stdin=f"member,score,at\n{lines}".encode())
    assert shell.scores("g") == {"a": 18}


def test_lines_without_a_time_are_rejected(board: Shell) -> None:
    path = board.file("in.csv", "member,score,at\na,1,\nb,2,2021-03-01\n")
    ran = board("import", "g", path, "--clock", "event", "--json")
    assert ran.code == 1
    assert ran.json()["files"][0]["reasons"] == {"at_required": 1}
    assert board.scores("g") == {"b": 2}


def test_the_folder_remembers_its_clock(board: Shell) -> None:
    board.ok("import", "g", "-", "--clock", "event", stdin=HISTORY.encode())
    board.ok("import", "g", "-", stdin=b"member,score,at\nd,9,2021-03-31T23:59:59Z\n")
    assert board.json("top", "g", "--window", "month")["entries"][0]["member"] == "d"


def test_an_unused_board_can_change_to_event_time(
    shell: Shell,
) -> None:
    shell.ok("board", "create", "g", "--window", "month")
    path = shell.file("in.csv", HISTORY)
    assert shell.ok("import", "g", path, "--clock", "event").err == ""
    assert shell.scores("g") == {"c": 5, "a": 4}


def test_boards_in_use_cannot_change_to_event_time(shell: Shell) -> None:
    shell.ok("board", "create", "g")
    shell.ok("import", "g", shell.file("one.csv", "member,score\na,1\n"))
    ran = shell("import", "g", shell.file("in.csv", HISTORY), "--clock", "event")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [invalid_clock]")
    shell.ok("import", "g", shell.file("two.csv", "member,score\na,1\n"))
    assert shell.scores("g") == {"a": 2}


def test_history_without_event_time_is_refused_before_its_first_line(shell: Shell) -> None:
    shell.ok("board", "create", "g", "--window", "all", "--window", "month")
    path = shell.file("in.csv", HISTORY)
    ran = shell("import", "g", path)
    assert (ran.code, ran.out) == (2, "")
    assert "5 of 5 events would be too late (5 for month), the first in line 2" in ran.err
    assert shell.scores("g") == {}
    [words] = re.findall(r"run (laurels import .* --clock event) with a new folder", ran.err)
    shell.ok(*shlex.split(words)[1:])
    assert shell.scores("g", "--window", "month") == {"c": 5, "a": 4}


def test_windows_may_leave_out_history(shell: Shell) -> None:
    shell.ok("board", "create", "g", "--window", "all", "--window", "month")
    path = shell.file("in.csv", HISTORY)
    ran = shell.ok("import", "g", path, "--json", "--late", "ok")
    assert ran.json()["files"][0]["late"] == {"month": 5}
    assert "5 for month" in ran.err


SHUFFLED = """member,score,at
a,1,2021-02-03
a,2,2021-03-04
b,3,2021-02-05
b,4,2021-03-06
"""


def test_unordered_lines_are_refused_before_any_line_is_counted(board: Shell) -> None:
    path = board.file("in.csv", SHUFFLED)
    ran = board("import", "g", path, "--batch", "1")
    assert ran.code == 2
    assert "1 of 4 events would be too late (1 for month), the first in line 4" in ran.err
    assert board.scores("g") == {}
    [words] = re.findall(r"in time order: (laurels import .*); or give", ran.err)
    assert words == f"laurels import g {path} --batch 1 --clock event"
    board.ok(*shlex.split(words)[1:])
    assert board.scores("g", "--window", "month") == {"b": 4, "a": 2}
    assert board.scores("g") == {"b": 7, "a": 3}


def test_standard_input_stops_before_the_first_late_batch(board: Shell) -> None:
    ran = board("import", "g", "-", "--batch", "2", stdin=SHUFFLED.encode())
    assert ran.code == 2
    assert "1 of 4 events would be too late" in ran.err
    assert board.scores("g") == {"a": 3}


def test_appended_lines_are_checked_from_the_end_of_the_last_import(board: Shell) -> None:
    path = board.file("in.csv", HISTORY)
    board.ok("import", "g", path, "--clock", "event")
    path.write_text(HISTORY + "d,9,2021-03-31T23:59:59Z\n")
    board.ok("import", "g", path)
    path.write_text(HISTORY + "d,9,2021-03-31T23:59:59Z\ne,9,2021-01-01\n")
    ran = board("import", "g", path)
    assert (ran.code, "1 of 1 events would be too late" in ran.err) == (2, True)


def test_a_wrongly_imported_board_can_be_deleted_and_imported_again(board: Shell) -> None:
    path = board.file("in.csv", SHUFFLED)
    board.ok("import", "g", path, "--late", "ok")
    assert board.scores("g", "--window", "month") == {"b": 4, "a": 2}
    assert board.scores("g", "--window", "month", "--period", "2021-02") == {"a": 1}
    board.ok("board", "delete", "g", "--yes")
    board.ok("board", "create", "g", "--window", "all", "--window", "month=month:keep=2")
    board.ok("import", "g", path, "--clock", "event")
    assert board.scores("g", "--window", "month", "--period", "2021-02") == {"b": 3, "a": 1}


def test_two_boards_are_filled_from_one_history(board: Shell) -> None:
    path = board.file("in.csv", HISTORY)
    board.ok("board", "create", "h", "--window", "month=month:keep=2")
    for name in ("g", "h"):
        board.ok("import", name, path, "--clock", "event")
    february = ("--window", "month", "--period", "2021-02")
    assert board.scores("h", *february) == board.scores("g", *february) == {"b": 2, "a": 1}


def _with_year(year: int) -> str:
    return f"member,score,at\na,1,2021-03-01\nb,1,{year}-03-01\nc,1,2021-03-02\n"


@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
def test_a_mistyped_year_does_not_advance_the_boards(board: Shell, order: list[str]) -> None:
    path = board.file("in.csv", _with_year(2202))
    ran = board("import", "g", path, "--json", *order)
    assert ran.code == 1
    assert ran.json()["files"][0]["reasons"] == {"at_in_future": 1}
    assert "--allow-future" in ran.err
    assert board.json("top", "g", "--window", "month")["as_of"]["period"] == "2021-03"
    assert board.scores("g") == {"a": 1, "c": 1}


def test_times_in_the_future_may_be_allowed(board: Shell) -> None:
    path = board.file("in.csv", _with_year(2202))
    board.ok("import", "g", path, "--clock", "event", "--allow-future")
    assert board.json("top", "g", "--window", "month")["as_of"]["period"] == "2202-03"


def test_a_resumed_import_refuses_times_after_its_first_start(
    board: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = _with_year(2026).replace("2026", time.strftime("%Y", time.gmtime(time.time() + 4e7)))
    path = board.file("in.csv", lines)
    prelude = (
        "import os, laurels\n"
        "submit_many = laurels.Leaderboards.submit_many\n"
        "def killing(*arguments, **options):\n"
        "    submit_many(*arguments, **options)\n"
        "    os._exit(9)\n"
        "laurels.Leaderboards.submit_many = killing\n"
    )
    command = ["import", "g", str(path), "--clock", "event", "--batch", "1"]
    assert board.process(*command, prelude=prelude).returncode == 9
    later_ns = time.time_ns() + 10 * 365 * 86_400 * 1_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    board.ok(*command)
    assert board.scores("g") == {"a": 1, "c": 1}


def test_a_file_older_than_the_imported_ones_is_refused(board: Shell) -> None:
    for name, month in (("early", 1), ("late", 3)):
        board.file(f"{name}.csv", f"member,score,at\n{name},1,2021-0{month}-15\n")
    ran = board("import", "g", "late.csv", "early.csv", "--clock", "event")
    assert ran.code == 2
    assert "error [usage]: early.csv: 1 of 1 events would be too late (1 for month)" in ran.err
    assert "laurels board delete g" in ran.err
    assert board.scores("g") == {"late": 1}
    again = board("import", "g", "early.csv", "--clock", "event")
    assert (again.code, again.err.split(": 1 of")[0]) == (2, "error [usage]: early.csv")
    assert board.scores("g") == {"late": 1}, "a separate command for this file is refused as well"
    board.ok("import", "g", "early.csv", "--clock", "event", "--late", "ok")
    assert board.scores("g") == {"early": 1, "late": 1}
    assert board.scores("g", "--window", "month") == {"late": 1}
    board.ok("board", "create", "h", "--at", "other", "--window", "month:keep=3")
    for _ in range(2):
        board.ok("import", "h", "early.csv", "late.csv", "--clock", "event", "--at", "other")
    assert board.scores("h", "--period", "2021-01", "--at", "other") == {"early": 1}


def test_late_lines_in_event_time_get_no_advice_to_use_event_time(board: Shell) -> None:
    board.ok("import", "g", "-", "--clock", "event", stdin=HISTORY.encode())
    old = b"member,score,at\nz,1,2021-01-01\n"
    ran = board("import", "g", "-", "--clock", "event", stdin=old)
    assert "too late (1 for month)" in ran.err
    assert "--clock event" not in ran.err
    assert (ran.code, "z" in board.scores("g")) == (2, False)
    ran = board("import", "g", "-", "--clock", "event", "--late", "ok", stdin=old)
    assert "too late (1 for month)" in ran.err
    assert (ran.code, board.scores("g")["z"]) == (0, 1)


def test_a_replay_pauses_and_continues(board: Shell) -> None:
    path = board.file("in.csv", HISTORY)
    replay = ("import", "g", path, "--clock", "event", "--batch", "2")
    paused = board.ok(*replay, "--until", "2021-02-28T23:59:59.998Z").out
    assert "2 applied" in paused
    assert "3 later lines not counted yet" in paused
    assert board.scores("g") == {"b": 3, "a": 1}
    again = board.json(*replay, "--until", "2021-02-28T23:59:59.998Z")["files"][0]
    assert (again["applied"], again["left"]) == (0, 3)
    board.ok(*replay, "--until", "2021-02-28T23:59:59.999Z")
    assert board.json("top", "g", "--window", "month")["as_of"]["period"] == "2021-02"
    assert board.scores("g") == {"b": 5, "a": 1}
    rest = board.json(*replay)["files"][0]
    assert (rest["applied"], rest["left"]) == (2, 0)
    assert board.scores("g") == {"a": 5, "b": 5, "c": 5}
    assert "nothing new" in board.ok(*replay).out


@pytest.mark.parametrize(
    "options",
    [("--until", "2021-02-28"), ("--clock", "event", "--until", "soon")],
)
def test_a_pause_needs_a_replay_and_a_time(board: Shell, options: tuple[str, ...]) -> None:
    path = board.file("in.csv", HISTORY)
    assert board("import", "g", path, *options).code == 2
    assert board.scores("g") == {}
