"""In every implementation, the changes of a board equal those that the oracle derives from the list
of all events."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import pytest

import laurels
from laurels.core.changes.answers import is_left_out
from laurels.core.changes.beginning import InitialCursor
from laurels.errors import (
    AllEventsRefused,
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    InvalidCursor,
    InvalidLimit,
)
from tests.changes import all_changes
from tests.conftest import Scaled
from tests.contract.change_history import DAY, DEFINITIONS, History, board_of
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.definitions import Definition, WindowDef


@pytest.mark.parametrize("name", DEFINITIONS)
def test_changes_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str, scaled: Scaled
) -> None:
    history = History(clock, DEFINITIONS[name], seed=len(name))
    lb.create(board_of(DEFINITIONS[name]))
    history.write(lb, scaled(30, 60))
    changes = history.compare(lb)
    ids = [change.id for change in all_changes(lb, "board", limit=1_000)]
    assert len(set(ids)) == len(ids)
    assert {change.board for change in changes} == {"board"}


def test_change_numbers_have_no_gap_and_ids_do_not_change(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    for i in range(20):
        lb.submit_many("board", [(f"m{(i + j) % 9}", 1) for j in range(3)])
    changes = list(all_changes(lb, "board", limit=4))
    assert [c.id for c in changes] == [c.id for c in all_changes(lb, "board", limit=9)]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        _, shard, sequence, _, number = change.id.split("/")
        places[shard].append((int(sequence), int(number)))
    for places_of in places.values():
        sequences = sorted({sequence for sequence, _ in places_of})
        assert sequences == list(range(1, len(sequences) + 1))
        assert places_of == sorted(places_of)
        for each in sequences:
            numbers = [number for own, number in places_of if own == each]
            assert numbers == list(range(len(numbers)))


def test_changes_continue_after_a_restart(lasting: Deployment, clock: laurels.ManualClock) -> None:
    definition = DEFINITIONS["scopes"]
    history = History(clock, definition, seed=5)
    lb = lasting.lb
    lb.create(board_of(definition))
    history.write(lb, 20)
    before = [change.id for change in all_changes(lb, "board")]
    cursor = lb.changes("board", limit=3).cursor
    lb = lasting.reopen()
    assert [change.id for change in all_changes(lb, "board")] == before
    assert [c.id for c in all_changes(lb, "board", after=cursor)] == before[3:]
    history.write(lb, 20)
    lb = lasting.reopen()
    history.compare(lb)
    assert [change.id for change in all_changes(lb, "board")][: len(before)] == before


def test_changes_continue_after_snapshots(
    exclusive: Deployment, clock: laurels.ManualClock
) -> None:
    history = History(clock, DEFINITIONS["sum"], seed=8)
    lb = exclusive.lb
    lb.create(board_of(DEFINITIONS["sum"]))
    for _ in range(4):
        history.write(lb, 15)
        ids = [change.id for change in all_changes(lb, "board")]
        lb.snapshot()
        history.write(lb, 5)
        lb = exclusive.reopen()
        history.compare(lb)
        assert [change.id for change in all_changes(lb, "board")][: len(ids)] == ids


def test_the_cursor_now_comes_before_later_changes(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    lb.submit("board", "ann", 1)
    page = lb.changes("board", after="now")
    assert list(page) == []
    assert not page.more
    lb.submit("board", "bob", 2, id="x")
    (change,) = lb.changes("board", after=page.cursor)
    assert (change.kind, change.member, change.delta, change.event_id) == ("event", "bob", 2, "x")


def test_a_board_without_changes_has_none(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("board"))
    with pytest.raises(ChangesNotKept):
        lb.changes("board")


def test_changes_begin_when_they_are_turned_on(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("board"))
    lb.submit("board", "ann", 1)
    lb.change("board", changes="1d")
    lb.submit("board", "ann", 2)
    kinds = [(change.kind, change.score) for change in all_changes(lb, "board")]
    assert kinds == [("change", None), ("event", 3)]


FORGED = InitialCursor("x", -99).encode()


@pytest.mark.parametrize(
    "cursor", ["", "x", "a~b", "a~1-2-", "a~1-zz-e", "initial.x", FORGED, "é", 7]
)
def test_an_invalid_cursor_is_refused(lb: laurels.Leaderboards, cursor: Any) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    with pytest.raises(InvalidCursor):
        lb.changes("board", after=cursor)


@pytest.mark.parametrize("limit", [0, -1, 10_001, "7", 1.5, None, True])
def test_limits_are_from_1_to_10000(lb: laurels.Leaderboards, limit: Any) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    with pytest.raises(InvalidLimit):
        lb.changes("board", limit=limit)


def test_a_cursor_made_before_changes_were_off_has_expired(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    lb.submit_many("board", [(f"m{i}", 1) for i in range(9)])
    begun, caught_up = lb.changes("board", limit=2).cursor, lb.changes("board").cursor
    lb.change("board", changes="")
    with pytest.raises(ChangesNotKept):
        lb.changes("board")
    lb.submit_many("board", [(f"m{i}", 1) for i in range(9)])
    lb.change("board", changes="1h")
    lb.submit("board", "m1", 1)
    for cursor in (begun, caught_up):
        with pytest.raises(ChangesExpired):
            lb.changes("board", after=cursor)
    kinds = [(change.kind, change.score) for change in all_changes(lb, "board")]
    assert kinds == [("change", None), ("event", 3)]


def test_a_position_adds_one_change_to_its_commit(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(Definition(windows=(WindowDef("all"),))))
    texts, before = [str(i) for i in range(1, 9)], None
    for text in texts:
        events = [(f"m{i}", 1) for i in range(int(text) % 4 * 3)]
        lb.submit_many("board", events, position=("source/s", text, before))
        lb.submit_many("board", events[:1], position=("import", text))
        before = text
    changes = list(all_changes(lb, "board", limit=7))
    for source in ("source/s", "import"):
        positions = [
            c.data["position"]
            for c in changes
            if c.kind == "position" and c.data["source"] == source
        ]
        assert positions == texts
    assert sum(change.kind == "event" for change in changes) == 2 * (3 + 6 + 9) + 6


def test_a_position_is_a_change_even_if_every_event_is_late(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(Definition(windows=(WindowDef("day"),))))
    with warnings.catch_warnings(action="ignore", category=AllEventsRefused):
        lb.submit_many("board", [("ann", 1, NOW_MS - 5 * DAY)], position=("file", "1"))
    (_, change) = all_changes(lb, "board")
    assert (change.kind, change.data) == ("position", {"source": "file", "position": "1"})


def test_a_cursor_of_another_board_has_diverged(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    lb.submit("board", "ann", 1)
    cursor = lb.changes("board").cursor
    lb.delete("board")
    lb.create(board_of(DEFINITIONS["sum"]))
    assert [change.kind for change in lb.changes("board", after=cursor)] == ["delete"]
    clock.advance(7 * DAY)
    with pytest.raises(CursorDiverged):
        lb.changes("board", after=cursor)
    ahead = lb.changes("board").cursor.replace("~1-", "~9-", 1)
    with pytest.raises(CursorDiverged):
        lb.changes("board", after=ahead)


def test_initial_changes_end_with_the_positions_of_sources(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("board", changes="1d", shards=1))
    assert [change.kind for change in lb.changes("board", initial=True)] == ["initial_end"]
    lb.submit_many("board", [("ann", 1), ("bob", 2)], position=("file", "7"))
    lb.submit_many("board", [], position=("a/b", "ü"))
    changes = list(all_changes(lb, "board", limit=5, initial=True))
    kinds = [change.kind for change in changes]
    assert kinds == ["initial", "initial", "position", "position", "initial_end"]
    assert [change.data for change in changes[2:4]] == [
        {"source": "a/b", "position": "ü"},
        {"source": "file", "position": "7"},
    ]
    assert len({change.id for change in changes}) == 5


def test_initial_changes_have_every_current_entry(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    definition = DEFINITIONS["scopes"]
    history = History(clock, definition, seed=11)
    lb.create(board_of(definition))
    history.write(lb, 60)
    changes = list(all_changes(lb, "board", limit=5, initial=True))
    assert [change.kind for change in changes].count("initial_end") == 1
    assert changes[-1].kind == "initial_end"
    entries = {
        (change.member, each.window, each.period, tuple((each.labels or {}).items())): each.score
        for change in changes[:-1]
        for each in change.rankings
    }
    wanted = {}
    for window in ("all", "day"):
        periods = [info.label or None for info in lb.periods("board", window=window)]
        for labels in ({}, *lb.scopes("board", "room")):
            for period in periods:
                page = lb.top("board", window=window, period=period, limit=100, labels=labels)
                for entry in page:
                    key = entry.member, window, period, tuple(labels.items())
                    wanted[key] = entry.score
    assert entries == wanted


def test_initial_changes_are_followed_by_concurrent_writes(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    lb.submit_many("board", [(f"m{i}", i) for i in range(10)])
    page = lb.changes("board", limit=4, initial=True)
    lb.submit("board", "m0", 100)
    totals: dict[str, Any] = {}
    while True:
        for change in page:
            for each in change.rankings:
                if each.window == "all":
                    totals[str(change.member)] = each.score
        if not page.more:
            break
        page = lb.changes("board", after=page.cursor, limit=4)
    assert totals == {entry.member: entry.score for entry in lb.top("board")}


def test_watching_returns_each_new_change(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    pages = lb.watch_changes("board", after="now")
    cursor = lb.changes("board", after="now").cursor
    lb.submit("board", "ann", 1)
    pages = lb.watch_changes("board", after=cursor)
    assert [change.member for change in next(pages)] == ["ann"]
    lb.submit("board", "bob", 1)
    assert [change.member for change in next(pages)] == ["bob"]


def test_at_most_changes_max_changes_are_kept(
    lb: laurels.Leaderboards, implementation: Implementation
) -> None:
    if implementation.name not in ("redis", "cluster"):
        pytest.skip("a folder removes many changes at a time, see tests/unit/test_change_log.py")
    lb.create(board_of(DEFINITIONS["sum"], changes_max=30))
    cursor = lb.changes("board").cursor
    for i in range(80):
        lb.submit("board", f"m{i}", 1)
    kept = list(all_changes(lb, "board"))
    assert 29 <= len(kept) <= 31
    with pytest.raises(ChangesExpired) as expired:
        lb.changes("board", after=cursor)
    oldest = expired.value.what.split()[-1]
    assert lb.changes("board", after=oldest)[0] == kept[0]


def test_a_change_has_the_time_of_its_event(lb: laurels.Leaderboards) -> None:
    lb.create(board_of(DEFINITIONS["sum"]))
    lb.submit("board", "ann", 1, at=NOW_MS - 5)
    (_, change) = all_changes(lb, "board")
    assert change.at_ms == NOW_MS - 5


def test_the_score_of_a_change_is_that_of_the_first_window_all(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("board", windows=["day", "ever=all"], changes="7d"))
    lb.submit("board", "ann", 5)
    lb.change("board", windows=["day", "ever=all", "since=all"])
    lb.submit("board", "ann", 2)
    events = [change for change in all_changes(lb, "board") if change.kind == "event"]
    assert [change.score for change in events] == [5, 7]
    assert [[each.window for each in change.rankings] for change in events] == [
        ["day", "ever"],
        ["day", "ever", "since"],
    ]


def test_a_cursor_with_an_unknown_tag_has_diverged(lb: laurels.Leaderboards) -> None:
    """The store raises CursorDiverged for a cursor with an unknown tag, whatever position the
    cursor has. Such cursors exist after a store has lost its newest changes and has then recorded
    other ones."""
    lb.create(board_of(DEFINITIONS["sum"]))
    for i in range(3):
        lb.submit_many("board", [("ann", i), ("bob", i)])
    cursors = [lb.changes("board", limit=limit).cursor for limit in range(1, 8)]
    for cursor in cursors:
        uid, *places = cursor.split("~")
        for shard, place in enumerate(places):
            sequence, tag, number = place.split("-")
            if sequence == "0":
                continue
            other = f"{sequence}-{int(tag, 16) ^ 1:x}-{number}"
            changed = "~".join([uid, *places[:shard], other, *places[shard + 1 :]])
            with pytest.raises(CursorDiverged):
                lb.changes("board", after=changed)
        lb.changes("board", after=cursor)


def named(lb: laurels.Leaderboards, cursor: str, board: str) -> tuple[set[str], str]:
    """Read names of changed boards until `board` is among them. Return all names that were read,
    and the cursor after the last one."""
    names: set[str] = set()
    while board not in names:
        changed = lb.changed_boards(cursor)
        assert changed.boards is not None
        names, cursor = names | set(changed.boards), changed.cursor
    return names, cursor


def test_changed_boards_names_the_boards_with_new_changes(lb: laurels.Leaderboards) -> None:
    begun = lb.changed_boards()
    assert begun.boards is None
    lb.create(laurels.Board("plain"))
    for name in ("a", "b", "c"):
        lb.create(laurels.Board(name, changes="1h"))
    _, cursor = named(lb, begun.cursor, "c")
    assert lb.changed_boards(cursor).boards == []
    for name in ("a", "plain", "b"):
        lb.submit(name, "ann", 1)
    lb.delete("a")
    lb.set_data("c", "ann", 1)
    names, cursor = named(lb, cursor, "c")
    assert {"b", "c"} <= names <= {"a", "b", "c"}
    assert lb.changed_boards(cursor).boards == []
    assert lb.changed_boards("9" * 15).boards is None
    for text in ("", "x", "-1", "1.5"):
        with pytest.raises(InvalidCursor):
            lb.changed_boards(text)


def test_a_cursor_of_changed_boards_misses_nothing_over_a_restart(lasting: Deployment) -> None:
    lasting.lb.create(laurels.Board("b", changes="1h"))
    lasting.lb.create(laurels.Board("c", changes="1h"))
    cursor = lasting.lb.changed_boards().cursor
    lasting.lb.submit("b", "ann", 1)
    lb = lasting.reopen()
    lb.submit("c", "ann", 1)
    changed, missing = lb.changed_boards(cursor), {"b", "c"}
    while changed.boards is not None and missing:
        missing -= {*changed.boards}
        changed = lb.changed_boards(changed.cursor)


def test_a_page_counts_the_waiting_changes_exactly(lb: laurels.Leaderboards) -> None:
    """The number of waiting changes is exact even if a page ends within a batch. It does not count
    the changes that record positions of sinks."""
    lb.create(laurels.Board("b", changes="1h"))
    for i in range(9):
        lb.submit_many("b", [(f"m{j % 7}", 1) for j in range(1 + 3 * (i % 4))])
        end = lb.changes("b", after="now").cursor
        lb.submit_many("b", [], position=(("sink:s", "source/s")[i % 2], end))
    lb.submit_many("b", [("ann", 1)], position=("sink:t", "x"))
    assert lb.changes("b", after="now").waiting == 0
    whole = lb.changes("b", limit=10_000)
    sent = sum(not is_left_out(change) for change in whole)
    assert (len(whole), whole.waiting) == (sent + 6, 0)
    for limit in (1, 2, 3, 5, 60):
        seen, after, more = 0, None, True
        while more:
            page = lb.changes("b", after=after, limit=limit)
            seen += sum(not is_left_out(change) for change in page)
            assert page.waiting == sent - seen
            after, more = page.cursor, page.more
        assert seen == sent
    assert lb.changes("b", initial=True).waiting == 0
