"""Queries within scopes, and the lists of scopes."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import LaurelsError
from tests.contract.reading import members
from tests.contract.scoped import anything, code_of


@pytest.mark.parametrize(
    "where",
    [
        {"labels": {"zone": "n"}},
        {"labels": {"nope": "1"}},
        {"labels": {"room": "1", "zone": "n", "nope": "1"}},
        {"labels": {"no name": "1"}},
        {"labels": {"": "1"}},
        {"by": "zone"},
        {"by": "nope"},
        {"by": "room", "labels": {"room": "1"}},
        {"by": 7},
    ],
)
def test_an_undefined_scope_is_unknown(rooms: laurels.Leaderboards, where: dict[str, Any]) -> None:
    rooms.submit("b", "ann", 1, labels={"room": "1", "zone": "n"})
    for query in (
        lambda: rooms.top("b", **where),
        lambda: rooms.around("b", "ann", **where),
        lambda: rooms.standing("b", "ann", **where),
        lambda: rooms.card("b", "ann", **where),
        lambda: rooms.standings("b", ["ann"], **where),
        lambda: rooms.range("b", **where),
        lambda: rooms.at_rank("b", 1, **where),
        lambda: rooms.score_at_percentile("b", 50, **where),
        lambda: rooms.count("b", **where),
        lambda: rooms.periods("b", "day", **where),
        lambda: list(rooms.export("b", **where)),
    ):
        with pytest.raises(LaurelsError) as refused:
            query()
        assert code_of(refused) == "unknown_scope"


@pytest.mark.parametrize("value", ["", 42, None, "\ud800", "x" * 129])
def test_a_query_with_an_invalid_label_value_is_refused(
    rooms: laurels.Leaderboards, value: object
) -> None:
    with pytest.raises(LaurelsError) as refused:
        rooms.top("b", labels={"room": anything(value)})
    assert code_of(refused) == "invalid_label"


@pytest.mark.parametrize("labels", ["room=1", ["room"], {1: "1"}, {"room": "1", None: "2"}, 7])
def test_labels_of_a_query_must_be_a_mapping(rooms: laurels.Leaderboards, labels: object) -> None:
    with pytest.raises(LaurelsError) as refused:
        rooms.top("b", labels=anything(labels))
    assert code_of(refused) == "invalid_label"


OPTIONS = ("limit", "window", "labels", "by", "after", "member", "board", "self", "value", "at")


def test_a_label_may_have_any_name(lb: laurels.Leaderboards) -> None:
    """A label may have the name of a query's option, of an event's field, or of a parameter over
    HTTP."""
    lb.create(laurels.Board("b", scopes=[[], *[[name] for name in OPTIONS[:7]]], rank_by="limit"))
    lb.create(laurels.Board("c", scopes=[[name] for name in OPTIONS[7:]]))
    for name in OPTIONS:
        board = "b" if name in OPTIONS[:7] else "c"
        lb.submit(board, "ann", 1, labels={name: "5"}, scope=[name])
        assert members(lb.top(board, labels={name: "5"}, limit=1)) == ["ann"]
        assert lb.rank(board, "ann", labels={name: "5"}) == 1
        assert lb.count(board, labels={name: "6"}) == 0
        assert lb.scopes(board, name, after={name: "4"}) == [{name: "5"}]
    assert members(lb.top("b", by="limit")) == ["5"]


def test_an_unknown_option_is_not_read_as_a_label(rooms: laurels.Leaderboards) -> None:
    verb: Any = rooms.top
    for option in ({"room": "1"}, {"limt": 3}):
        with pytest.raises(TypeError):
            verb("b", **option)
    verb = rooms.export
    with pytest.raises(TypeError):
        verb("b", room="1")


def test_a_board_without_the_scope_of_all_events_has_no_ranking_of_all_events(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", scopes=[["room"]]))
    lb.submit("b", "ann", 1, labels={"room": "1"})
    with pytest.raises(LaurelsError) as refused:
        lb.top("b")
    assert code_of(refused) == "unknown_scope"


def test_a_cursor_is_valid_for_its_scope_only(rooms: laurels.Leaderboards) -> None:
    for i in range(4):
        rooms.submit("b", f"m{i}", i, labels={"room": str(i % 2), "zone": "n"})
    of_room = rooms.top("b", labels={"room": "1"}, limit=1).next
    assert of_room is not None
    assert members(rooms.top("b", labels={"room": "1"}, after=of_room)) == ["m1"]
    for labels in ({"room": "0"}, {}, {"room": "1", "zone": "n"}):
        with pytest.raises(LaurelsError) as refused:
            rooms.top("b", after=of_room, labels=labels)
        assert code_of(refused) == "invalid_cursor"
    with pytest.raises(LaurelsError) as refused:
        rooms.top("b", after=of_room, by="room")
    assert code_of(refused) == "invalid_cursor"
    of_rooms = rooms.top("b", by="room", limit=1).next
    assert of_rooms is not None
    assert members(rooms.top("b", by="room", after=of_rooms)) == ["0"]
    with pytest.raises(LaurelsError) as refused:
        rooms.top("b", after=of_rooms)
    assert code_of(refused) == "invalid_cursor"


def test_every_query_is_answered_within_a_scope(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "zoe", 100, labels={"room": "2"})
    for i in range(5):
        rooms.submit("b", f"m{i}", i, labels={"room": "1"})
    rooms.set_data("b", "m4", {"name": "Four"})
    assert members(rooms.around("b", "m2", radius=1, labels={"room": "1"})) == ["m3", "m2", "m1"]
    assert rooms.around("b", "zoe", labels={"room": "1"}) is None
    card = rooms.card("b", "m4", to_rank=1, with_data=True, labels={"room": "1"})
    assert [(s.rank, s.total, s.data) for s in card.values() if s] == 2 * [(1, 5, {"name": "Four"})]
    assert members(rooms.standings("b", ["m1", "zoe", "m3"], labels={"room": "1"})) == ["m3", "m1"]
    assert members(rooms.range("b", low=1, high=2, labels={"room": "1"})) == ["m2", "m1"]
    top = rooms.at_rank("b", 1, labels={"room": "1"})
    assert top is not None
    assert (top.member, top.as_of.labels) == ("m4", {"room": "1"})
    assert rooms.score_at_percentile("b", 100, labels={"room": "1"}) == 4
    assert rooms.count("b", low=3, labels={"room": "1"}) == 2
    assert [period.total for period in rooms.periods("b", "day", labels={"room": "1"})] == [5, 0]
    assert [e.member for e in rooms.export("b", labels={"room": "1"})] == [
        "m4",
        "m3",
        "m2",
        "m1",
        "m0",
    ]
    assert rooms.top("b").as_of.labels == {}


def test_scopes_are_listed_page_by_page(rooms: laurels.Leaderboards) -> None:
    for i in range(7):
        rooms.submit("b", "ann", 1, labels={"room": str(i), "zone": str(i % 2)})
    pages = [rooms.scopes("b", "room", limit=3)]
    while pages[-1]:
        pages.append(rooms.scopes("b", "room", after=pages[-1][-1], limit=3))
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [scope["room"] for page in pages for scope in page] == list("0123456")
    assert rooms.scopes("b", "room", after={"room": "35"}, limit=1) == [{"room": "4"}]
    both = rooms.scopes("b", "zone", "room", limit=2)
    assert both == rooms.scopes("b", "room", "zone", limit=2)
    assert both == [{"room": "0", "zone": "0"}, {"room": "1", "zone": "1"}]
    assert rooms.scopes("b", "room", limit=0) == []


def test_invalid_lists_of_scopes_are_refused(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "ann", 1, labels={"room": "1", "zone": "n"})
    for labels, more, code in [
        (["zone"], {}, "unknown_scope"),
        (["nope"], {}, "unknown_scope"),
        (["room"], {"limit": -1}, "invalid_limit"),
        (["room"], {"limit": 10_001}, "invalid_limit"),
        (["room"], {"after": {"zone": "n"}}, "unknown_scope"),
        (["room"], {"after": {"zone": "n", "room": "1"}}, "unknown_scope"),
        (["room"], {"after": {}}, "unknown_scope"),
        (["room"], {"after": "1"}, "unknown_scope"),
        (["room"], {"after": 1}, "unknown_scope"),
        (["room"], {"after": {"room": 1}}, "invalid_label"),
    ]:
        with pytest.raises(LaurelsError) as refused:
            rooms.scopes("b", *labels, **anything(more))
        assert code_of(refused) == code
