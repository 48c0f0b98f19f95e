"""The changes of a deleted board end with its deletion. After it, they are kept for the time that
the setting `changes` of the board named."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import Change, DeletedBoard
from laurels.errors import (
    BoardDeleted,
    ChangesExpired,
    CursorDiverged,
    InvalidCursor,
    LaurelsError,
    PositionMoved,
    UnknownBoard,
)
from tests.changes import all_changes
from tests.contract.change_history import DEFINITIONS, History
from tests.contract.change_history import board_of as defined
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment

HOUR = 3_600_000
MEMBERS = [f"m{i}" for i in range(12)]


def board(**fields: Any) -> laurels.Board:
    return laurels.Board("b", **({"changes": "1h"} | fields))


def fill(lb: laurels.Leaderboards, batches: int = 3) -> str:
    """Create a board with some changes; return the cursor after the first ones."""
    lb.create(board())
    cursor = lb.changes("b").cursor
    for _ in range(batches):
        lb.submit_many("b", [(member, 1) for member in MEMBERS])
    return cursor


def remaining(
    lb: laurels.Leaderboards, after: str, limit: int = 5, board: str = "b"
) -> list[Change]:
    """Return all changes after a cursor. Assert that the store raises BoardDeleted after the last
    one."""
    changes: list[Change] = []
    while True:
        page = lb.changes(board, after=after, limit=limit)
        assert len(page) <= limit
        changes += page
        assert page.is_end == (not page.more)
        after = page.cursor
        if not page.more:
            break
    with pytest.raises(BoardDeleted):
        lb.changes(board, after=after)
    return changes


def only(lb: laurels.Leaderboards, source: str | None = None) -> DeletedBoard:
    (deleted,) = lb.deleted_boards(source)
    return deleted


def test_the_last_change_of_a_board_is_its_deletion(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    after = fill(lb)
    before = list(all_changes(lb, "b", after=after))
    clock.advance(1_000)
    lb.delete("b")
    for _ in range(2):
        for limit in (1, 5, 1_000):
            *changes, last = remaining(lb, after, limit)
            assert changes == before
            assert (last.kind, last.member, last.at_ms) == ("delete", None, NOW_MS + 1_000)
            assert last.board == "b"
            assert (last.delta, last.score, last.rankings, last.data) == (None, None, [], None)
        assert remaining(lb, only(lb).last_cursor) == [last]
        ids = [change.id for change in [*changes, last]]
        assert len({*ids}) == len(ids)
        numbers = [int(id.split("/")[2]) for id in ids if id.split("/")[1] == last.id.split("/")[1]]
        assert int(last.id.split("/")[2]) == max(numbers)
        lb = lasting.reopen()
    for gone in ({}, {"after": "now"}, {"initial": True}):
        with pytest.raises(UnknownBoard) as raised:
            lb.changes("b", **gone)
        assert not isinstance(raised.value, BoardDeleted)


@pytest.mark.parametrize("name", ["sum", "scopes", "head", "best"])
def test_changes_of_a_deleted_board_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str
) -> None:
    history = History(clock, DEFINITIONS[name], seed=3)
    lb.create(defined(DEFINITIONS[name]))
    after = lb.changes("board", limit=1).cursor
    history.write(lb, 40)
    before = history.compare(lb)
    lb.delete("board")
    *changes, last = remaining(lb, after, board="board")
    assert [change.kind for change in changes] == [change.kind for change in before]
    assert {change.id: change for change in changes} == {change.id: change for change in before}
    assert last.kind == "delete"


def test_changes_of_a_deleted_board_are_removed_after_their_time(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    after = fill(lb)
    lb.delete("b")
    deleted = only(lb)
    assert (deleted.deleted_ms, deleted.until_ms) == (NOW_MS, NOW_MS + HOUR)
    clock.advance(HOUR - 1)
    assert len(remaining(lb, after)) == 3 * len(MEMBERS) + 1
    clock.advance(1)
    for _ in range(2):
        with pytest.raises(UnknownBoard, match="there is no board"):
            lb.changes("b", after=after)
        assert lb.deleted_boards() == []
        lb = lasting.reopen()
    lb.create(board())
    with pytest.raises(CursorDiverged):
        lb.changes("b", after=after)
    lb.check()


def test_a_new_board_of_the_same_name_has_changes_of_its_own(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    after = fill(lb)
    lb.delete("b")
    end = lb.changes("b", after=only(lb).cursor, limit=1_000).cursor
    lb.create(board(windows=["day"]))
    lb.submit("b", "ann", 7)
    for _ in range(2):
        kinds = [change.kind for change in remaining(lb, after)]
        assert kinds == ["event"] * 3 * len(MEMBERS) + ["delete"]
        assert [change.kind for change in all_changes(lb, "b")] == ["create", "event"]
        with pytest.raises(BoardDeleted):
            lb.changes("b", after=end)
        lb = lasting.reopen()
    newest = lb.changes("b").cursor
    lb.delete("b")
    assert [each.name for each in lb.deleted_boards()] == ["b", "b"]
    assert len(remaining(lb, after)) == 3 * len(MEMBERS) + 1
    assert [change.kind for change in remaining(lb, newest)] == ["delete"]
    clock.advance(HOUR)
    lb.create(board())
    for cursor in (after, newest):
        with pytest.raises(CursorDiverged):
            lb.changes("b", after=cursor)
    with pytest.raises(BoardDeleted):
        lb.changes("b", after=end)


def test_the_initial_load_of_a_deleted_board_ends_with_its_changes(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(board(windows=["all", "day"]))
    lb.submit_many("b", [(member, 1) for member in MEMBERS])
    page = lb.changes("b", initial=True, limit=3)
    assert page.more
    lb.delete("b")
    for _ in range(2):
        assert [change.kind for change in remaining_of_load(lb, page.cursor)] == ["delete"]
        lb.create(board(), exist_ok=True)
        lb.submit("b", "zoe", 1)
    with pytest.raises(CursorDiverged):
        lb.changes("b", after=InitialOf(page.cursor, "0123456789abcdef"))


def remaining_of_load(lb: laurels.Leaderboards, after: str) -> list[Change]:
    page = lb.changes("b", after=after, limit=3)
    assert (list(page), page.more) == ([], True)
    return remaining(lb, page.cursor)


def InitialOf(cursor: str, uid: str) -> str:  # noqa: N802
    """Return the cursor of an initial load for a board with another unique id."""
    from msgspec.structs import replace  # noqa: PLC0415

    from laurels.core.changes.beginning import decode  # noqa: PLC0415

    decoded = decode(cursor)
    rest = decoded.changes.partition("~")[2]
    return replace(decoded, changes=f"{uid}~{rest}").encode()


def test_a_board_without_changes_leaves_nothing(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.delete("b")
    assert lb.deleted_boards() == []
    after = fill(lb)
    lb.change("b", changes="")
    lb.delete("b")
    assert lb.deleted_boards() == []
    with pytest.raises(UnknownBoard):
        lb.changes("b", after=after)


def test_a_board_is_deleted_once(lb: laurels.Leaderboards) -> None:
    after = fill(lb)
    lb.delete("b")
    with pytest.raises(UnknownBoard):
        lb.delete("b")
    assert [change.kind for change in remaining(lb, after)].count("delete") == 1


def test_cursors_name_the_board(lb: laurels.Leaderboards) -> None:
    after = fill(lb)
    lb.create(laurels.Board("other", changes="1h"))
    lb.delete("b")
    with pytest.raises(CursorDiverged):
        lb.changes("other", after=after)
    with pytest.raises(UnknownBoard):
        lb.changes("nobody", after=after)
    for text in ("~oldest", "x~end", "x~1-2-e~oldest", "~1-2-e~end"):
        with pytest.raises(InvalidCursor):
            lb.changes("other", after=text)


def test_removal_by_time_is_a_deletion_at_that_time(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    ends = NOW_MS + HOUR
    lb.create(board(ends=ends, retain="1d", changes="2d"))
    after = lb.changes("b").cursor
    lb.submit("b", "ann", 1)
    clock.set(ends + 24 * HOUR + 5)
    for _ in range(3):
        event, last = remaining(lb, after)
        assert (event.kind, last.kind, last.at_ms) == ("event", "delete", ends + 24 * HOUR)
        assert only(lb).deleted_ms == ends + 24 * HOUR
        lb = lasting.reopen()
        lb.create(board(), exist_ok=True)
    clock.set(ends + 72 * HOUR)
    with pytest.raises(CursorDiverged):
        lb.changes("b", after=after)


def test_a_board_whose_time_was_over_long_ago_leaves_nothing(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(board(ends=NOW_MS + HOUR, retain="1d", changes="2h"))
    after = lb.changes("b").cursor
    clock.advance(48 * HOUR)
    lb = lasting.reopen()
    with pytest.raises(UnknownBoard, match="there is no board"):
        lb.changes("b", after=after)
    assert lb.deleted_boards() == []


def test_deleted_boards_are_found_without_reading_all(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("other", changes="1h"))
    after = fill(lb)
    seen = lb.changed_boards()
    lb.delete("b")
    changed = lb.changed_boards(seen.cursor)
    assert changed.boards == ["b"]
    lb.create(board())
    assert lb.changed_boards(changed.cursor).boards == ["b"]
    deleted = only(lb)
    assert deleted.uid == after.partition("~")[0]
    assert laurels.Board(**_fields(deleted)) == lb.get("b")
    assert remaining(lb, deleted.cursor)[0].kind == "create"


def _fields(deleted: DeletedBoard) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    restored = laurels.Board.from_json(msgspec.json.encode(deleted.definition))
    return {"name": restored.name, "changes": restored.changes}


def test_a_sink_moves_its_position_in_the_changes_of_a_deleted_board(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    start = fill(lb)
    source = "sink:hook"
    lb.submit_many("b", [], position=(source, start, None))
    lb.delete("b")
    lb.create(board())
    page = lb.changes("b", after=start, limit=7)
    for _ in range(2):
        # the second time, this repeats the move, which has no effect
        lb.submit_many("b", [], position=(source, page.cursor, start))
        assert lb.position("b", source) is None
        assert only(lb, source).position == page.cursor
        assert only(lb, "sink:other").position is None
        lb = lasting.reopen()
    with pytest.raises(PositionMoved):
        lb.submit_many("b", [], position=(source, start, lb.changes("b").cursor))
    end = lb.changes("b", after=page.cursor, limit=1_000).cursor
    lb.submit_many("b", [], position=(source, end))
    assert only(lb, source).position == end
    if lasting.exclusive:
        lb.snapshot()
        lb = lasting.reopen()
        assert only(lb, source).position == end
    assert [change.kind for change in all_changes(lb, "b")] == ["create"]
    clock.advance(HOUR)
    lb.create(laurels.Board("other"))
    assert lb.deleted_boards(source) == []


def test_unsent_changes_of_a_deleted_board_are_kept_after_snapshots(
    exclusive: Deployment, clock: laurels.ManualClock
) -> None:
    lb = exclusive.lb
    after = fill(lb)
    lb.submit_many("b", [], position=("sink:hook", after))
    clock.advance(HOUR - 1)
    lb.snapshot()
    lb.delete("b")
    clock.advance(HOUR - 1)
    for _ in range(3):
        lb.snapshot()
        lb = exclusive.reopen()
        assert [change.kind for change in remaining(lb, after)].count("event") == 36
    lb.rebuild()
    lb.check()
    assert [change.kind for change in remaining(lb, after)].count("event") == 36
    clock.advance(1)
    lb.snapshot()
    with pytest.raises(UnknownBoard):
        lb.changes("b", after=after)


def test_the_file_of_changes_may_be_deleted(exclusive: Deployment) -> None:
    lb = exclusive.lb
    after = fill(lb)
    lb.delete("b")
    lb.snapshot()
    exclusive.close()
    for file in exclusive.folder.glob("changes.db*"):
        file.unlink()
    lb = exclusive.reopen()
    with pytest.raises(ChangesExpired):
        lb.changes("b", after=after)
    assert [change.kind for change in remaining(lb, only(lb).last_cursor)] == ["delete"]
    assert [change.kind for change in remaining(lb, only(lb).cursor)] == ["delete"]


def test_a_reader_that_follows_a_board_ends_with_it(deployment: Deployment) -> None:
    lb = deployment.lb
    after = fill(lb)
    lb.delete("b")
    lb.create(board())
    pages = list(islice(lb.watch_changes("b", after=after, limit=10), 9))
    assert [change.kind for page in pages for change in page][-1] == "delete"
    assert len(pages) == 4

    async def follow() -> int:
        async with deployment.opened_async() as boards:
            return len([page async for page in boards.watch_changes("b", after=after, limit=10)])

    if deployment.lasting:
        assert asyncio.run(follow()) == 4


def test_deletions_among_other_writes(lb: laurels.Leaderboards) -> None:
    for round in range(5):
        lb.create(board(shards=1))
        lb.submit_many("b", [(member, 1) for member in MEMBERS])
        if round % 2:
            lb.remove("b", MEMBERS[0])
        lb.delete("b")
    deleted = lb.deleted_boards()
    assert len({each.uid for each in deleted}) == 5
    for round, each in enumerate(deleted):
        kinds = [change.kind for change in remaining(lb, each.cursor)]
        assert kinds == ["create", *["event"] * 12, *["remove"] * (round % 2), "delete"]


def test_reading_the_end_of_a_board_is_an_error_of_its_own() -> None:
    assert issubclass(BoardDeleted, UnknownBoard)
    assert BoardDeleted.code == "board_deleted"
    assert issubclass(BoardDeleted, LaurelsError)


def test_in_event_time_changes_of_deleted_boards_do_not_expire() -> None:
    with laurels.open("memory:", clock="event") as lb:
        lb.create(board())
        after = lb.changes("b").cursor
        lb.submit("b", "ann", 1, at=NOW_MS)
        lb.delete("b")
        lb.create(board())
        lb.submit("b", "ann", 1, at=NOW_MS + 48 * HOUR)
        assert [change.kind for change in remaining(lb, after)][-2:] == ["event", "delete"]
        assert only(lb).deleted_ms == NOW_MS
