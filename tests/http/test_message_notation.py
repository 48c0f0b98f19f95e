"""The messages of a service quote values as JSON, because its callers send JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest

import laurels
from laurels.model.validation import quoted, safe_repr
from laurels.server.requests.bodies import SMALL
from laurels.wire.notation import MAX_ESCAPED, json_notation
from laurels.wire.requests import MAX_MESSAGE
from tests.serving import JSON, Served

BOARD = {"columns": [{"name": "gold", "max": 9}], "scopes": [[], ["room"]]}
EVENTS = "/v1/boards/gifts/scores"


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with Served("memory:") as server, httpx.Client(base_url=server.url, headers=JSON) as client:
        client.put("/v1/boards/gifts", json=BOARD)
        yield client


def what(answer: httpx.Response) -> str:
    assert answer.is_client_error, answer.text
    return str(answer.json()["what"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "got null"),
        (True, "got true"),
        ("x", 'decimal number for "gold", got "x"'),
        ("it's", """got "it's\""""),
        ([1, None], "got null"),
        (0.5, 'decimal places for "gold", got 0.5'),
        (10, 'a total of "ann" in one of'),
    ],
    ids=str,
)
def test_a_score_is_written_as_it_was_sent(http: httpx.Client, value: Any, expected: str) -> None:
    event = {"member": "ann", "value": value}
    assert expected in what(http.post(EVENTS, json=event))
    (receipt,) = http.post(EVENTS, json=[event]).json()["receipts"]
    assert expected in receipt["message"]


@pytest.mark.parametrize(
    ("field", "sent", "expected"),
    [
        ("member", None, "got null"),
        ("id", False, "got false"),
        ("at", "soon", 'got "soon"'),
        ("labels", {"room": True}, "got true"),
    ],
)
def test_the_parts_of_an_event_are_written_as_they_were_sent(
    http: httpx.Client, field: str, sent: Any, expected: str
) -> None:
    event = {"member": "ann", "value": 1, field: sent}
    assert expected in what(http.post(EVENTS, json=event))


def test_a_large_body_is_refused_in_the_same_words(http: httpx.Client) -> None:
    event = {"member": "ann", "value": None, "id": "i" * 100}
    small = http.post(EVENTS, json=[event]).json()["receipts"]
    large = http.post(EVENTS, json=[event] * (SMALL // 50)).json()["receipts"]
    assert {receipt["message"] for receipt in large} == {small[0]["message"]}
    padded = json.dumps(True) + " " * (2 * SMALL)
    assert "got true" in what(http.post(EVENTS, content=padded))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit=true", 'for limit, got "true"'),
        ("limit=x", 'for limit, got "x"'),
        ("limit=-1", "for limit, got -1"),
        ("offset=null", 'for offset, got "null"'),
        ("after=it's", """got "it's\""""),
        ("window=year", '(all), got "year"'),
    ],
)
def test_the_value_of_a_parameter_is_text(http: httpx.Client, query: str, expected: str) -> None:
    assert expected in what(http.get(f"/v1/boards/gifts/top?{query}"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"keep": True}, "for keep, got true"),
        ({"title": None}, "for title, got null"),
        ({"tie": "random"}, 'for tie, got "random"'),
        ({"scopes": [["a", "b"], "c"]}, 'as a scope, got "c"'),
    ],
    ids=str,
)
def test_the_fields_of_a_definition_are_written_as_json(
    http: httpx.Client, fields: dict[str, Any], expected: str
) -> None:
    assert expected in what(http.put("/v1/boards/new", json=fields))


def test_names_are_in_double_quotes(http: httpx.Client) -> None:
    assert what(http.get("/v1/boards/none/top")) == 'there is no board "none"'
    taken = what(http.put("/v1/boards/gifts?on_exists=refuse", json={}))
    assert taken.startswith('there is a board "gifts" already')
    assert what(http.get("/v1/nothing")) == 'there is no path "/v1/nothing"'


@pytest.mark.usefixtures("http")
def test_python_keeps_its_own_notation() -> None:
    with laurels.open("memory:") as lb:
        lb.create(laurels.Board("gifts"))
        with pytest.raises(laurels.errors.InvalidValue, match="got None"):
            lb.submit("gifts", "ann", None)  # type: ignore[arg-type]
        with pytest.raises(laurels.errors.UnknownBoard, match="there is no board 'none'"):
            lb.top("none")
    assert (safe_repr(True), quoted("a")) == ("True", "'a'")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("0.125"), "0.125"),
        ("a\x9b\u202e\n", '"a\\u009b\\u202e\\n"'),
        ("\ud800", '"\\ud800"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        ({"é": (1, None)}, '{"é":[1,null]}'),
        (float("nan"), "nan"),
        (b"\x00", "b'\\x00'"),
        (1 + 2j, "(1+2j)"),
    ],
    ids=ascii,
)
def test_values_are_written_in_the_notation_of_json(value: object, expected: str) -> None:
    assert json_notation(value) == expected


def test_only_the_beginning_of_a_long_text_is_escaped() -> None:
    written = json_notation({"\u2028" * 1_000_000: 1})
    assert written.startswith('{"' + "\\u2028" * 900)
    assert len(written) < 6 * MAX_ESCAPED + 10


def test_a_field_with_a_long_name_is_not_repeated_as_a_whole(http: httpx.Client) -> None:
    sent = {"rankings": [{"w" * 1_000_000: "all"}]}
    answer = http.post("/v1/boards/gifts/mend", json=sent)
    assert answer.json()["code"] == "invalid_body"
    assert len(answer.text) < 10 * MAX_MESSAGE
