"""A definition is accepted in all forms that users write, is stored in one canonical form, and is
refused with an error for each mistake."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.errors import (
    BoardInvalid,
    FormatTooNew,
    InvalidJson,
    InvalidName,
    JsonTooDeep,
    LaurelsError,
)
from laurels.model.board import Board, Column
from laurels.model.score import LIMIT
from laurels.model.windows.all import All
from laurels.model.windows.calendar import Calendar
from laurels.model.windows.rolling import Rolling


def board(**fields: Any) -> Board:
    return Board.from_json({"name": "gifts", **fields})


def errors_of(**fields: Any) -> list[str]:
    with pytest.raises(BoardInvalid) as refused:
        board(**fields)
    return refused.value.errors


def test_a_board_needs_only_a_name_and_has_defaults() -> None:
    rules = Board("gifts").rules()
    [column] = rules.columns
    assert (column.name, column.op, column.sign, column.scale) == ("score", "sum", -1, 0)
    assert (column.low, column.high) == (-LIMIT, LIMIT)
    assert (rules.tie, rules.resolution_ms, rules.rank, rules.best) == (1, 1, "ordinal", False)
    assert rules.windows == {"all": All("all")}
    assert (rules.grace_ms, rules.dedupe_ms, rules.dedupe_max) == (300_000, 3_600_000, 1_000_000)


def test_every_field_of_a_definition_is_in_the_rules() -> None:
    rules = Board(
        "race",
        columns=[
            Column("points", op="best", scale=2, min="-0.5", max=100),
            {"name": "time", "op": "best", "order": "asc"},
        ],
        tie="last",
        tie_resolution="1s",
        rank="dense",
        windows=["day", "weekly=week:week_start=sunday,tz=Asia/Shanghai,keep=9,grace=10m"],
        tz="Europe/Berlin",
        grace="1m",
        dedupe="2h",
        dedupe_max=5,
        keep=3,
    ).rules()
    assert [(c.sign, c.low, c.high) for c in rules.columns] == [
        (-1, -50, 10_000),
        (1, -LIMIT, LIMIT),
    ]
    assert (rules.tie, rules.resolution_ms, rules.rank, rules.best) == (-1, 1000, "dense", True)
    assert (rules.dedupe_ms, rules.dedupe_max) == (7_200_000, 5)
    assert list(rules.windows.values()) == [
        Calendar("day", "day", "Europe/Berlin", "monday", 3, 60_000),
        Calendar("weekly", "week", "Asia/Shanghai", "sunday", 9, 600_000),
    ]
    assert Board("b", tie="member").rules().tie == 0


def test_rules_give_rolling_windows_their_tz_and_a_capped_grace() -> None:
    rules = Board(
        "b",
        windows=[
            "7d=rolling:7d/1h",
            "rolling:90s/30s",
            {"name": "1w", "type": "rolling", "span": "7d", "step": "1d", "tz": "Asia/Tokyo"},
            "rolling:4d/2d,grace=30m",
        ],
        tz="Europe/Berlin",
        grace="10m",
    ).rules()
    assert list(rules.windows.values()) == [
        Rolling("7d", 168, 3_600_000, 0, "Europe/Berlin", 600_000),
        Rolling("rolling:90s/30s", 3, 30_000, 0, "Europe/Berlin", 60_000),
        Rolling("1w", 7, 0, 1, "Asia/Tokyo", 600_000),
        Rolling("rolling:4d/2d", 2, 0, 2, "Europe/Berlin", 1_800_000),
    ]
    assert list(rules.windows) == [window.name for window in rules.windows.values()]


def test_equivalent_definitions_are_equal() -> None:
    one = Board("b", windows=["month:tz=Asia/Tokyo,keep=12"], grace=60_000, dedupe="60m")
    other = Board(
        "b",
        windows=({"type": "month", "keep": 12, "tz": "Asia/Tokyo"},),
        grace="1m",
        dedupe="1h",
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one.windows == ("month:keep=12,tz=Asia/Tokyo",)
    assert (one.grace, one.dedupe) == ("1m", "1h")
    assert board(windows=["rolling:7d/1h"]) == board(
        windows=[{"type": "rolling", "span": "07d", "step": "1h"}]
    )
    assert board(windows=["w=rolling:60m/1m"]) != board(windows=["w=rolling:1h/1m"])
    assert Column(min=Decimal("1")) != Column(min="1.0")
    assert board(columns=[Column(min=Decimal(1))]) == board(columns=[Column(min="1.0")])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": 3}, "for title, got 3"),
        ({"title": "x" * 201}, "at most 200 characters"),
        ({"title": "\ud800"}, "for title, got"),
        ({"columns": []}, "expected 1 to 4 columns, got 0"),
        ({"columns": [Column(str(i)) for i in range(5)]}, "expected 1 to 4 columns, got 5"),
        ({"columns": "score"}, "expected a list of columns, got"),
        ({"columns": None}, "expected a list of columns, got"),
        ({"columns": ["score"]}, "expected a column as a Column or a mapping, got 'score'"),
        (
            {"columns": [Column("a"), Column("a")]},
            "expected distinct column names, got 'a' more than once",
        ),
        ({"columns": [Column("a", op="best"), Column("b")]}, "op best is for all columns or none"),
        ({"columns": [{"op": "max"}]}, "expected one of sum, last, best for op, got 'max'"),
        ({"columns": [{"order": "up"}]}, "expected one of desc, asc for order, got 'up'"),
        ({"columns": [{"scale": 16}]}, "expected an integer from 0 to 15 for scale, got 16"),
        ({"columns": [{"scale": True}]}, "for scale, got True"),
        ({"columns": [{"places": 2}]}, "unknown field 'places'"),
        ({"columns": [{"min": 2, "max": 1}]}, "expected min to be at most max, got 2 and 1"),
        ({"columns": [{"min": "0.5"}]}, "expected no decimal places"),
        ({"columns": [{"max": 0.5, "scale": 1}]}, "expected an exact number"),
        ({"columns": [{"max": "1e1000000"}]}, "expected a number in the range of"),
        ({"columns": [{"max": "nan"}]}, "expected a finite number for 'max', got 'nan'"),
        ({"tie": "random"}, "expected one of first, last, member for tie, got 'random'"),
        ({"tie": []}, "for tie, got []"),
        ({"tie_resolution": 0}, "expected tie_resolution to be 1ms or longer, got 0"),
        ({"tie_resolution": "1w"}, "tie_resolution: expected a duration "),
        (
            {"rank": "olympic"},
            "expected one of ordinal, competition, dense for rank, got 'olympic'",
        ),
        ({"windows": []}, "expected 1 to 16 windows, got 0"),
        ({"windows": [f"w{i}=day" for i in range(17)]}, "expected 1 to 16 windows, got 17"),
        ({"windows": "all"}, "expected a list of windows, got"),
        ({"windows": ["all", "all"]}, "expected distinct window names, got 'all' 2 times"),
        ({"windows": ["x=day", "x=week"]}, "expected distinct window names, got 'x' 2 times"),
        ({"windows": ["fortnight"]}, "expected a window (all, hour"),
        ({"windows": ["all", "rolling:7d"]}, "window 'rolling': a rolling window has a span and"),
        ({"windows": ["7d=rolling:7d/9h"]}, "window '7d': expected a span of whole steps of 9h"),
        (
            {"windows": ["rolling:7d/1h"] * 2},
            "expected distinct window names, got 'rolling:7d/1h' 2 times",
        ),
        ({"tz": "Mars/Olympus"}, "for tz, got 'Mars/Olympus'"),
        ({"tz": "../../etc/passwd"}, "expected an IANA time zone"),
        ({"tz": ["UTC"]}, "expected an IANA time zone"),
        ({"week_start": "Mon"}, "for week_start, got 'Mon'"),
        ({"grace": -1}, "or milliseconds), got -1"),
        ({"grace": 1.5}, "or milliseconds), got 1.5"),
        ({"grace": "40000d"}, "grace: expected a duration of at most 36525d, got '40000d'"),
        ({"grace": "2h", "dedupe": "1h"}, "expected dedupe to be at least the longest grace, 2h"),
        (
            {"windows": ["day:grace=3h"], "dedupe": "1h"},
            "expected dedupe to be at least the longest grace, 3h",
        ),
        (
            {"windows": ["rolling:7d/1h,grace=4h"], "dedupe": "1h"},
            "expected dedupe to be at least the longest grace, 4h",
        ),
        ({"dedupe_max": -1}, "for dedupe_max, got -1"),
        ({"dedupe_max": 100_000_001}, "for dedupe_max, got 100000001"),
        ({"shards": 0}, "expected an integer from 1 to 64 for shards, got 0"),
        ({"shards": 65}, "for shards, got 65"),
        ({"shards": "3"}, "for shards, got '3'"),
        ({"shards": 3, "rank": "dense"}, "dense ranks need the distinct scores in one place"),
        ({"keep": 0}, "expected an integer from 1 to 10,000 for keep, got 0"),
        ({"keep": 10_001}, "for keep, got 10001"),
        ({"keep": True}, "for keep, got True"),
        ({"colour": "red"}, "unknown field 'colour'"),
        ({"format": 0}, "expected format 1, got 0"),
    ],
)
def test_an_invalid_definition_names_its_error(fields: dict[str, Any], message: str) -> None:
    [reported] = errors_of(**fields)
    assert message in reported


def test_all_errors_are_reported_at_once() -> None:
    reported = errors_of(
        name="no name",
        columns=[{"name": "a b", "op": "no", "scale": 99}, {"order": "up"}],
        windows=[
            "day:keep=0,tz=x",
            "week:week_start=someday",
            {"type": "day", "hours": 1},
            "7d=rolling:7d/1d,keep=9,tz=x",
        ],
        tie="x",
        rank="x",
        keep=0,
        colour="red",
    )
    for part in (
        "unknown field 'colour'",
        "expected a name for a board, got 'no name'",
        "expected a name for a column, got 'a b'",
        "for op, got 'no'",
        "for scale, got 99",
        "for order, got 'up'",
        "window 'day': expected an integer from 1 to 10,000 for keep, got 0",
        "window 'day': expected an IANA time zone such as Asia/Shanghai for tz, got 'x'",
        "for week_start, got 'someday'",
        "unknown option 'hours'",
        "window '7d': a window of type rolling takes no keep",
        "window '7d': expected an IANA time zone such as Asia/Shanghai for tz, got 'x'",
        "for tie, got 'x'",
        "for rank, got 'x'",
        "for keep, got 0",
    ):
        assert any(part in message for message in reported), part


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "-x"},
        {"name": "x" * 65},
        {"name": "héllo"},
        {"name": "x\n"},
        {"name": 7},
        {"columns": [Column("a b")]},
        {"windows": ["a b=day"]},
        {"windows": [{"name": "a:b", "type": "day"}]},
        {"windows": ["day=week"]},
        {"name": "a b", "columns": [Column("?")], "windows": ["!=day"]},
    ],
)
def test_only_invalid_names_raise_invalid_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidName) as refused:
        board(**fields)
    assert refused.value.code == "invalid_name"
    assert len(refused.value.errors) == len(fields)


COLUMNS = st.builds(
    Column,
    name=st.just("a"),
    op=st.sampled_from(["sum", "last", "best"]),
    order=st.sampled_from(["desc", "asc"]),
    scale=st.integers(0, 5),
    min=st.none() | st.integers(-1000, 0),
    max=st.none() | st.sampled_from(["0", "7", "1e3"]),
)
WINDOWS = st.lists(
    st.sampled_from(
        [
            "all",
            "hour",
            "day:keep=7",
            "w=week:week_start=sunday",
            "x=year:grace=0s",
            "7d=rolling:7d/1h",
            "rolling:60m/1m,grace=0s",
            "rolling:9d/3d,tz=Asia/Tokyo",
        ]
    ),
    min_size=1,
    unique=True,
)
BOARDS = st.builds(
    Board,
    name=st.just("b"),
    title=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    columns=st.tuples(COLUMNS),
    tie=st.sampled_from(["first", "last", "member"]),
    tie_resolution=st.integers(1, 10**7),
    rank=st.sampled_from(["ordinal", "competition", "dense"]),
    windows=WINDOWS,
    tz=st.sampled_from(["UTC", "Asia/Kathmandu", "America/Argentina/Ushuaia"]),
    grace=st.integers(0, 10**7),
    dedupe=st.integers(10**7, 10**12),
)


@given(BOARDS)
def test_a_board_round_trips_through_json(given_board: Board) -> None:
    written = given_board.to_json()
    for back in (
        Board.from_json(written),
        Board.from_json(written.decode()),
        Board.from_json(msgspec.json.decode(written)),
    ):
        assert back == given_board
        assert back.rules() == given_board.rules()
        assert back.to_json() == written


def test_json_has_the_format_and_every_field() -> None:
    fields = msgspec.json.decode(Board("b").to_json())
    assert fields.pop("format") == 1
    later = {"labels", "changes", "changes_max", "head", "close_wait", "starts", "ends"}
    later |= {"max_age", "hide_zero", "retain", "ledger"}
    assert set(fields) == set(Board.__struct_fields__) - later
    board = Board(
        "b",
        labels="ignore",
        changes="1d",
        changes_max=7,
        head=100,
        hide_zero=True,
        close_wait="2h",
        starts="2026-12-01",
        ends="2026-12-24",
        retain="30d",
        max_age="500ms",
        ledger="main",
    )
    assert set(msgspec.json.decode(board.to_json())) == {"format", *Board.__struct_fields__}


def test_numbers_in_json_are_exact() -> None:
    [column] = board_of(b'{"name":"b","columns":[{"scale":1,"min":0.1,"max":1e2}]}').columns
    assert (column.min, column.max) == (Decimal("0.1"), Decimal("100.0"))


@pytest.mark.parametrize(
    ("written", "error"),
    [
        (b"", InvalidJson),
        (b"{", InvalidJson),
        (b"[]", InvalidJson),
        (b'{"name":NaN}', InvalidJson),
        (b'{"name":"\xff"}', InvalidJson),
        ("[" * 100_000, JsonTooDeep),
        (b'{"name":"b","format":2,"colour":"red"}', FormatTooNew),
        (b'{"name":"b","format":"2"}', BoardInvalid),
        (b"{}", InvalidName),
        (b'{"name":"b","columns":[{"max":1e1000000}]}', BoardInvalid),
    ],
)
def test_invalid_board_json_is_refused(written: bytes | str, error: type[LaurelsError]) -> None:
    with pytest.raises(error):
        board_of(written)


def test_from_json_refuses_other_types() -> None:
    with pytest.raises(BoardInvalid, match="expected a board as a Board, a mapping or JSON, got 7"):
        Board.from_json(7)  # type: ignore[arg-type]


def board_of(written: bytes | str) -> Board:
    return Board.from_json(written)


@pytest.mark.parametrize(
    ("fields", "dedupe"),
    [
        ({}, "1h"),
        ({"grace": "30m"}, "1h"),
        ({"grace": "1d"}, "1d"),
        ({"windows": ["day:grace=3h", "hour:grace=90m"]}, "3h"),
        ({"windows": ["rolling:7d/1h,grace=4h"]}, "4h"),
        ({"grace": "1d", "dedupe": "2d"}, "2d"),
    ],
)
def test_ids_are_remembered_for_the_longest_grace(fields: dict[str, Any], dedupe: str) -> None:
    defined = board(**fields)
    assert defined.dedupe == dedupe
    assert Board.from_json(defined.to_json()) == defined


@pytest.mark.parametrize("head", [0, 100, 5_000, 100_000])
def test_a_head_is_a_number_of_positions(head: int) -> None:
    assert Board("b", head=head).rules().head == head


@pytest.mark.parametrize("head", [-1, 1, 99, 100_001, 1.5, "500", None, True])
def test_a_head_out_of_range_is_refused(head: Any) -> None:
    [text] = errors_of(head=head)
    assert text.startswith("expected an integer from 100 to 100,000 for head, or 0 for none, got")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rank": "dense"}, "rank by competition"),
        ({"windows": ["all", "7d=rolling:7d/1d"]}, "'7d'"),
        ({"windows": ["hot=decay:6h"]}, "'hot'"),
        ({"scopes": [[], ["room"]]}, "scopes"),
        ({"rank_by": "room"}, "rank_by"),
    ],
)
def test_options_that_need_a_full_ranking_refuse_a_head(fields: dict[str, Any], words: str) -> None:
    [message] = errors_of(head=100, **fields)
    assert words in message
