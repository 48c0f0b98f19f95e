"""Events, as callers report them, and the only code that validates their form.

An event comes as a tuple, a named tuple, a mapping or an `Event`, and becomes a row: the member's
UTF-8 bytes, one exact integer for each column of the board (in units of 10^-scale), `at` in
milliseconds and the id's bytes. Plain tuples of plain numbers are read in Cython
(`engine.batch.intake`). All other events are read by `EventReader.parse`, which has the rules.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from msgspec import Struct

from laurels.engine.batch.intake import Columns, gather
from laurels.errors import (
    IdEmpty,
    IdNotUtf8,
    IdTooLong,
    InvalidAt,
    InvalidEvent,
    InvalidId,
    InvalidMember,
    LaurelsError,
    MemberEmpty,
    MemberNotUtf8,
    MemberTooLong,
    NoScope,
    WrongColumns,
)
from laurels.timeline.instants import MAX_MS, MIN_MS

from .labels import Groups, Labels, Values, ensure_label_form
from .measures import any_measures, units_of_measures
from .rules import Rules
from .score import LIMIT, any_number, to_units
from .validation import integer, names_in_short, quoted, safe_repr

MAX_ID_BYTES = 128
MAX_BATCH = 100_000
AHEAD_MS = 5_000
"""How far ahead of the clock an `at` may be. Such an `at` is set to now."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELD_ORDER = ("member", "value", "at", "id", "labels")
_FIELDS = frozenset(_FIELD_ORDER)
_ROW_LABEL = "Index"
"""The extra field at the front of rows of pandas' `itertuples`; it is not part of the event."""

Number = int | Decimal | str
Value = Number | tuple[Number, ...] | Mapping[str, Number]
Fields = tuple[object, object, object, object, object]
Row = tuple[bytes, tuple[int, ...], int | None, bytes | None, object]


class Event(Struct, frozen=True):
    """One score report.

    `value` is an int, a Decimal or a decimal string; for several columns it is a tuple of these. It
    may also be measures of the board by name, such as {"like": 3, "gift": 10}. `at` is an aware
    datetime or integer milliseconds, by default the moment of acceptance. An event with an `id`
    counts once per member and id within the board's `dedupe`. `labels`, such as {"room": "42"},
    select the scopes of the board in which the event counts.
    """

    member: str
    value: Value
    at: datetime | int | None = None
    id: str | None = None
    labels: Mapping[str, str] | None = None


def _utf8(
    text: str,
    empty: type[LaurelsError],
    too_long: type[LaurelsError],
    not_utf8: type[LaurelsError],
    what: str,
) -> bytes:
    if not text:
        raise empty(f"expected 1 to {MAX_ID_BYTES} bytes for {what}, got none")
    try:
        coded = text.encode()
    except UnicodeEncodeError as error:
        raise not_utf8(
            f"expected valid Unicode for {what}, got {quoted(text[:40])}: {error.reason}"
        ) from error
    if len(coded) > MAX_ID_BYTES:
        raise too_long(f"expected at most {MAX_ID_BYTES} bytes for {what}, got {len(coded)}")
    return coded


def member_bytes(member: object) -> bytes:
    """Return the UTF-8 bytes of a member id of 1 to 128 bytes; raise an error for anything else."""
    if not isinstance(member, str):
        raise InvalidMember(f"expected a member id as text, got {safe_repr(member)}")
    return _utf8(member, MemberEmpty, MemberTooLong, MemberNotUtf8, "a member id")


def id_bytes(id: object) -> bytes | None:
    """Return the UTF-8 bytes of an event id of 1 to 128 bytes; None for None."""
    if id is None:
        return None
    if not isinstance(id, str):
        raise InvalidId(f"expected an event id as text, got {safe_repr(id)}")
    return _utf8(id, IdEmpty, IdTooLong, IdNotUtf8, "an event id")


def at_ms(at: object) -> int | None:
    """Return milliseconds since 1970 UTC from an aware datetime or an int; None for None."""
    if at is None:
        return None
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise InvalidAt(f"expected a time with a time zone, got {at.isoformat()}")
        at = (at - _EPOCH) // timedelta(milliseconds=1)
    instant_ms = integer(at)
    if instant_ms is None:
        raise InvalidAt(f"expected a time, got {safe_repr(at)}")
    if not MIN_MS <= instant_ms < MAX_MS:
        raise InvalidAt(f"expected `at` in the years 1900 to 9899, got {instant_ms} ms")
    return instant_ms


class EventReader:
    """Reads events of one board, and checks every rule that concerns a single event."""

    def __init__(self, rules: Rules) -> None:
        self._columns = rules.columns
        self._labels = rules.labels
        self._ignores = rules.ignores_labels
        self._counted = () in rules.scopes
        self._named = [*rules.scopes, *[(label,) for label in rules.rank_by]]
        self._scopes = [[rules.labels.index(label) for label in labels] for labels in self._named]
        self._multipliers = [10**column.scale for column in rules.columns]
        # For a sum, the range applies to the total. Only the fold knows the total and checks it.
        self._lows = [-LIMIT if c.adds_up else c.low for c in rules.columns]
        self._highs = [LIMIT if c.adds_up else c.high for c in rules.columns]

    def gather(self, events: Sequence[object]) -> Columns:
        """Return the events field by field, with the errors of refused ones; see
        `engine.batch.intake`."""
        groups = Groups(self._labels, self._ensure_counted, ignores=self._ignores)
        columns = gather(
            events,
            multipliers=self._multipliers,
            lows=self._lows,
            highs=self._highs,
            at_low=MIN_MS,
            at_high=MAX_MS - 1,
            parse=self.parse,
            error_type=LaurelsError,
            group_number=groups.number,
            always=not self._counted,
        )
        if columns.groups is not None:
            columns.labels = Labels(self._labels, tuple(groups.numbers), columns.groups)
        return columns

    def _ensure_counted(self, values: Values) -> None:
        """Raise NoScope if no scope of the board counts events with these labels."""
        if self._counted or any(all(values[i] for i in scope) for scope in self._scopes):
            return
        carried = [name for name, value in zip(self._labels, values, strict=True) if value]
        scopes = " or ".join([f"({', '.join(labels)})" for labels in self._named])
        raise NoScope(f"expected the labels {scopes}, got {', '.join(carried) or 'none'}")

    def parse(self, event: object) -> Row:
        """Return an event in any accepted form as a row, or raise the error with which it is
        refused.

        Errors that do not depend on the board come before errors of its columns. A client can check
        only the former, and so refuses an event for the same reason as the store.
        """
        member, value, at, id, labels = event_fields(event)
        own = member_bytes(member)
        if isinstance(value, Mapping):
            value = any_measures(value)
        else:
            self._ensure_numbers(value)
        instant_ms, named = at_ms(at), id_bytes(id)
        if labels is not None:
            ensure_label_form(labels)
        return own, self.units(value), instant_ms, named, labels

    def _ensure_numbers(self, value: object) -> None:
        for place, part in enumerate(value if isinstance(value, (tuple, list)) else (value,)):
            try:
                any_number(part)
            except LaurelsError as error:
                self._name_column(place, part, error)
                raise

    def _name_column(self, place: int, part: object, error: LaurelsError) -> None:
        """Raise `error` again with the column's name in its message, if the column refuses a part
        of a value with an error of the same code. Otherwise do nothing."""
        if place < len(self._columns):
            try:
                to_units(part, self._columns[place])
            except LaurelsError as named:
                if named.code == error.code:
                    raise named from None

    def units(self, value: object) -> tuple[int, ...]:
        """Return the exact integers of a score, one for each column of the board."""
        if isinstance(value, Mapping):
            return units_of_measures(value, self._columns)
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if len(values) != len(self._columns):
            names = ", ".join(column.name for column in self._columns)
            count = len(self._columns)
            expected = "1 value" if count == 1 else f"{count} values"
            raise WrongColumns(f"expected {expected} ({names}), got {len(values)}")
        return tuple(map(to_units, values, self._columns))


def event_fields(event: object) -> Fields:
    """Return the member, value, at, id and labels of an event in any accepted form. Raise
    InvalidEvent for other forms."""
    if isinstance(event, Event):
        return event.member, event.value, event.at, event.id, event.labels
    if isinstance(event, Mapping):
        if unknown := sorted(str(key) for key in event.keys() - _FIELDS):
            raise InvalidEvent(f"unknown fields in an event: {names_in_short(unknown)}")
        if "member" not in event or "value" not in event:
            raise InvalidEvent(
                f"expected an event with `member` and `value`, got {safe_repr(event)}"
            )
        last = event.get("at"), event.get("id"), event.get("labels")
        return event["member"], event["value"], *last
    names = getattr(event, "_fields", None)
    if isinstance(event, tuple) and isinstance(names, tuple):
        return _of_named_tuple(event, names)
    if isinstance(event, (tuple, list)) and 2 <= len(event) <= 5:
        member, value, at, id, labels = (*event, None, None, None)[:5]
        return member, value, at, id, labels
    if isinstance(event, (tuple, list)):
        raise InvalidEvent(f"expected 2 to 5 parts of an event, got {len(event)}")
    raise InvalidEvent(f"expected an event, got {safe_repr(event)} of type {type(event).__name__}")


def _of_named_tuple(event: tuple[object, ...], names: tuple[str, ...]) -> Fields:
    """Return the fields of a named tuple in the order of `event_fields`, with None for missing
    fields.
    """
    member, value, at, id, labels = map(_positions_of(names).get, _FIELD_ORDER)
    if member is None or value is None:
        missing = "member" if member is None else "value"
        raise InvalidEvent(
            f"expected a named tuple with the field `{missing}`, got {', '.join(names)}"
        )
    return (
        event[member],
        event[value],
        None if at is None else event[at],
        None if id is None else event[id],
        None if labels is None else event[labels],
    )


@lru_cache(256)
def _positions_of(names: tuple[str, ...]) -> dict[str, int]:
    """Return the index of each field of an event in a named tuple whose fields have these names."""
    if unknown := [name for name in names if name not in _FIELDS and name != _ROW_LABEL]:
        raise InvalidEvent(
            f"unknown fields in a named tuple: {', '.join(unknown)}; expected member, value "
            "and optionally at, id and labels"
        )
    return {name: position for position, name in enumerate(names)}


def member_of(event: object) -> str | None:
    """Return the member of an event, for the receipt of a refused event; None if the event does not
    have a member that is text."""
    try:
        member = event_fields(event)[0]
    except LaurelsError:
        return None
    return member if isinstance(member, str) else None
