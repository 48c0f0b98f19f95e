"""A mapping is a line of configuration that says which field of a message is which part of an
event. Numbers stay exact."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from laurels.errors import InvalidAt, InvalidEvent, InvalidLabel, InvalidMember, LaurelsError
from laurels.errors.sources import InvalidTemplate, LineNotUtf8, LineTooLong, MissingField
from laurels.flows.sources.mapping import DEFAULT, ForeignMessage, fields_of
from laurels.flows.sources.reader import MESSAGE_LIMIT, ZERO, Message
from laurels.flows.sources.template import parse_mapping

from .sourcing import FOUR_FIELDS, four_fields

TAKEN_MS = 1_795_219_200_000


def event(template: str, raw: bytes, taken_ms: int | None = TAKEN_MS) -> object:
    """Return the board and the event that a mapping reads from a message."""
    mapping, fields = parse_mapping(template), fields_of(Message(ZERO, raw))
    return mapping.board_of(fields), *mapping.event_of(fields, taken_ms)


@pytest.mark.parametrize(
    "template",
    [
        FOUR_FIELDS,
        " board = KeyPrefix , member = UserId,value={DeltaScore}",
        '{"board": "{KeyPrefix}", "member": "{UserId}", "value": "{DeltaScore}"}',
    ],
)
def test_an_event_of_four_fields_is_mapped(template: str) -> None:
    raw = four_fields("gifts", "ann", 5, 12)
    assert event(template, raw) == ("gifts", "ann", 5, TAKEN_MS, None, None)


@pytest.mark.parametrize("number", ["0.1", '"0.1"', "12345678901234.567890123", "1e-7", "7"])
def test_no_number_becomes_a_float(number: str) -> None:
    raw = b'{"board": "b", "member": "m", "value": %s}' % number.encode()
    value = event(DEFAULT, raw)[2]  # type: ignore[index]
    assert type(value) in (int, str, Decimal)
    assert Decimal(value) == Decimal(number.strip('"'))


def test_all_parts_of_an_event_are_found_by_their_names() -> None:
    raw = b"""{"board": "b", "member": "m", "value": [1, 2.5], "at": 1000, "id": 7,
               "labels": {"room": 42, "zone": ""}}"""
    assert event(DEFAULT, raw) == ("b", "m", [1, Decimal("2.5")], 1000, "7", {"room": "42"})


def test_fields_can_be_nested_or_have_affixes() -> None:
    template = (
        "board={key|lb:*:all},member=user.{user.id},value=gold,value=silver,"
        'labels.room=room.number,labels.zone="eu",labels.team?=team'
    )
    raw = b"""{"key": "lb:gifts:all", "user": {"id": 12}, "gold": 1, "silver": "2",
               "room.number": "r"}"""
    mapped = event(template, raw, None)
    assert mapped == ("gifts", "user.12", (1, "2"), None, None, {"room": "r", "zone": "eu"})


def test_a_board_key_with_another_affix_is_foreign() -> None:
    with pytest.raises(ForeignMessage):
        event("board={key|lb:*},member=m,value=v", b'{"key": "cache:1", "m": "m", "v": 1}')
    with pytest.raises(InvalidEvent):
        event('board="b",member={m|u*},value=v', b'{"m": "m", "v": 1}')


@pytest.mark.parametrize(
    ("at", "text", "expected"),
    [
        ("t", "1795219200123", TAKEN_MS + 123),
        ("t", '"1795219200123"', TAKEN_MS + 123),
        ("t|s", "1795219200.1239", TAKEN_MS + 123),
        ("t|us", "1795219200123999", TAKEN_MS + 123),
        ("t|ns", "1795219200123999999", TAKEN_MS + 123),
        ("t|s", "-0.0001", -1),
        ("t", '"2026-11-21T01:00:00+01:00"', datetime(2026, 11, 21, tzinfo=UTC)),
    ],
)
def test_times_come_in_many_forms(at: str, text: str, expected: object) -> None:
    raw = b'{"b": "b", "m": "m", "v": 1, "t": %s}' % text.encode()
    assert event(f"board=b,member=m,value=v,at={at}", raw)[3] == expected  # type: ignore[index]


@pytest.mark.parametrize(
    ("template", "raw", "error"),
    [
        (DEFAULT, b'{"member": "m", "value": 1}', MissingField),
        (DEFAULT, b'{"board": "b", "member": null, "value": 1}', MissingField),
        (DEFAULT, b'{"board": "b", "member": [], "value": 1}', InvalidMember),
        (DEFAULT, b'{"board": ["b"], "member": "m", "value": 1}', InvalidEvent),
        (DEFAULT, b'{"board": "b", "member": "m", "value": 1, "at": "noon"}', InvalidAt),
        (DEFAULT, b'{"board": "b", "member": "m", "value": 1, "at": true}', InvalidAt),
        (DEFAULT, b'{"board": "b", "member": "m", "value": 1, "labels": [1]}', InvalidLabel),
        (
            f"{DEFAULT[: DEFAULT.index(',at')]},at=at",
            b'{"board":"b","member":"m","value":1}',
            MissingField,
        ),
        (DEFAULT, b"[1]", InvalidEvent),
        (DEFAULT, b'{"board": "\xff"}', LineNotUtf8),
        (DEFAULT, b" " * MESSAGE_LIMIT + b"{}", LineTooLong),
    ],
)
def test_an_invalid_event_is_refused_with_its_own_error(
    template: str, raw: bytes, error: type[LaurelsError]
) -> None:
    with pytest.raises(error):
        event(template, raw)


@pytest.mark.parametrize(
    "template",
    [
        "",
        "board=b",
        "board=b,member=m",
        "board=b,member=m,value=v,colour=c",
        "board=b,board=c,member=m,value=v",
        "board=b,member?=m,value=v",
        "board=b,member=m,value=v,labels.=x",
        "board=b,member=m,value=v,at=t|days",
        "board=b,member=m,value=v,at={t|*}",
        "board={b,member=m,value=v",
        "board=b,member=m,value=a..b",
        "board,member=m,value=v",
        '{"board": "b", "member": 1, "value": "{v}"}',
        '{"board"',
    ],
)
def test_a_template_with_a_fault_is_refused(template: str) -> None:
    with pytest.raises(InvalidTemplate):
        parse_mapping(template)
