"""Every API names the scope of a query in the same way, and gives the same answers and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import laurels
from laurels.core.queries import Top
from laurels.errors import LaurelsError, UnknownScope
from laurels.wire.parameters import write_labels
from laurels.wire.queries import query_target
from tests.calendar_by_scanning import utc_ms
from tests.serving import Served

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
BOARD = laurels.Board(
    "gifts",
    windows=["all", "day"],
    scopes=[[], ["room"], ["zone"], ["zone", "gender"]],
    rank_by="room",
)
ODD = "a b&=,%:é@"
EVENTS: list[Any] = [
    ("ann", 5, None, None, {"room": "42", "zone": "cn", "gender": "f"}),
    ("bob", 7, None, None, {"room": "42", "zone": "cn"}),
    {"member": "cid", "value": 3, "labels": {"room": ODD, "zone": None}},
    laurels.Event("dan", 4, labels={"zone": "fr", "gender": "m"}),
    ("eve", 9),
]

Asks = dict[str, Callable[[Any], Any]]

QUESTIONS: Asks = {
    "all": lambda lb: lb.top("gifts"),
    "room": lambda lb: lb.top("gifts", labels={"room": "42"}, window="day", with_data=True),
    "odd": lambda lb: lb.top("gifts", labels={"room": ODD}),
    "nobody there": lambda lb: lb.top("gifts", labels={"room": "none"}),
    "two labels": lambda lb: lb.top("gifts", labels={"zone": "cn", "gender": "f"}),
    "by": lambda lb: lb.top("gifts", by="room"),
    "around": lambda lb: lb.around("gifts", "ann", radius=1, labels={"room": "42"}),
    "not there": lambda lb: lb.around("gifts", "dan", labels={"room": "42"}),
    "standing": lambda lb: lb.standing("gifts", "ann", to_rank=1, labels={"zone": "cn"}),
    "standing by": lambda lb: lb.standing("gifts", "42", by="room"),
    "card": lambda lb: lb.card("gifts", "ann", labels={"room": "42"}),
    "empty card": lambda lb: lb.card("gifts", "zed", labels={"room": "42"}),
    "rank": lambda lb: lb.rank("gifts", "ann", labels={"room": "42"}),
    "no rank": lambda lb: lb.rank("gifts", "dan", labels={"room": "42"}),
    "ranks": lambda lb: lb.ranks("gifts", ["dan", "bob", "bob"], labels={"room": "42"}),
    "standings": lambda lb: lb.standings("gifts", ["bob", "ann", "dan"], labels={"room": "42"}),
    "range": lambda lb: lb.range("gifts", low=6, labels={"room": "42"}),
    "at rank": lambda lb: lb.at_rank("gifts", 2, labels={"room": "42"}),
    "percentile": lambda lb: lb.score_at_percentile("gifts", 50, labels={"room": "42"}),
    "count": lambda lb: lb.count("gifts", low=6, labels={"zone": "cn"}),
    "periods": lambda lb: lb.periods("gifts", "day", labels={"room": "42"}),
    "periods by": lambda lb: lb.periods("gifts", "day", by="room"),
    "rooms": lambda lb: lb.scopes("gifts", "room"),
    "first room": lambda lb: lb.scopes("gifts", "room", limit=1),
    "rooms after": lambda lb: lb.scopes("gifts", "room", after={"room": "42"}),
    "odd after": lambda lb: lb.scopes("gifts", "room", after={"room": ODD}),
    "two names": lambda lb: lb.scopes("gifts", "zone", "gender"),
    "after two": lambda lb: lb.scopes(
        "gifts", "gender", "zone", after={"zone": "cn", "gender": "f"}
    ),
    "no names": lambda lb: lb.scopes("gifts"),
}
WRITES: Asks = {
    "in a room": lambda lb: lb.submit(
        "gifts", "ann", 2, labels={"room": "42", "zone": "cn"}, scope=["room"]
    ),
    "without that label": lambda lb: lb.submit("gifts", "ann", 2, scope=["room"]),
    "first scope": lambda lb: lb.submit("gifts", "ann", 2, labels={"room": "42"}),
    "of all": lambda lb: lb.submit("gifts", "ann", 2, labels={"room": "42"}, scope=[]),
    "set": lambda lb: lb.set(
        "gifts", "bob", 20, labels={"zone": "cn", "gender": "m"}, scope=["zone", "gender"]
    ),
    "many": lambda lb: lb.submit_many("gifts", EVENTS, ranks=True, scope=("zone",)),
}
REFUSED: Asks = {
    "no such label": lambda lb: lb.top("gifts", labels={"colour": "red"}),
    "no such combination": lambda lb: lb.top("gifts", labels={"room": "42", "zone": "cn"}),
    "no such label at all": lambda lb: lb.top("plain", labels={"room": "42"}),
    "never a label": lambda lb: lb.score_at_percentile("plain", 5, labels={"percent": "7"}),
    "nothing by": lambda lb: lb.top("gifts", by="zone"),
    "by within": lambda lb: lb.top("gifts", by="room", labels={"zone": "cn"}),
    "by nothing": lambda lb: lb.top("gifts", by=""),
    "empty value": lambda lb: lb.top("gifts", labels={"room": ""}),
    "no mapping": lambda lb: lb.top("gifts", labels="room=42"),
    "no names": lambda lb: lb.top("gifts", labels={5: "42"}),
    "no label by that name": lambda lb: lb.top("gifts", labels={"a=b,c": "42"}),
    "no text": lambda lb: lb.top("gifts", labels={"room": 42}),
    "too long": lambda lb: lb.count("gifts", labels={"room": "x" * 129}),
    "no board": lambda lb: lb.top("none", labels={"room": "42"}),
    "unknown scope": lambda lb: lb.scopes("gifts", "gender"),
    "names with commas": lambda lb: lb.scopes("gifts", "zone,gender"),
    "scope of a receipt": lambda lb: lb.submit("gifts", "ann", 1, scope=["gender"]),
    "scope as text": lambda lb: lb.submit_many("gifts", [("ann", 1)], scope="room"),
    "unknown label": lambda lb: lb.submit("gifts", "ann", 1, labels={"colour": "red"}),
    "label without text": lambda lb: lb.submit("gifts", "ann", 1, labels={"room": 42}),
    "labels that are none": lambda lb: lb.set("gifts", "ann", 1, labels=["room"]),
    "counted nowhere": lambda lb: lb.submit("rooms", "ann", 1, labels={}),
    "too many": lambda lb: lb.scopes("gifts", "room", limit=10_001),
}


def filled(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    lb.create(BOARD)
    lb.create(laurels.Board("plain"))
    lb.create(laurels.Board("rooms", scopes=[["room"]]))
    lb.submit_many("gifts", EVENTS)
    return lb


class Awaited:
    """The verbs of the asynchronous API, each called on an event loop of its own."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def ask(args: Any, named: Any) -> Any:
            async with await laurels.open_async(self._url) as lb:
                return await getattr(lb, verb)(*args, **named)

        return lambda *args, **named: asyncio.run(ask(args, named))


@pytest.fixture
def embedded() -> Iterator[laurels.Leaderboards]:
    with laurels.open("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
        yield filled(lb)


@pytest.fixture(params=["sync", "async"])
def remote(request: pytest.FixtureRequest) -> Iterator[Any]:
    with Served("memory:", laurels.ManualClock(NOW_MS)) as served, laurels.open(served.url) as lb:
        filled(lb)
        yield lb if request.param == "sync" else Awaited(served.url)


def outcome(ask: Callable[[Any], Any], lb: Any) -> Any:
    """Return the answer of a verb or, if it fails, the error code."""
    try:
        answer = ask(lb)
    except LaurelsError as error:
        return error.code
    return list(answer) if isinstance(answer, laurels.Receipts) else answer


def test_queries_have_the_same_answers_everywhere(
    embedded: laurels.Leaderboards, remote: Any
) -> None:
    for name, ask in QUESTIONS.items():
        assert outcome(ask, remote) == ask(embedded), name


def test_receipts_are_the_same_everywhere(embedded: laurels.Leaderboards, remote: Any) -> None:
    for name, ask in WRITES.items():
        answer = ask(embedded)
        expected = list(answer) if isinstance(answer, laurels.Receipts) else answer
        assert outcome(ask, remote) == expected, name


def test_errors_are_the_same_everywhere(embedded: laurels.Leaderboards, remote: Any) -> None:
    for name, ask in REFUSED.items():
        refusal = outcome(ask, embedded)
        assert isinstance(refusal, str), name
        assert outcome(ask, remote) == refusal, name


def test_every_scope_is_listed_once_page_by_page(remote: Any) -> None:
    rooms = [{"room": f"r{i:03}{ODD}"} for i in range(25)]
    events = [("ann", 1, None, None, room) for room in rooms]
    remote.submit_many("rooms", events)
    listed: list[dict[str, str]] = []
    while page := remote.scopes("rooms", "room", limit=10, after=listed[-1] if listed else None):
        listed += page
    assert listed == rooms


def test_a_scope_is_exported(embedded: laurels.Leaderboards) -> None:
    with Served("memory:") as served, laurels.open(served.url) as lb:
        filled(lb)
        assert list(lb.export("gifts", labels={"room": "42"})) == list(
            embedded.export("gifts", labels={"room": "42"})
        )
        assert [entry.member for entry in lb.export("gifts", by="room")] == ["42", ODD]

    async def exported() -> list[str]:
        async with await laurels.open_async("memory:") as lb:
            await lb.create(BOARD)
            await lb.submit_many("gifts", EVENTS)
            return [entry.member async for entry in lb.export("gifts", labels={"zone": "cn"})]

    assert asyncio.run(exported()) == ["bob", "ann"]


@pytest.mark.parametrize("name", ["", "a=b", "a,b", "a b", "5", "%61"])
def test_labels_with_invalid_names_are_not_sent(name: str) -> None:
    with pytest.raises(UnknownScope):
        write_labels(((name, "x"),))


def test_labels_are_sent_as_one_parameter() -> None:
    assert write_labels((("limit", "5,%"), ("zone", "c n"))) == "limit=5%2C%25,zone=c%20n"
    assert write_labels(()) is None
    assert "labels=room%3Da%2520b" in query_target("b", Top(labels=(("room", "a b"),)))
