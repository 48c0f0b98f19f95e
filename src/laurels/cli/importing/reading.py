"""What a line of a file becomes: a row with the event it holds, or a reject with the reason.

Nothing is judged here that the board can judge: values leave as they are written (text, int or
Decimal, never a float). What holds no event at all leaves as a `Reject`, with the code of the
error and the line as it stood in the file.
"""

from typing import NamedTuple

from msgspec import Struct

from laurels.cli.failures import one_line
from laurels.cli.times import ReadTime
from laurels.errors import AtRequired, LaurelsError
from laurels.errors.sources import LineNotUtf8, LineTooLong

from .lines import LINE_LIMIT, too_long

VALUE = "value"
"""Where the value is looked for when no column was named."""
BOM = b"\xef\xbb\xbf"

Value = object
"""A number as the file writes it, a tuple of them for several columns; the board judges it."""
RawEvent = (
    tuple[str, Value, int | None, str | None]
    | tuple[str, Value, int | None, str | None, dict[str, str]]
)
"""Member, value, at and id, and on a board with labels those the line has."""


class SourceRow(NamedTuple):
    """A line (or the lines of one CSV record, named by the first) and the event it holds."""

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

    A column that the user named explicitly must exist.
    """

    label: str
    value: str | None = None
    column: str = ""
    explicit: bool = False


class Mapping(Struct, frozen=True):
    """Where a line has what an event needs.

    `explicit` are the names that the user gave. Any other may be missing from the source, or empty:
    `at` and `id` are then left out, and the values may also stand in one column named `value`. A
    label whose column is empty is left out, and its column is never one of something else. `labels`
    has a source for each label of the board.
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
        """Return the names under which a line has something other than a label."""
        return frozenset({self.member, *self.values, VALUE, self.at, self.id})

    @property
    def constants(self) -> dict[str, str]:
        """Return the labels that all events have."""
        return {each.label: each.value for each in self.labels if each.value is not None}


def rejected(line: int, error: LaurelsError, raw: bytes) -> Reject:
    return Reject(line, error.code, one_line(error), raw)


def decoded(raw: bytes) -> str:
    """Decode a line; raises LineTooLong, LineNotUtf8."""
    if too_long(raw):
        raise LineTooLong(f"expected a line of at most {LINE_LIMIT:,} bytes, got more")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise LineNotUtf8(f"byte {error.start + 1} of the line is not UTF-8") from error


def in_time_order(rows: list[SourceRow]) -> tuple[list[SourceRow], list[Reject]]:
    """Sort rows by `at`, equal times in the order of the file; reject those without one."""
    timed = [row for row in rows if row.event[2] is not None]
    timed.sort(key=lambda row: row.event[2] or 0)
    refusal = AtRequired("the line has no time, and events are to be put in time order")
    untimed = [rejected(row.line, refusal, row.raw) for row in rows if row.event[2] is None]
    return timed, untimed
