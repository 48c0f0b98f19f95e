"""`import --clock event`: a history is replayed as if it happened live."""

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
def test_windows_answer_as_of_the_last_event(board: Shell, batch: str) -> None:
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


def test_a_board_made_for_the_system_s_clock_takes_history_while_nothing_has_happened(
    shell: Shell,
) -> None:
    shell.ok("board", "create", "g", "--window", "month")
    path = shell.file("in.csv", HISTORY)
    assert shell.ok("import", "g", path, "--clock", "event").err == ""
    assert shell.scores("g") == {"c": 5, "a": 4}


def test_boards_in_use_do_not_go_over_to_event_time(shell: Shell) -> None:
    shell.ok("board", "create", "g")
    shell.ok("import", "g", shell.file("one.csv", "member,score\na,1\n"))
    ran = shell("import", "g", shell.file("in.csv", HISTORY), "--clock", "event")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [invalid_clock]")
    shell.ok("import", "g", shell.file("two.csv", "member,score\na,1\n"))
    assert shell.scores("g") == {"a": 2}


def test_history_without_event_time_is_said_to_be_late(shell: Shell) -> None:
    shell.ok("board", "create", "g", "--window", "all", "--window", "month")
    ran = shell("import", "g", shell.file("in.csv", HISTORY), "--json")
    assert ran.json()["files"][0]["late"] == {"month": 5}
    assert "5 for month" in ran.err


def _with_year(year: int) -> str:
    return f"member,score,at\na,1,2021-03-01\nb,1,{year}-03-01\nc,1,2021-03-02\n"


@pytest.mark.parametrize("order", [[], ["--clock", "event"]], ids=["as written", "in time order"])
def test_a_mistyped_year_does_not_move_the_boards_there(board: Shell, order: list[str]) -> None:
    path = board.file("in.csv", _with_year(2202))
    ran = board("import", "g", path, "--json", *order)
    assert ran.code == 1
    assert ran.json()["files"][0]["reasons"] == {"at_in_future": 1}
    assert "--allow-future" in ran.err
    assert board.json("top", "g", "--window", "month")["as_of"]["period"] == "2021-03"
    assert board.scores("g") == {"a": 1, "c": 1}


def test_the_future_may_be_allowed(board: Shell) -> None:
    path = board.file("in.csv", _with_year(2202))
    board.ok("import", "g", path, "--clock", "event", "--allow-future")
    assert board.json("top", "g", "--window", "month")["as_of"]["period"] == "2202-03"


def test_what_was_the_future_when_it_was_begun_stays_out_of_it(
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


def test_several_files_go_in_in_the_order_of_their_times(board: Shell) -> None:
    for name, month in (("early", 1), ("late", 3)):
        board.file(f"{name}.csv", f"member,score,at\n{name},1,2021-0{month}-15\n")
    ran = board("import", "g", "late.csv", "early.csv", "--clock", "event")
    assert ran.code == 2
    assert ran.err.startswith("error [usage]: early.csv: ")
    assert board.scores("g") == {"late": 1}
    board.ok("board", "create", "h", "--at", "other", "--window", "month:keep=3")
    for _ in range(2):
        board.ok("import", "h", "early.csv", "late.csv", "--clock", "event", "--at", "other")
    assert board.scores("h", "--period", "2021-01", "--at", "other") == {"early": 1}


def test_what_comes_late_in_event_time_is_not_sent_there(board: Shell) -> None:
    board.ok("import", "g", "-", "--clock", "event", stdin=HISTORY.encode())
    ran = board("import", "g", "-", "--clock", "event", stdin=b"member,score,at\nz,1,2021-01-01\n")
    assert "too late (1 for month)" in ran.err
    assert "--clock event" not in ran.err


def test_a_replay_pauses_and_goes_on(board: Shell) -> None:
    path = board.file("in.csv", HISTORY)
    replay = ("import", "g", path, "--clock", "event", "--batch", "2")
    paused = board.ok(*replay, "--until", "2021-02-28T23:59:59.998Z").out
    assert "2 applied" in paused
    assert "3 later ones left" in paused
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
