"""Lines of a file become events, or rejects with an error code and the original line."""

import gzip
import io
import tracemalloc
from decimal import Decimal

import pytest
from typing_extensions import Buffer

from laurels.cli.errors import Usage
from laurels.cli.importing.csv_rows import CsvRows
from laurels.cli.importing.json_rows import JsonRows, looks_like_json
from laurels.cli.importing.lines import LINE_LIMIT, Lines
from laurels.cli.importing.reading import Mapping, Reject, SourceRow
from laurels.cli.times import time_reader
from laurels.timeline.zones import zone

UTC = zone("UTC")


def _lines(content: bytes) -> Lines:
    return Lines(io.BufferedReader(io.BytesIO(content)))


def _mapping(
    *,
    member: str = "member",
    values: tuple[str, ...] = ("score",),
    at: str = "at",
    id: str = "id",
    explicit: frozenset[str] = frozenset(),
) -> Mapping:
    return Mapping(member, values, at, id, time_reader("iso", UTC), explicit)


def _csv(
    content: str | bytes,
    mapping: Mapping | None = None,
    *,
    delimiter: str = ",",
    header: bool = True,
) -> list[SourceRow | Reject]:
    raw = content.encode() if isinstance(content, str) else content
    rows = CsvRows(_lines(raw), mapping or _mapping(), delimiter=delimiter, header=header)
    return list(rows)


def _json(content: str | bytes, mapping: Mapping | None = None) -> list[SourceRow | Reject]:
    raw = content.encode() if isinstance(content, str) else content
    return list(JsonRows(_lines(raw), mapping or _mapping()))


def _events(rows: list[SourceRow | Reject]) -> list[object]:
    return [row.event if isinstance(row, SourceRow) else row.code for row in rows]


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


# CSV


def test_csv_columns_are_found_by_the_names_in_the_header() -> None:
    rows = _csv("id,score,note,member,at\ne1,5,x,alice,1970-01-01T00:00:01\n,1.50,,bob,\n")
    assert _events(rows) == [("alice", 5, 1000, "e1"), ("bob", "1.50", None, None)]
    assert [row.line for row in rows] == [2, 3]


def test_csv_column_named_value_is_the_only_column_of_the_board() -> None:
    assert _events(_csv("member,value\na,1\n")) == [("a", 1, None, None)]


def test_csv_columns_can_be_named_by_the_user() -> None:
    mapping = _mapping(
        member="user", values=("level", "wins"), at="day", explicit=_names("user", "day")
    )
    rows = _csv("day,wins,level,user\n2021-01-02,7,3,a\n", mapping)
    assert _events(rows) == [("a", (3, 7), 1_609_545_600_000, None)]


def test_csv_without_a_header_has_the_usual_columns() -> None:
    rows = _csv("a,1\nb,2,ignored\nc\n", header=False)
    assert _events(rows) == [("a", 1, None, None), ("b", 2, None, None), "missing_field"]


def test_csv_columns_without_a_header_can_be_numbered() -> None:
    mapping = _mapping(member="3", values=("1",), at="2", explicit=_names("1", "2", "3"))
    assert _events(_csv("5,1970-01-02,a\n", mapping, header=False)) == [("a", 5, 86_400_000, None)]


@pytest.mark.parametrize(
    ("content", "mapping", "header"),
    [
        ("", _mapping(), True),
        ("\n", _mapping(), True),
        ("\xef\xbb\xbf\n \n", _mapping(), True),
        ("name,score\na,1\n", _mapping(), True),
        ("member,score,score\na,1,2\n", _mapping(), True),
        ("member,score\na,1\n", _mapping(at="day", explicit=_names("day")), True),
        ("a,1\n", _mapping(member="user", explicit=_names("user")), False),
        ("a,1\n", _mapping(member="0", explicit=_names("0")), False),
    ],
)
def test_csv_without_the_expected_columns_is_refused(
    content: str, mapping: Mapping, header: bool
) -> None:
    with pytest.raises(Usage):
        _csv(content, mapping, header=header)


def test_csv_may_have_a_byte_order_mark_any_line_ends_and_blank_lines() -> None:
    rows = _csv(b"\xef\xbb\xbfmember,score\r\na,1\r\n\r\n  \nb,2")
    assert _events(rows) == [("a", 1, None, None), ("b", 2, None, None)]
    assert [row.line for row in rows] == [2, 5]


def test_csv_may_have_blank_lines_before_the_header() -> None:
    rows = _csv(b"\xef\xbb\xbf\r\n  \nmember,score\na,1\n")
    assert _events(rows) == [("a", 1, None, None)]
    assert rows[0].line == 4


def test_csv_column_named_like_the_time_is_a_value_if_the_board_has_that_column() -> None:
    assert _events(_csv("member,at\na,5\n", _mapping(values=("at",)))) == [("a", 5, None, None)]


def test_csv_may_have_another_delimiter() -> None:
    assert _events(_csv("member\tscore\na,b\t1\n", delimiter="\t")) == [("a,b", 1, None, None)]


def test_csv_may_have_quoted_fields() -> None:
    rows = _csv('member,score\n"a,""b""",1\n"two\nlines",2\nc,3\n')
    assert _events(rows) == [
        ('a,"b"', 1, None, None),
        ("two\nlines", 2, None, None),
        ("c", 3, None, None),
    ]
    assert [row.line for row in rows] == [2, 3, 5]
    assert rows[1].raw == b'"two\nlines",2\n'


def test_csv_with_a_stray_quote_loses_one_line() -> None:
    lines = "".join(f"m{i},{i}\n" for i in range(1000))
    rows = _csv(f'member,score\n"oops,1\n{lines}')
    assert _events(rows)[:2] == ["invalid_csv", ("m0", 0, None, None)]
    assert len(rows) == 1001
    assert rows[0].line == 2
    assert rows[0].raw == b'"oops,1\n'


def test_csv_lines_with_faults_are_rejected_with_a_code() -> None:
    rows = _csv(b'member,score\na,1,2\nb\n\xff,1\n"x"y,1\n,3\nok,4\n')
    assert _events(rows) == [
        "wrong_field_count",
        "wrong_field_count",
        "line_not_utf8",
        "invalid_csv",
        ("", 3, None, None),
        ("ok", 4, None, None),
    ]


def test_csv_values_are_left_as_written() -> None:
    values = ["007", " 5 ", "-5", "+5", "1e3", "1,5", "9" * 15, "9" * 16, "٣", "", "nan"]
    content = "member;score\n" + "".join(f"a;{value}\n" for value in values)
    written = [row.event[1] for row in _csv(content, delimiter=";") if isinstance(row, SourceRow)]
    assert written == [
        *(7, 5, "-5", "+5", "1e3", "1,5"),
        *(999_999_999_999_999, "9" * 16, "٣", "", "nan"),
    ]


def test_csv_line_without_a_time_is_rejected_if_the_time_column_was_named() -> None:
    mapping = _mapping(explicit=_names("at"))
    rows = _csv("member,score,at\na,1,\nb,1,yesterday\n", mapping)
    assert _events(rows) == ["invalid_at", "invalid_at"]


# JSON Lines


def test_json_numbers_are_exact() -> None:
    rows = _json('{"member":"a","score":0.1}\n{"member":"a","score":12345678901234567890}\n')
    assert [str(row.event[1]) for row in rows if isinstance(row, SourceRow)] == [
        "0.1",
        "12345678901234567890",
    ]
    assert not any(isinstance(row, SourceRow) and isinstance(row.event[1], float) for row in rows)


def test_json_fields_are_found_by_their_names() -> None:
    rows = _json(
        '{"member":7,"value":"1.5","at":1600000000000,"id":8,"more":{"x":[1]}}\n'
        '{"member":"b","score":1,"at":"1970-01-01T00:00:02Z","id":null}\n'
        '{"member":"c","value":[1,2]}\n'
    )
    assert _events(rows) == [
        ("7", "1.5", 1_600_000_000_000, "8"),
        ("b", 1, 2000, None),
        ("c", [1, 2], None, None),
    ]


def test_json_scores_are_read_as_they_were_exported() -> None:
    line = '{"member":"a","rank":1,"score":[2,1.5]}'
    ((_, value, *_),) = [
        row.event
        for row in _json(line, _mapping(values=("level", "wins")))
        if isinstance(row, SourceRow)
    ]
    assert value == [2, Decimal("1.5")]
    assert _events(_json('{"member":"a","score":5}', _mapping(values=("amount",)))) == [
        ("a", 5, None, None)
    ]
    named = _mapping(values=("amount",), explicit=_names("amount"))
    assert _events(_json('{"member":"a","score":5}', named)) == ["missing_field"]


def test_json_may_have_a_field_for_each_column() -> None:
    mapping = _mapping(values=("level", "wins"))
    assert _events(_json('{"wins":1,"member":"a","level":2}', mapping)) == [
        ("a", (2, 1), None, None)
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nonsense", "invalid_json"),
        (b'{"member":"a","score":NaN}', "invalid_json"),
        (b'{"member":"\\ud800","score":1}', "invalid_json"),
        (b'{"member":"\xff","score":1}', "line_not_utf8"),
        (b"[1]", "invalid_event"),
        (b'"text"', "invalid_event"),
        (b"[" * 100_000, "json_too_deep"),
        (b'{"x":' * 100_000, "json_too_deep"),
        (b'{"member":"a"}', "missing_field"),
        (b'{"score":1}', "missing_field"),
        (b'{"member":null,"score":1}', "missing_field"),
        (b'{"member":1.5,"score":1}', "invalid_member"),
        (b'{"member":true,"score":1}', "invalid_member"),
        (b'{"member":"a","score":1,"id":[]}', "invalid_id"),
        (b'{"member":"a","score":1,"at":1.5}', "invalid_at"),
        (b'{"member":"a","score":1,"at":1600000000}', "invalid_at"),
        (b'{"member":"a","score":1,"at":true}', "invalid_at"),
        (b'{"member":"a","score":' + b"9" * 10_000 + b"}", "value_out_of_range"),
    ],
)
def test_json_lines_with_faults_are_rejected_with_a_code(line: bytes, code: str) -> None:
    rows = _json(line + b'\n{"member":"ok","score":1}\n')
    assert _events(rows) == [code, ("ok", 1, None, None)]
    assert rows[0].raw == line + b"\n"


@pytest.mark.parametrize("number", ["1e1000000", "-1e1000000", "1e99999999999999999999"])
def test_json_numbers_beyond_all_ranges_are_left_to_the_board(number: str) -> None:
    (row,) = _json(f'{{"member":"a","score":{number}}}')
    assert isinstance(row, SourceRow)


# Lines


def test_a_line_over_the_limit_is_one_reject() -> None:
    raw = b"member,score\n" + b"x" * (5 * LINE_LIMIT) + b"\na,1\n"
    rows = _csv(raw)
    assert _events(rows) == ["line_too_long", ("a", 1, None, None)]
    assert [row.line for row in rows] == [2, 3]


def test_a_line_over_the_limit_is_rejected_after_an_open_quote_too() -> None:
    raw = b'member,score\n"a,1\n' + b"x" * (2 * LINE_LIMIT) + b"\nb,1\n"
    assert _events(_csv(raw)) == ["invalid_csv", "line_too_long", ("b", 1, None, None)]


def test_a_file_without_line_ends_is_read_in_bounded_memory() -> None:
    class Endless(io.RawIOBase):
        left = 64 * LINE_LIMIT

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Buffer, /) -> int:
            view = memoryview(buffer)
            size = min(len(view), self.left)
            view[:size] = b"x" * size
            self.left -= size
            return size

    lines = Lines(io.BufferedReader(Endless()))
    tracemalloc.start()
    try:
        assert len(lines.take()) == LINE_LIMIT + 1
        assert lines.take() == b""
        assert tracemalloc.get_traced_memory()[1] < 8 * LINE_LIMIT
    finally:
        tracemalloc.stop()
    assert lines.offset == 64 * LINE_LIMIT


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_no_line_is_read_beyond_the_given_end(ahead: int) -> None:
    lines = _lines(b"a\nb\nc\nd\n")
    lines.look_ahead(ahead)
    lines.end = 4
    assert [lines.look_ahead(place) for place in range(4)] == [b"a\n", b"b\n", b"", b""]
    assert [lines.take() for _ in range(3)] == [b"a\n", b"b\n", b""]
    lines.end = None
    assert lines.look_ahead(1) == b"d\n"


@pytest.mark.parametrize(
    ("content", "json"),
    [
        (b'{"a":1}', True),
        (b'\n \n\xef\xbb\xbf{"a":1}', True),
        (b"a,b\n{", False),
        (b"", False),
        (b"\n", False),
    ],
)
def test_json_is_distinguished_from_csv(content: bytes, json: bool) -> None:
    lines = _lines(content)
    assert looks_like_json(lines) is json
    assert lines.offset == 0
    assert lines.take() == (content.splitlines(keepends=True) or [b""])[0]


def test_the_digest_does_not_depend_on_how_lines_are_read() -> None:
    content = b"".join(b"line %d\n" % i for i in range(1000))
    one, other = _lines(content), _lines(content)
    for _ in range(500):
        one.take()
    assert other.look_ahead(3) == b"line 3\n"
    other.skip_to(one.offset, 500)
    assert (one.digest(), one.line) == (other.digest(), other.line)
    assert one.take() == other.take() == b"line 500\n"


def test_the_unpacked_content_is_counted() -> None:
    content = b"member,score\na,1\n"
    with gzip.open(io.BytesIO(gzip.compress(content))) as unpacked:
        lines = Lines(unpacked)
        while lines.take():
            pass
    assert lines.offset == len(content)
