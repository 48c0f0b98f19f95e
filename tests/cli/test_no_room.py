"""`import` into a board whose table of event ids is full skips no event."""

import pytest

import laurels

from .running import Shell

ORDERS = pytest.mark.parametrize(
    "order", [[], ["--clock", "event"]], ids=["as written", "in time order"]
)


def _content(count: int, step_s: int = 1) -> str:
    """Return a file of events of two members, and some lines with an invalid score. Half of the
    valid events have an id, and each id is used twice."""
    lines = []
    for i in range(count):
        at = 1_614_556_800 + i * step_s
        lines += [f"a,1,{at},id{i}", f"b,1,{at},", f"a,1,{at},id{i}", f"bad,x,{at},"]
    return "member,score,at,id\n" + "\n".join(lines) + "\n"


@pytest.fixture
def board(shell: Shell) -> Shell:
    shell.ok("board", "create", "g", "--dedupe-max", "10", "--clock", "event")
    return shell


@ORDERS
@pytest.mark.parametrize("batch", ["1", "7", "5000"])
def test_an_import_ends_at_the_first_id_for_which_there_is_no_room(
    board: Shell, order: list[str], batch: str
) -> None:
    path = board.file("in.csv", _content(15))
    command = ["import", "g", str(path), "--at-format", "s", "--batch", batch, *order]
    for _ in range(2):
        ran = board(*command)
        assert ran.code == 2
        assert "error [dedupe_full]" in ran.err
        assert "line 42" in ran.err
        assert "--dedupe-max" in ran.err
        assert board.scores("g") == {"a": 10, "b": 10}


def test_the_error_of_an_unnamed_pipe_does_not_promise_to_continue(board: Shell) -> None:
    ran = board("import", "g", "-", "--at-format", "s", stdin=_content(15).encode())
    assert ran.code == 2
    assert "import the remaining lines later" in ran.err
    assert board.scores("g") == {"a": 10, "b": 10}


@ORDERS
@pytest.mark.parametrize("batch", ["7", "5000"])
def test_the_repeated_import_counts_the_rest_once(
    board: Shell, order: list[str], batch: str
) -> None:
    path = board.file("in.csv", _content(15))
    command = ["import", "g", str(path), "--at-format", "s", "--batch", batch, *order]
    assert board(*command).code == 2
    hours_later = 1_614_556_800_000 + 2 * 3_600_000
    with laurels.open(board.directory / "boards") as lb:
        lb.submit("g", "c", 1, at=hours_later)
    assert board(*command).code in (0, 1)
    assert board.scores("g") == {"a": 15, "b": 15, "c": 1}
    assert board(*command).code == 0
    assert board.scores("g") == {"a": 15, "b": 15, "c": 1}
    rejects = path.with_name("in.csv.g.rejects.csv").read_text().splitlines()
    assert len(rejects) == 1 + 15


def test_expired_ids_make_room_for_new_ones(board: Shell) -> None:
    path = board.file("in.csv", _content(60, step_s=600))
    board("import", "g", path, "--at-format", "s", "--clock", "event")
    assert board.scores("g") == {"a": 60, "b": 60}


def test_a_partial_batch_resumes_only_with_the_same_options(board: Shell) -> None:
    path = board.file("in.csv", _content(15))
    assert board("import", "g", path, "--at-format", "s").code == 2
    ran = board("import", "g", path, "--at-format", "iso")
    assert (ran.code, ran.err.split(":")[0]) == (2, "error [usage]")
    assert "continue with the options of the interrupted import" in ran.err
    assert ran.err.count(str(path)) == 1
