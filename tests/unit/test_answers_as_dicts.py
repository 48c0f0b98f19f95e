"""Every kind of answer can be converted to plain values. They are exact and complete, and FastAPI
can encode them."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.testclient import TestClient

import laurels
from laurels.model.answer import Answer, Plain

CLOCK = laurels.ManualClock(1_795_186_800_000)
LARGEST = "9007199254740.991"


@pytest.fixture(scope="module")
def lb() -> Any:
    with laurels.open("memory:", clock=CLOCK) as lb:
        columns = [laurels.Column("points", scale=3, max="9007199254740.991")]
        lb.create(laurels.Board("b", columns=columns, windows=["all", "day", "hot=decay:6h"]))
        lb.create(laurels.Board("empty"))
        lb.submit_many("b", [("ann", LARGEST), ("ben", "1.50"), ("cat", 2), ("dan", "x")])
        lb.set_data("b", "ben", {"name": "Ben", "age": 7})
        yield lb


ANSWERS: dict[str, Any] = {
    "page": lambda lb: lb.top("b", with_data=True),
    "decayed": lambda lb: lb.top("b", window="hot"),
    "empty page": lambda lb: lb.top("empty"),
    "entry": lambda lb: lb.top("b")[0],
    "as_of": lambda lb: lb.top("b").as_of,
    "standing": lambda lb: lb.standing("b", "ben", to_rank=1, with_data=True),
    "neighbour": lambda lb: lb.standing("b", "ben").above,
    "gap": lambda lb: lb.standing("b", "ben", to_rank=1).to_rank,
    "friends": lambda lb: lb.standings("b", ["ben", "cat"]),
    "receipt": lambda lb: lb.submit("b", "dan", 1),
    "receipts": lambda lb: lb.submit_many("b", [("eve", "0.125"), ("eve", 0.5)], ranks=True),
    "share": lambda lb: lb.submit_many("b", [("eve", "0.125"), ("fay", 1)]).share(1, 1),
    "period": lambda lb: lb.periods("b", "day")[0],
    "board": lambda lb: lb.get("b"),
    "column": lambda lb: lb.get("b").columns[0],
    "stats": lambda lb: lb.stats(),
    "board stats": lambda lb: lb.stats("b"),
    "report": lambda lb: lb.check(),
}


@pytest.fixture(params=ANSWERS)
def answer(request: pytest.FixtureRequest, lb: laurels.Leaderboards) -> Any:
    return ANSWERS[request.param](lb)


def kinds(value: object) -> set[type]:
    """Return the types of all values in a tree of dicts and lists."""
    if isinstance(value, dict):
        return {type(value)}.union(*map(kinds, value.values()))
    if isinstance(value, list):
        return {type(value)}.union(*map(kinds, value))
    return {type(value)}


def test_an_answer_as_dict_contains_only_json_types(answer: Any) -> None:
    converted = answer.to_dict()
    assert kinds(converted) <= {dict, list, str, int, float, bool, type(None)}
    assert json.loads(json.dumps(converted)) == converted
    assert dict(answer) == converted or set(converted) < set(dict(answer))
    assert [answer[name] for name in converted] == list(converted.values())
    with pytest.raises(KeyError):
        answer["nothing"]


def test_to_dict_equals_the_json_the_service_sends(answer: Any) -> None:
    if isinstance(answer, Answer) and not isinstance(answer, laurels.Board):
        assert answer.to_dict() == msgspec.json.decode(msgspec.json.encode(answer))


def test_fastapi_encodes_an_answer_as_to_dict_does(answer: Any) -> None:
    assert jsonable_encoder(answer) == answer.to_dict()


@pytest.mark.parametrize("annotated", [True, False, Any])
def test_a_handler_returns_any_answer(answer: Any, annotated: Any) -> None:
    app = FastAPI()

    def handler():  # type: ignore[no-untyped-def] # as programs without types have it
        return answer

    if annotated:
        handler.__annotations__["return"] = Any if annotated is Any else type(answer)
    app.get("/")(handler)
    client = TestClient(app)
    sent = client.get("/")
    assert (sent.status_code, sent.json()) == (200, answer.to_dict())
    described = client.get("/openapi.json").json()["paths"]["/"]["get"]["responses"]["200"]
    if annotated is True:
        schema = described["content"]["application/json"]["schema"]
        assert "$defs" not in str(schema)


def test_answers_within_other_values_are_returned(lb: laurels.Leaderboards) -> None:
    app = FastAPI()
    answers = {"page": lb.top("b"), "card": lb.card("b", "ben"), "periods": lb.periods("b", "day")}

    @app.get("/any")
    def anything() -> dict[str, Any]:
        return answers

    @app.get("/maybe")
    def maybe() -> laurels.Standing | None:
        return lb.standing("b", "nobody")

    client = TestClient(app)
    assert client.get("/any").json() == jsonable_encoder(answers)
    assert client.get("/any").json()["page"] == lb.top("b").to_dict()
    assert client.get("/maybe").json() is None


def test_every_public_record_is_plain() -> None:
    records = [
        getattr(laurels, name)
        for name in laurels.__all__
        if isinstance(getattr(laurels, name), type)
        and issubclass(getattr(laurels, name), msgspec.Struct)
    ]
    assert [record.__name__ for record in records if not issubclass(record, Plain)] == ["Event"]


def test_decimals_are_exact(lb: laurels.Leaderboards) -> None:
    first = lb.top("b")[0]
    assert first.score == Decimal(LARGEST)
    assert first.to_dict()["score"] == LARGEST
    assert lb.standing("b", "ben").to_dict()["score"] == "1.500"  # type: ignore[union-attr]
    assert float(LARGEST) != Decimal(LARGEST)


def test_a_board_round_trips_through_its_dictionary(lb: laurels.Leaderboards) -> None:
    assert laurels.Board.from_json(lb.get("b").to_dict()) == lb.get("b")


def test_a_page_is_a_sequence_of_its_entries(lb: laurels.Leaderboards) -> None:
    page = lb.top("b", limit=2)
    assert len(page) == 2
    assert list(page) == page.entries
    assert (page[0], page[-1], page[:1]) == (page.entries[0], page.entries[1], page.entries[:1])
    assert page.entries[1] in page
    with pytest.raises(IndexError):
        page[2]
    assert not lb.top("empty")


def test_a_record_is_not_iterable(lb: laurels.Leaderboards) -> None:
    with pytest.raises(TypeError):
        iter(lb.top("b")[0])
