"""The result of reading a line of a file: a row with its event, or a reject with the reason.

Only the board validates events: values are passed on as they are written (text, int or Decimal,
never a float). A line without an event becomes a `Reject`, with the code of the error and the
original line.
"""

from typing import NamedTuple

from msgspec import Struct

from laurels.cli.errors import one_line
from laurels.cli.times import ReadTime
from laurels.errors import AtRequired, LaurelsError
from laurels.errors.sources import LineNotUtf8, LineTooLong

from .lines import LINE_LIMIT, too_long

VALUE = "value"
"""The default column of the value."""
BOM = b"\xef\xbb\xbf"

Value = object
"""A number as written in the file, or a tuple of them for several columns; the board validates
it."""
RawEvent = (
    tuple[str, Value, int | None, str | None]
    | tuple[str, Value, int | None, str | None, dict[str, str]]
)
"""An event: member, value, at and id; and on a board with labels, the labels of the line."""


class SourceRow(NamedTuple):
    """A line with its event. For a CSV record of several lines, `line` is the number of the
    first."""

    line: int
    raw: bytes
    event: RawEvent


class Reject(NamedTuple):
    """A line that was not counted, with the reason."""

    line: int
    code: str
    message: str
    raw: bytes


class LabelSource(Struct, frozen=True):
    """The source of a label: one `value` for all events, or a `column`.

    The column must exist if the user named it (`explicit`).
    """

    label: str
    value: str | None = None
    column: str = ""
    explicit: bool = False


class Mapping(Struct, frozen=True):
    """The names of the columns with the fields of an event.

    `explicit` contains the names that the user gave; columns with these names must exist. If the
    user did not name the column of `at` or `id`, it may be missing or empty, and the event then has
    no time or id. If the user did not name the columns of `values`, a column `value` may replace
    them. `labels` has a source for each label of the board. If the column of a label is empty, the
    event does not have the label. A label may share its column with another field only if the user
    named the column of the label.
    """

    member: str
    values: tuple[str, ...]
    at: str
    id: str
    read_time: ReadTime
    explicit: frozenset[str]
    labels: tuple[LabelSource, ...] = ()

    @property
    def taken(self) -> frozenset[str]:
        """The names of the columns for all fields except labels. The file need not have them
        all."""
        return frozenset({self.member, *self.values, VALUE, self.at, self.id})

    @property
    def constants(self) -> dict[str, str]:
        """The labels that all events have."""
        return {each.label: each.value for each in self.labels if each.value is not None}


def rejected(line: int, error: LaurelsError, raw: bytes) -> Reject:
    return Reject(line, error.code, one_line(error), raw)


def decoded(raw: bytes) -> str:
    """Return a line as text. Raises LineTooLong, LineNotUtf8."""
    if too_long(raw):
        raise LineTooLong(f"expected a line of at most {LINE_LIMIT:,} bytes, got more")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise LineNotUtf8(f"byte {error.start + 1} of the line is not UTF-8") from error


def in_time_order(rows: list[SourceRow]) -> tuple[list[SourceRow], list[Reject]]:
    """Sort rows by `at`, and rows with equal times in the order of the file. Return the sorted
    rows, and rejects for the rows without a time."""
    timed = [row for row in rows if row.event[2] is not None]
    timed.sort(key=lambda row: row.event[2] or 0)
    error = AtRequired("expected a time on the line, since events are counted in time order")
    untimed = [rejected(row.line, error, row.raw) for row in rows if row.event[2] is None]
    return timed, untimed
