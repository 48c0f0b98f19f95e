"""For every message, the fast path for plain messages gives the same result as the mapping."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.errors import LaurelsError
from laurels.flows.sources.batches import Row
from laurels.flows.sources.mapping import DEFAULT, ForeignMessage, fields_of
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.outcomes import MessageOutcomes
from laurels.flows.sources.plain_messages import EventParser, plain_decoder
from laurels.flows.sources.reader import MESSAGE_LIMIT, ZERO, Message, StreamPosition
from laurels.flows.sources.rejects import NoRejects
from laurels.flows.sources.rows import RowReader
from laurels.flows.sources.settings import SourceSettings
from laurels.flows.sources.template import parse_mapping

from .sourcing import FOUR_FIELDS

TAKEN_MS = 1_795_219_200_000
PLAIN = (
    DEFAULT,
    FOUR_FIELDS,
    "board=board,member=member,value=value,at=at|s,id=id,labels=labels",
    "board=board,member=member,value=value,at?=at|us,id?=id",
)
OTHERS = (
    "board={board|lb:*},member=member,value=value",
    "board=board,member=user.id,value=value",
    "board=board,member=member,value=value,value=more",
    "board=board,member=member,value=value,id=member",
    'board="b",member=member,value=value',
    "board=$subject,member=member,value=value",
    "board=board,member=member,value=value,labels.room=room",
)


def by_mapping(template: str, message: Message) -> object:
    """Return the result of the mapping: the board and the event, or the error."""
    mapping = parse_mapping(template)
    try:
        fields = fields_of(message)
        return mapping.board_of(fields), mapping.event_of(fields, TAKEN_MS)
    except ForeignMessage as error:
        return str(error)
    except LaurelsError as error:
        return error.code


def by_parser(template: str, message: Message) -> object:
    """Return the result of the fast path or, if it does not take the message, the result of the
    mapping."""
    parser = EventParser(parse_mapping(template))
    [plain] = parser.decode([message])
    if plain is None:
        return by_mapping(template, message)
    try:
        return plain.board, parser.event(plain, TAKEN_MS)
    except LaurelsError as error:
        return error.code


@st.composite
def raw_messages(draw: st.DrawFn) -> bytes:
    """A strategy for JSON texts with valid and invalid values, in which some fields occur twice."""
    texts = st.sampled_from(['"m"', '""', '"ä\\u0000"', '"\\ud800"', "null", "7", "true", "[]"])
    numbers = st.sampled_from(
        ["1", "-0", "0", "1.5", "1.0", '"1"', "1e3", "null", "NaN", "true", "9" * 30, "9" * 5_000]
    )
    labels = st.sampled_from(['{"a": "1"}', '{"a": ""}', '{"a": 1}', "{}", "null", '""', "[]"])
    parts = {"board": texts, "member": texts, "value": numbers, "at": numbers, "id": texts}
    parts |= {"labels": labels, "KeyPrefix": texts, "UserId": texts, "DeltaScore": numbers}
    names = draw(st.lists(st.sampled_from([*parts, "other"]), max_size=12))
    pairs = [f'"{name}": {draw(parts.get(name, texts))}' for name in names]
    raw = ("{" + ", ".join(pairs) + "}").encode()
    return draw(st.sampled_from([raw, raw, raw, b" " + raw, raw + b"x", raw[:-1], b"\xff" + raw]))


@given(st.sampled_from(PLAIN), raw_messages())
def test_the_fast_parser_and_the_mapping_agree(template: str, raw: bytes) -> None:
    message = Message(ZERO, raw)
    assert by_parser(template, message) == by_mapping(template, message)


def test_the_fast_parser_leaves_odd_or_long_messages_to_the_mapping() -> None:
    start = b'{"board": "b", "member": "m", "value": 1, "other": "'
    for raw in (start + b'\xff"}', start + b"x" * MESSAGE_LIMIT + b'"}'):
        message = Message(ZERO, raw)
        assert EventParser(parse_mapping(DEFAULT)).decode([message]) == [None]
        assert by_mapping(DEFAULT, message) in ("line_not_utf8", "line_too_long")


@given(st.sampled_from(PLAIN), st.lists(raw_messages(), max_size=4))
def test_messages_read_together_equal_those_read_one_by_one(
    template: str, raws: list[bytes]
) -> None:
    parser = EventParser(parse_mapping(template))
    messages = [Message(ZERO, raw) for raw in raws]
    singly = [repr(plain) for message in messages for plain in parser.decode([message])]
    assert [repr(plain) for plain in parser.decode(messages)] == singly


SIMPLE = [
    b'{"board": "m", "member": "a", "value": 1}',
    b'{"board": "other", "member": "a", "value": 1}',
    b'{"KeyPrefix": "m", "UserId": "a", "DeltaScore": 1, "Score": 5}',
]


def ensure_divided_alike(
    template: str, raws: list[bytes], after: int, taken_ms: int | None
) -> None:
    """Assert that messages give the same rows, whether they are divided together or one by one."""
    settings = SourceSettings("s", boards="m")
    reader = RowReader(parse_mapping(template), settings, lambda: TAKEN_MS)
    messages = [Message(StreamPosition(1 + i), raw, taken_ms) for i, raw in enumerate(raws)]
    positions = {"m": StreamPosition(after)}

    def divided(batches: list[list[Message]]) -> tuple[dict[str, list[Row]], SourceMetrics]:
        rows: dict[str, list[Row]] = {}
        outcomes = MessageOutcomes("s", SourceMetrics(), NoRejects())
        for batch in batches:
            for board, board_rows in reader.rows_by_board(batch, positions, outcomes).items():
                rows.setdefault(board, []).extend(board_rows)
        return rows, outcomes.metrics

    assert divided([messages]) == divided([[message] for message in messages])


@given(
    st.sampled_from(PLAIN),
    st.lists(raw_messages() | st.sampled_from(SIMPLE), max_size=6),
    st.integers(0, 6),
    st.sampled_from([None, TAKEN_MS - 1, TAKEN_MS + 1]),
)
def test_messages_divided_together_give_the_rows_of_those_divided_one_by_one(
    template: str, raws: list[bytes], after: int, taken_ms: int | None
) -> None:
    ensure_divided_alike(template, raws, after, taken_ms)


EVENT = b'{"board": "b", "member": "%d", "value": 1}'


@pytest.mark.parametrize(
    "raws",
    [
        [EVENT % 1 + b"\n" + EVENT % 2, b""],
        [b"", EVENT % 1 + b"\n" + EVENT % 2, EVENT % 3],
        [EVENT % 1, b"  ", EVENT % 2 + b"\n" + EVENT % 3],
        [b'{"board": "b", "member": "1",', b'"value": 1}', EVENT % 2 + b"\r" + EVENT % 3],
        [b"\n".join((EVENT % 1, EVENT % 2, EVENT % 3)), b"", b""],
        [EVENT % 1 + b"\n", EVENT % 2],
        [b'{"x": [{}', b"{}]" + EVENT % 1 + EVENT % 2],
        [b'{"x": "}', b'{", "board": "b", "member": "m", "value": 1}' + EVENT % 1],
        [EVENT % 1, EVENT % 2 + EVENT % 3, b'{"x": {}'],
    ],
)
def test_a_message_is_never_read_as_several_or_several_as_one(raws: list[bytes]) -> None:
    parser = EventParser(parse_mapping(DEFAULT))
    plain = parser.decode([Message(ZERO, raw) for raw in raws])
    singly = [each for raw in raws for each in parser.decode([Message(ZERO, raw)])]
    assert [repr(each) for each in plain] == [repr(each) for each in singly]


def test_plain_messages_take_the_fast_path() -> None:
    raw = b'{"board": "b", "member": "m", "value": 12, "at": 5, "labels": {"room": "1"}}'
    [plain] = EventParser(parse_mapping(DEFAULT)).decode([Message(ZERO, raw)])
    assert plain is not None
    assert (plain.board, plain.member, plain.value, plain.at) == ("b", "m", 12, 5)


def test_a_mapping_that_is_not_plain_has_no_decoder() -> None:
    for template in OTHERS:
        assert plain_decoder(parse_mapping(template)) is None


ODD = [
    b'{"board": "other", "member": "a", "value": 1}',
    b'{"board": "m", "member": "a", "value": 1, "at": 5}',
    b'{"board": "m", "member": "a", "value": 1, "id": "x"}',
    b'{"board": "m", "member": "a", "value": 1, "labels": {"room": "1"}}',
    b'{"board": "m", "member": "a", "value": "1.5"}',
    b'{"board": "m", "member": "a"}',
    b'"m"',
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("after", [0, 1])
def test_one_odd_message_among_plain_ones_is_read_as_alone(odd: bytes, at: int, after: int) -> None:
    raws = [SIMPLE[0]] * 3
    raws[at] = odd
    ensure_divided_alike(DEFAULT, raws, after, TAKEN_MS + 1)
