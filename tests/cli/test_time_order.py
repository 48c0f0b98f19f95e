"""`import --clock event`: a history is replayed as if it happened live."""

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
