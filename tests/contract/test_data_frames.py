"""Events in the types that other libraries use: rows of a data frame, named tuples, integers of
numpy."""

import warnings
from collections import namedtuple
from typing import Any, NamedTuple

import pytest

import laurels
from laurels.errors import AllEventsRefused, InvalidAt, InvalidEvent, InvalidLimit, InvalidValue

NOON_MS = 1_795_176_000_000


class Scored(NamedTuple):
    """An event as a named tuple whose fields are not in the order that `submit_many` expects of
    plain tuples."""

    value: int
    member: str


def cell(value: object, kind: str) -> Any:
    """Return a value in a numpy type, as in the cell of a data frame."""
    return series([value], kind).iloc[0]


def whole(count: int) -> Any:
    """Return an integer in a numpy type."""
    return cell(count, "uint16")


def series(values: list[Any], kind: str) -> Any:
    import pandas as pd  # noqa: PLC0415 (the import is slow, and few tests need it)

    return pd.Series(values, dtype=kind)


@pytest.fixture
def board(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    lb.create(laurels.Board("b"))
    return lb


def scores(lb: laurels.Leaderboards) -> dict[str, Any]:
    return {entry.member: entry.score for entry in lb.top("b").entries}


def frame() -> Any:
    import pandas as pd  # noqa: PLC0415 (the import is slow, and few tests need it)

    return pd.DataFrame(
        {
            "member": ["ann", "ben", "ann"],
            "value": [3, 5, 4],
            "at": [NOON_MS, NOON_MS + 1, NOON_MS + 2],
            "id": ["e1", "e2", "e3"],
        }
    )


@pytest.mark.parametrize("index", [True, False])
def test_the_rows_of_a_data_frame_are_events(board: laurels.Leaderboards, index: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        receipts = board.submit_many("b", frame().itertuples(index=index))
    assert receipts.applied == 3
    assert scores(board) == {"ann": 7, "ben": 5}
    assert board.submit_many("b", frame().itertuples(index=index)).duplicates == 3


def test_named_tuples_are_read_by_their_field_names(board: laurels.Leaderboards) -> None:
    assert board.submit_many("b", [Scored(5, "ann"), ("ben", 1), Scored(2, "ann")]).applied == 3
    assert scores(board) == {"ann": 7, "ben": 1}


def test_other_fields_of_a_named_tuple_are_refused(board: laurels.Leaderboards) -> None:
    points = namedtuple("points", "member points")
    with pytest.warns(AllEventsRefused, match="unknown fields in a named tuple: points") as warned:
        receipts = board.submit_many("b", [points("ann", 1), points("ben", 2)])
    assert [receipt.reason for receipt in receipts] == [InvalidEvent.code] * 2
    assert [warning.filename for warning in warned] == [__file__]


def test_a_frame_without_a_member_says_which_field_is_missing(
    board: laurels.Leaderboards,
) -> None:
    rows = frame().set_index("member")[["value"]]
    with pytest.warns(AllEventsRefused, match="the field `member`, got Index, value"):
        board.submit_many("b", rows.itertuples())


def test_a_partly_refused_batch_does_not_warn(board: laurels.Leaderboards) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert board.submit_many("b", [("ann", 0.5), ("ben", 1)]).refused == 1
        assert len(board.submit_many("b", [])) == 0


def test_numpy_integers_are_integers(board: laurels.Leaderboards) -> None:
    row = frame().iloc[0]
    value, at = row["value"], row["at"]
    assert type(value) is not int
    assert board.submit("b", "ann", value, at=at).score == 3
    board.submit("b", "ben", whole(9))
    assert [entry.member for entry in board.top("b", limit=frame()["value"][0])] == ["ben", "ann"]
    assert [entry.member for entry in board.range("b", low=value, high=whole(8))] == ["ann"]
    assert len(board.around("b", "ann", radius=whole(1)) or ()) == 2
    second = board.at_rank("b", whole(1))
    assert second is not None
    assert second.member == "ben"
    standing = board.standing("b", "ann", to_rank=whole(1))
    assert standing is not None
    assert standing.to_rank is not None
    assert (type(standing.to_rank.rank), standing.to_rank.gap) == (int, 6)
    assert board.count("b", low=value) == 2
    assert board.score_at_percentile("b", whole(100)) == 9
    assert board.change("b", keep=whole(9)).keep == 9


@pytest.mark.parametrize("value", [True, 1.0, (1.5, "float64"), (True, "bool")])
def test_numpy_values_that_are_not_integers_are_refused(
    board: laurels.Leaderboards, value: Any
) -> None:
    if isinstance(value, tuple):
        value = cell(*value)
    with pytest.raises(InvalidValue):
        board.submit("b", "ann", value)
    with pytest.raises(InvalidAt):
        board.submit("b", "ann", 1, at=value)
    with pytest.raises(InvalidLimit):
        board.top("b", limit=value)


def test_a_batch_on_the_command_line_does_not_warn(tmp_path: Any) -> None:
    """The Python warning is not raised, because the command itself reports refused events line by
    line."""
    from laurels.cli import main  # noqa: PLC0415

    (tmp_path / "bad.csv").write_text("member,value\nann,0x\nben,1y\n")
    at = str(tmp_path / "boards")
    assert main(["board", "create", "b", "--at", at]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["import", "b", str(tmp_path / "bad.csv"), "--at", at]) == 1
