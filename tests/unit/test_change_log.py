"""The changes of a board in a folder: answers from memory and from the file are equal, and changes
are removed when they expire."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.internals import local

import laurels
from laurels.core.changes import deleted
from laurels.core.changes.answers import is_left_out
from laurels.errors import ChangesExpired, CursorDiverged, LogDamaged, StorageFailed
from laurels.stores.local.changes import board_changes, log
from laurels.stores.local.changes.file import ChangeFile

NOW_MS = 1_800_000_000_000
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_changes, "TAIL", 3)
    monkeypatch.setattr(board_changes, "ROW_CHANGES", 4)
    monkeypatch.setattr(board_changes, "ROW_BLOCKS", 2)


def boards(folder: Path, clock: laurels.ManualClock, **fields: object) -> laurels.Leaderboards:
    lb = laurels.open(str(folder / "boards"), clock=clock)
    definition = {"changes": "1h", **fields}
    lb.create(laurels.Board("b", windows=["all", "day"], **definition), exist_ok=True)  # type: ignore[arg-type]
    return lb


def ids(lb: laurels.Leaderboards, after: str | None = None, limit: int = 3) -> list[str]:
    read = []
    while True:
        page = lb.changes("b", after=after, limit=limit)
        read += [change.id for change in page]
        if not page.more:
            return read
        after = page.cursor


def write_behind(lb: laurels.Leaderboards) -> None:
    store = local(lb)
    store._changes.write(store._lock, store._times, lambda: None)


def test_pages_continue_from_the_file_into_memory(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        cursors, earlier = [lb.changes("b").cursor], ids(lb)
        for i in range(30):
            lb.submit_many("b", [(f"m{i}", 1), (f"n{i}", 1), (f"m{i}", 1)])
            cursors.append(lb.changes("b", after=cursors[-1]).cursor)
            if i % 7 == 0:
                write_behind(lb)
        every = ids(lb)
        assert every[:1] == earlier
        assert len(every) == 1 + 90
        for place, cursor in enumerate(cursors):
            assert ids(lb, cursor) == every[1 + 3 * place :]
            assert ids(lb, cursor, limit=1_000) == every[1 + 3 * place :]
    with boards(tmp_path, clock) as lb:
        assert ids(lb) == every
        assert ids(lb, cursors[4]) == every[13:]


def test_pages_count_what_follows_them_in_memory_and_in_the_file(tmp_path: Path) -> None:
    def check(lb: laurels.Leaderboards) -> None:
        whole = lb.changes("b", limit=10_000)
        sent = sum(not is_left_out(change) for change in whole)
        for limit in (1, 2, 4, 7):
            seen, after, more = 0, None, True
            while more:
                page = lb.changes("b", after=after, limit=limit)
                seen += sum(not is_left_out(change) for change in page)
                assert page.waiting == sent - seen
                after, more = page.cursor, page.more

    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        for i in range(24):
            lb.submit_many("b", [(f"m{i}", 1), (f"n{i}", 1), (f"m{i}", 1)][: 1 + i % 3])
            if i % 3 == 0:
                lb.submit_many("b", [], position=("sink:s", "x"))
            if i % 7 == 0:
                write_behind(lb)
            check(lb)
    with boards(tmp_path, clock) as lb:
        check(lb)
        lb.submit("b", "ann", 1)
        check(lb)


def test_few_blocks_stay_in_memory_once_they_are_written(tmp_path: Path) -> None:
    with boards(tmp_path, laurels.ManualClock(NOW_MS)) as lb:
        for i in range(40):
            lb.submit("b", f"m{i}", 1)
        write_behind(lb)
        (kept,) = local(lb)._changes._boards.values()
        assert len(kept.recent) == board_changes.TAIL
        assert len(ids(lb)) == 41


def test_a_write_is_due_when_memory_holds_many_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WRITE_BEHIND", 10 * (board_changes.BLOCK_COST + 1))
    with boards(tmp_path, laurels.ManualClock(NOW_MS)) as lb:
        changes = local(lb)._changes
        changes._due_at = log.WRITE_BEHIND
        assert not changes.is_due()
        for i in range(8):
            lb.submit("b", f"m{i}", 1)
        assert not changes.is_due()
        lb.submit("b", "last", 1)
        assert changes.is_due() or changes._writing.locked() or changes._boards[1].rows


def test_expired_changes_are_removed(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        first = lb.changes("b").cursor
        for i in range(10):
            lb.submit("b", f"m{i}", 1)
        clock.advance(HOUR + 1)
        lb.submit("b", "late", 1)
        assert len(ids(lb)) == 12, "expired changes stay until the commit thread removes them"
        write_behind(lb)
        (left,) = lb.changes("b")
        assert left.member == "late"
        with pytest.raises(ChangesExpired) as error:
            lb.changes("b", after=first)
        oldest = error.value.what.split()[-1]
        assert lb.changes("b", after=oldest)[0] == left
    with boards(tmp_path, clock) as lb:
        assert lb.changes("b")[0] == left
        with pytest.raises(ChangesExpired):
            lb.changes("b", after=first)


def test_at_most_changes_max_changes_are_kept(tmp_path: Path) -> None:
    with boards(tmp_path, laurels.ManualClock(NOW_MS), changes_max=10) as lb:
        for i in range(40):
            lb.submit("b", f"m{i}", 1)
        write_behind(lb)
        assert [change.member for change in lb.changes("b")] == [f"m{i}" for i in range(30, 40)]


def test_turning_changes_off_removes_them(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        write_behind(lb)
        lb.change("b", changes="")
        lb.submit("b", "bob", 1)
        lb.snapshot()
        lb.change("b", changes="1h")
        lb.submit("b", "cid", 1)
        assert [change.kind for change in lb.changes("b")] == ["change", "event"]


def test_changes_of_a_deleted_board_are_removed(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        lb.snapshot()
        cursor = lb.changes("b").cursor
        lb.delete("b")
        write_behind(lb)
        lb.create(laurels.Board("b", changes="1h"))
        assert [change.kind for change in lb.changes("b")] == ["create"]
        assert [change.kind for change in lb.changes("b", after=cursor)] == ["delete"]
        file = local(lb)._changes._file
        assert len(file.boards()) == 1
        clock.advance(HOUR)
        with pytest.raises(CursorDiverged):
            lb.changes("b", after=cursor)
        write_behind(lb)
        (number,) = file.boards()
        assert number == local(lb).named("b").number


def test_the_oldest_of_many_deleted_boards_is_removed_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted, "MAX_DELETED", 3)
    clock, cursors = laurels.ManualClock(NOW_MS), []
    with boards(tmp_path, clock) as lb:
        for _ in range(5):
            cursors.append(lb.changes("b").cursor)
            lb.delete("b")
            lb.create(laurels.Board("b", windows=["all", "day"], changes="1h"))
        uids = [cursor.partition("~")[0] for cursor in cursors]
        assert [each.uid for each in lb.deleted_boards()] == uids[2:]
    with boards(tmp_path, clock) as lb:
        assert [each.uid for each in lb.deleted_boards()] == uids[2:]
        for cursor in cursors[:2]:
            with pytest.raises(CursorDiverged):
                lb.changes("b", after=cursor)
        assert [change.kind for change in lb.changes("b", after=cursors[2])] == ["delete"]


def test_a_board_that_the_time_has_removed_is_removed_again_after_a_restart(
    tmp_path: Path,
) -> None:
    """When the `retain` of a board is over, its removal is not written to the log, so each opened
    store removes it anew. The change `delete` is already in the file, and is not written again."""
    clock = laurels.ManualClock(NOW_MS)
    definition = laurels.Board("r", ends=NOW_MS + HOUR, retain="1h", changes="5h")
    with boards(tmp_path, clock) as lb:
        lb.create(definition)
        lb.submit_many("r", [(f"m{i}", 1) for i in range(9)])
        clock.advance(2 * HOUR)
        (removed,) = lb.deleted_boards()
        before = ids_of(lb, removed.cursor)
        write_behind(lb)
    with boards(tmp_path, clock) as lb:
        assert ids_of(lb, removed.cursor) == before
        lb.snapshot()
    with boards(tmp_path, clock) as lb:
        assert ids_of(lb, removed.cursor) == before
    assert len(before) == 11


def ids_of(lb: laurels.Leaderboards, after: str) -> list[str]:
    """Return the ids of all changes of the board `r` after a cursor."""
    read: list[str] = []
    for page in lb.watch_changes("r", after=after, limit=3):
        read += [change.id for change in page]
    return read


def test_changes_before_a_lost_file_are_reported_as_expired(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        first = lb.changes("b", limit=1).cursor
        lb.snapshot()
        lb.submit("b", "bob", 1)
    for path in (tmp_path / "boards").glob("changes.db*"):
        path.unlink()
    with boards(tmp_path, clock) as lb:
        assert [change.member for change in lb.changes("b")] == ["bob"]
        with pytest.raises(ChangesExpired):
            lb.changes("b", after=first)


def test_a_cursor_from_a_lost_end_of_the_log_is_detected(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        lb.snapshot()
    for path in (tmp_path / "boards").glob("*"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
    with boards(tmp_path, clock) as lb:
        lb.submit_many("b", [("bob", 1), ("cid", 1)])
        lb.submit("b", "dan", 1)
        write_behind(lb)
        ahead = lb.changes("b", after="now").cursor
        beside = lb.changes("b", limit=3).cursor
    for path in (tmp_path / "boards").glob("*"):
        path.unlink()
    for path in (tmp_path / "copy").glob("*"):
        (tmp_path / "boards" / path.name).write_bytes(path.read_bytes())
    with boards(tmp_path, clock) as lb:
        with pytest.raises(CursorDiverged):
            lb.changes("b", after=ahead)
        lb.submit("b", "eve", 1)
        with pytest.raises(CursorDiverged):
            lb.changes("b", after=beside)


def test_a_full_disk_costs_no_change_and_makes_no_snapshot_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = laurels.ManualClock(NOW_MS)

    def full(*_: object, **__: object) -> None:
        raise StorageFailed("changes could not be written (the disk is full)")

    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        with monkeypatch.context() as patched:
            patched.setattr(ChangeFile, "write", full)
            with pytest.raises(StorageFailed):
                lb.snapshot()
            assert not list((tmp_path / "boards").glob("snapshot-*"))
            lb.submit("b", "bob", 1)
            before = ids(lb)
        lb.snapshot()
        assert ids(lb) == before
    with boards(tmp_path, clock) as lb:
        assert ids(lb) == before


def test_the_error_names_a_damaged_file(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with boards(tmp_path, clock) as lb:
        lb.submit("b", "ann", 1)
        lb.snapshot()
    path = tmp_path / "boards" / "changes.db"
    path.write_bytes(b"no database" * 500)
    with pytest.raises(LogDamaged, match=r"changes\.db"):
        boards(tmp_path, clock)


def test_a_sink_lagging_by_half_of_changes_max_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with boards(tmp_path, laurels.ManualClock(NOW_MS), changes_max=20) as lb:

        def warned(count: int) -> list[str]:
            caplog.clear()
            for _ in range(count):
                lb.submit("b", "ann", 1)
            write_behind(lb)
            return [record.getMessage() for record in caplog.records]

        assert warned(0) == []
        lb.submit_many("b", [], position=("sink:s", lb.changes("b", after="now").cursor))
        assert warned(9) == []
        assert warned(1) == [
            "b: a sink has not sent 10 changes yet; if there are more than 20 (changes_max), "
            "the oldest are removed unsent"
        ]
        assert warned(1) == []
        lb.submit_many("b", [], position=("sink:s", lb.changes("b", after="now").cursor))
        assert warned(1) == []
        assert len(warned(12)) == 1
        assert warned(30) == [
            "b: 23 changes exceeded changes_max and were removed before a sink had sent them"
        ]
