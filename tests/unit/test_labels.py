"""The labels of an event determine its scopes, and different scopes have different texts."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import laurels
from laurels.core import record
from laurels.core.event_columns import events_of, logged_batch
from laurels.errors import (
    AllEventsRefused,
    InvalidLabel,
    LaurelsError,
    NoScope,
    UnknownLabel,
    UnknownScope,
)
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board
from laurels.model.event import EventReader
from laurels.model.labels import (
    Labels,
    Values,
    concatenate,
    form_of,
    label_names,
    label_pairs,
    label_values,
    labels_of,
    scope_named,
)
from laurels.model.rules import RankingSpec

NAMES = ("room", "team", "zone")
BOARD = Board(
    "b", scopes=[[], ["room"], ["zone"], ["zone", "room"], NAMES], rank_by=["room", "team"]
)
RULES = BOARD.rules()
READER = EventReader(RULES)
short = st.text(alphabet="a=,%:{}@ 2C0éroomzone", min_size=1, max_size=6)
anything = st.text(min_size=1, max_size=30).filter(lambda text: len(text.encode()) <= 128)
values = short | anything
carried = st.dictionaries(st.sampled_from(NAMES), values)
scoped = st.sampled_from(RULES.scopes).flatmap(
    lambda names: st.fixed_dictionaries(dict.fromkeys(names, values))
)


def gathered(*events: dict[str, str] | None) -> Labels:
    """Return the labels of a batch that has one event for each argument, with the argument as its
    labels."""
    columns = READER.gather([("ann", 1, None, None, labels) for labels in events])
    assert not columns.errors
    assert columns.labels is not None
    return columns.labels


@given(scoped, scoped)
def test_no_two_scopes_have_the_same_text(one: dict[str, str], other: dict[str, str]) -> None:
    same = scope_named(RULES, one) == scope_named(RULES, other)
    assert same == (one == other)


@given(scoped)
def test_labels_are_decoded_from_the_text_of_a_scope(labels: dict[str, str]) -> None:
    text = scope_named(RULES, labels)
    assert labels_of(text) == labels
    assert form_of(text) == ",".join(sorted(labels))
    assert not text.startswith("@")
    assert not any(sign <= " " for sign in text)


def test_the_text_of_a_scope_is_escaped_and_sorted() -> None:
    assert scope_named(RULES, {}) == ""
    assert scope_named(RULES, {"zone": "cn", "room": "42"}) == "room=42,zone=cn"
    assert scope_named(RULES, {"room": "a,b=50% @é"}) == "room=a%2Cb%3D50%25%20%40é"
    assert scope_named(RULES, {}, "room") == "@room"
    assert (labels_of("@room"), form_of("@room")) == ({}, "@room")


@given(st.lists(carried | st.none(), min_size=1, max_size=8).filter(any))
def test_every_event_has_the_labels_it_came_with(events: list[dict[str, str] | None]) -> None:
    labels = gathered(*events)
    assert [labels.of(i) for i in range(len(events))] == [each or {} for each in events]
    assert len(set(labels.groups)) == len(labels.groups)
    kept = range(0, len(events), 2)
    taken = labels.take(kept)
    assert [taken.of(i) for i in range(len(kept))] == [events[i] or {} for i in kept]
    rest = labels.span(1, len(events))
    assert [rest.of(i) for i in range(len(rest.each))] == [each or {} for each in events[1:]]
    for part in (taken, rest):
        assert sorted(set(part.each)) == list(range(len(part.groups)))


@given(carried)
def test_an_event_and_a_query_name_the_same_scopes(labels: dict[str, str]) -> None:
    batch_labels = gathered(labels, {"room": "other"})
    for names in RULES.scopes:
        own = {name: labels[name] for name in names if name in labels}
        expected = scope_named(RULES, own) if len(own) == len(names) else None
        assert batch_labels.scopes(RankingSpec("all", names))[batch_labels.each[0]] == expected
    for by in RULES.rank_by:
        scope = batch_labels.scopes(RankingSpec("all", (), by))[batch_labels.each[0]]
        assert scope == (f"@{by}" if by in labels else None)
        assert batch_labels.values(by)[batch_labels.each[0]] == labels.get(by)


@given(st.lists(st.lists(carried, max_size=3), min_size=1, max_size=4))
def test_concatenated_batches_keep_their_labels(batches: list[list[dict[str, str]]]) -> None:
    each = [(gathered(*events) if any(events) else None, len(events)) for events in batches]
    whole = concatenate(each)
    events = [labels for events in batches for labels in events]
    if whole is None:
        assert not any(events)
        return
    assert [whole.of(i) for i in range(len(events))] == events


def test_batches_with_different_label_names_concatenate() -> None:
    old = Labels(("room",), (("1",), (None,)), array("q", [0, 1]))
    new = Labels(("room", "zone"), (("1", "n"), (None, "1")), array("q", [1, 0]))
    whole = concatenate([(old, 2), (None, 1), (new, 2)])
    assert whole is not None
    joined = [whole.of(i) for i in range(5)]
    assert joined == [{"room": "1"}, {}, {}, {"zone": "1"}, {"room": "1", "zone": "n"}]


def test_events_of_an_older_definition_have_no_value_for_a_new_label() -> None:
    old = Labels(("room",), (("1",),), array("q", [0]))
    assert old.scopes(RankingSpec("all", ("zone",))) == {0: None}
    assert old.scopes(RankingSpec("all", (), "zone")) == {0: None}
    assert old.values("zone") == [None]


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ({"room": ""}, InvalidLabel),
        ({"room": "x" * 129}, InvalidLabel),
        ({"room": "\ud800"}, InvalidLabel),
        ({"room": 1}, InvalidLabel),
        ([("room", "1")], InvalidLabel),
        ("room", InvalidLabel),
        ({"nope": "1"}, UnknownLabel),
        ({"nope": None}, UnknownLabel),
        ({("room",): "1"}, UnknownLabel),
    ],
)
def test_invalid_labels_are_refused(labels: Any, error: type[LaurelsError]) -> None:
    with pytest.raises(error):
        label_values(NAMES, labels)
    columns = READER.gather([("ann", 1, None, None, labels)])
    assert [type(refused) for _, refused in columns.errors] == [error]


def test_a_label_with_the_value_none_counts_as_missing() -> None:
    nothing: Values = (None, None, None)
    assert label_values(NAMES, None) == label_values(NAMES, {}) == nothing
    assert label_values(NAMES, {"team": None}) == nothing
    assert label_pairs(None) == label_pairs({}) == ()
    assert label_pairs({"team": "x", "room": "1"}) == (("room", "1"), ("team", "x"))
    invalid: list[object] = [[], "room", {1: "x"}, {"room": 1}]
    for wrong in invalid:
        with pytest.raises(InvalidLabel):
            label_pairs(wrong)


def test_an_event_without_a_scope_is_refused_naming_the_scopes() -> None:
    reader = EventReader(Board("b", scopes=[["zone", "room"]], rank_by="team").rules())
    columns = reader.gather([("ann", 1, None, None, {"zone": "n"}), ("bob", 1), ["cid", 1]])
    assert [place for place, _ in columns.errors] == [0, 1, 2]
    assert all(isinstance(error, NoScope) for _, error in columns.errors)
    assert str(columns.errors[0][1]).startswith(
        "expected the labels (room, zone) or (team), got zone"
    )
    assert not reader.gather([("ann", 1, None, None, {"team": "x"})]).errors


def test_labels_can_be_given_in_any_order() -> None:
    assert label_names(RULES, ["zone", "room"]) == ("room", "zone")
    assert label_names(RULES, []) == ()
    for unknown in (["team"], "room", ["room", "room"], None, 7, b"room"):
        with pytest.raises(UnknownScope, match=r"expected a scope of the board \(all, "):
            label_names(RULES, unknown)


def batch(labels: Labels | None, size: int) -> Batch:
    gathered_batch = batch_of(READER.gather([("ann", i) for i in range(size)]), 1, 1_000)
    assert gathered_batch.labels is None
    return replace(gathered_batch, labels=labels)


@given(st.lists(carried, min_size=1, max_size=300).filter(any))
def test_labels_round_trip_through_the_log(events: list[dict[str, str]]) -> None:
    labels = gathered(*events)
    written = events_of(batch(labels, len(events)), 1)
    (decoded,) = record.decode(record.encode([record.encode_one(written)]))
    assert isinstance(decoded, record.Events)
    assert logged_batch(decoded).labels == labels


def test_a_record_without_labels_is_read_as_before() -> None:
    whole = events_of(batch(None, 2), 1)
    coded = record.encode_one(whole)
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(coded)[:-1])
    body = record.encode([msgspec.Raw(old)])
    (decoded,) = record.decode(body)
    assert decoded == whole


@pytest.mark.parametrize("labels", [{"nope": "\ud800"}, {"nope": b"x"}, {"nope": {}}])
def test_labels_that_json_cannot_represent_are_invalid_before_they_are_unknown(labels: Any) -> None:
    """The reason is the same for a single event and for an event of a batch, on every store."""
    with laurels.open("memory:") as lb:
        lb.create(Board("b", scopes=[["team"]]))
        with pytest.raises(InvalidLabel):
            lb.submit("b", "ann", 1, labels=labels)
        with pytest.warns(AllEventsRefused):
            (receipt,) = lb.submit_many("b", [("ann", 1, None, None, labels)])
        assert receipt.reason == "invalid_label"
