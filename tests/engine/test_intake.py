"""Events are gathered as columns: the fast path for a batch gives the same columns as `parse` for
each event."""

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.engine.batch.intake import MISSING, Columns, gather

LIMIT = 2**53 - 1
AT_LOW, AT_HIGH = -(10**12), 10**14
Row = tuple[bytes, tuple[int, ...], int | None, bytes | None, object]


class RefusedError(Exception):
    """The error that `Rules` raises."""


class Rules:
    """The rules for gathering events, in plain form. They count the calls of `parse`."""

    def __init__(
        self, multipliers: Sequence[int], lows: Sequence[int], highs: Sequence[int]
    ) -> None:
        self.multipliers, self.lows, self.highs = multipliers, lows, highs
        self.calls = 0
        self.always = False

    def parse(self, event: object) -> Row:
        self.calls += 1
        if not isinstance(event, (tuple, list)) or not 2 <= len(event) <= 5:
            raise RefusedError("form")
        member, value, at, id, labels = (*event, None, None, None)[:5]
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        if len(numbers) != len(self.multipliers):
            raise RefusedError("columns")
        return self.text(member), self.units(numbers), self.at(at), id and self.text(id), labels

    def labelled(self, labels: object) -> int:
        """Return the number of a label set. In this test, a label set is its number, and an event
        without labels has the number 7."""
        if labels is None:
            return 7
        if not isinstance(labels, int):
            raise RefusedError("labels")
        return labels

    def units(self, numbers: Sequence[object]) -> tuple[int, ...]:
        units = []
        for i, value in enumerate(numbers):
            if isinstance(value, bool) or not isinstance(value, int):
                raise RefusedError("value")
            units.append(value * self.multipliers[i])
            if not self.lows[i] <= units[i] <= self.highs[i]:
                raise RefusedError("range")
        return tuple(units)

    def text(self, text: object) -> bytes:
        if not isinstance(text, str):
            raise RefusedError("text")
        try:
            coded = text.encode()
        except UnicodeEncodeError as error:
            raise RefusedError("unicode") from error
        if not 1 <= len(coded) <= 128:
            raise RefusedError("length")
        return coded

    def at(self, at: object) -> int | None:
        if at is None:
            return None
        if type(at) is not int or not AT_LOW <= at <= AT_HIGH:
            raise RefusedError("at")
        return at

    def gather(self, events: Sequence[object]) -> Columns:
        return gather(
            events,
            multipliers=self.multipliers,
            lows=self.lows,
            highs=self.highs,
            at_low=AT_LOW,
            at_high=AT_HIGH,
            parse=self.parse,
            error_type=RefusedError,
            group_number=self.labelled,
            always=self.always,
        )


def rows_of(columns: Columns) -> list[Row]:
    """Return the events of gathered columns as rows."""
    rows: list[Row] = []
    start = 0
    for i, length in enumerate(columns.lengths):
        member = columns.arena[start : start + length]
        start += length
        at = None if columns.ats is None or columns.ats[i] == MISSING else columns.ats[i]
        id = None if columns.ids is None else columns.ids[i]
        labels = None if columns.groups is None else columns.groups[i]
        rows.append((member, tuple(column[i] for column in columns.values), at, id, labels))
    assert start == len(columns.arena)
    return rows


def compare(rules: Rules, events: Sequence[object]) -> Columns:
    """Gather a batch, and compare the columns with the results of `parse` for each event."""
    columns = rules.gather(events)
    rows, kept, refused = [], [], []
    for place, event in enumerate(events):
        try:
            row = rules.parse(event)
            number = rules.labelled(row[4])
            rows.append(row if columns.groups is None else (*row[:4], number))
            kept.append(place)
        except RefusedError as error:
            refused.append((place, str(error)))
    assert columns.n == len(rows) == len(columns.lengths)
    assert rows_of(columns) == rows
    assert [(place, str(error)) for place, error in columns.errors] == refused
    assert columns.kept == (array("I", kept) if refused else None)
    assert (columns.ats is None) == all(row[2] is None for row in rows)
    assert (columns.ids is None) == all(row[3] is None for row in rows)
    return columns


numbers = st.one_of(
    st.integers(-1000, 1000),
    st.integers(-(2**70), 2**70),
    st.sampled_from([LIMIT, -LIMIT, LIMIT + 1, 2**63, -(2**63), True, 1.5, None, "7"]),
)
texts = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["x" * 128, "x" * 129, "é" * 64, "é" * 65, "\ud800", b"bytes", None]),
)
times = st.one_of(st.none(), st.integers(AT_LOW - 2, AT_HIGH + 2), st.sampled_from([True, 2**64]))
values = st.one_of(numbers, st.tuples(numbers), st.tuples(numbers, numbers), st.lists(numbers))
events = st.one_of(
    st.tuples(texts, values),
    st.tuples(texts, values, times),
    st.tuples(texts, values, times, texts),
    st.lists(texts, max_size=5).map(tuple),
    st.tuples(texts, values).map(list),
    st.none(),
)


@given(batch=st.lists(events, max_size=30), columns=st.integers(1, 2), scale=st.integers(0, 15))
def test_any_batch_is_read_as_the_plain_rules_read_it(
    batch: list[object], columns: int, scale: int
) -> None:
    highs = [LIMIT, 500][:columns]
    compare(Rules([10**scale] * columns, [-high - 1 for high in highs], highs), batch)


def test_plain_events_take_the_fast_path() -> None:
    rules = Rules([1], [-LIMIT], [LIMIT])
    plain: list[object] = [("alice", 5), ("bö", -5, None), ("c", 0, 7), ("d", 1, 8, "id"), ("e", 2)]
    columns = rules.gather(plain)
    assert rules.calls == 0
    assert rows_of(columns) == [rules.parse(event) for event in plain]
    two = Rules([100, 1], [-LIMIT] * 2, [LIMIT] * 2)
    assert rows_of(two.gather([("a", (1, 2))])) == [(b"a", (100, 2), None, None, None)]
    assert two.calls == 0


def test_the_bounds_of_a_scaled_column_are_exact() -> None:
    rules = Rules([100], [-250], [250])
    compare(rules, [("a", value) for value in (-3, -2, 2, 3)])
    rules.calls = 0
    rules.gather([("a", -2), ("a", 2)])
    assert rules.calls == 0


def test_subclasses_are_not_plain() -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    rules = Rules([1], [-LIMIT], [LIMIT])
    compare(rules, [(Text("a"), 1), ("a", Number(1)), ("a", 1, None, Text("i"))])
    assert rules.calls == 6


def test_a_large_batch_of_long_members_is_read_as_the_plain_rules_read_it() -> None:
    rules = Rules([1], [-LIMIT], [LIMIT])
    compare(rules, [("ü" * (i % 64 + 1), i) for i in range(5_000)])


def test_errors_other_than_refusals_are_not_collected() -> None:
    def parse(_: object) -> Row:
        raise KeyError("not a refusal")

    with pytest.raises(KeyError):
        gather(
            [None], multipliers=[1], lows=[0], highs=[1], at_low=0, at_high=1,
            parse=parse, error_type=RefusedError, group_number=Rules([1], [0], [1]).labelled,
        )  # fmt: skip


@pytest.mark.parametrize("always", [False, True])
def test_labels_are_numbered_as_soon_as_an_event_has_some(always: bool) -> None:
    rules = Rules([1], [-LIMIT], [LIMIT])
    rules.always = always
    columns = compare(rules, [("a", 1), ("b", 2, None, None, None)])
    assert (columns.groups is None) == (not always)
    columns = compare(rules, [("a", 1), ("b", 2, None, None, 3), ["c", 4], ["d", 4, 5, "i", 1]])
    assert columns.groups == array("q", [7, 3, 7, 1])
    columns = compare(rules, [("a", 1), ("b", 2, None, None, "x"), ("c", 3, None, "y", 2)])
    assert columns.groups == array("q", [7, 2])
    assert columns.kept == array("I", [0, 2])


def test_an_empty_batch_has_empty_columns() -> None:
    columns = compare(Rules([1], [0], [1]), [])
    assert (columns.n, columns.arena, columns.values) == (0, b"", (array("q"),))


def test_collected_errors_never_hold_frames() -> None:
    """While the batch is being read, no error has a traceback. The garbage collector would
    otherwise visit all frames of all errors."""
    rules, raised = Rules([1], [0], [10]), list[RefusedError]()

    def parse(event: object) -> Row:
        assert all(error.__traceback__ is None for error in raised)
        try:
            return rules.parse(event)
        except RefusedError as error:
            raised.append(error)
            raise error from KeyError("cause")

    columns = gather(
        [("a", 11), ("b", 12), ("c", 13)],
        multipliers=[1],
        lows=[0],
        highs=[10],
        at_low=AT_LOW,
        at_high=AT_HIGH,
        parse=parse,
        error_type=RefusedError,
        group_number=rules.labelled,
    )
    errors = [error for _, error in columns.errors]
    assert errors == raised
    assert len(errors) == 3
    assert all(error.__cause__ is error.__context__ is None for error in errors)
