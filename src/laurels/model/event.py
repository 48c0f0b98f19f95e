"""Events: what a caller reports, and the only place that validates their form.

An event comes as a tuple, a named tuple, a mapping or an `Event`, and becomes a row of columns: the
member's UTF-8 bytes, one exact integer per column (in units of 10^-scale), `at` in milliseconds and
the id's bytes. Plain tuples of plain numbers are read in Cython (`engine.batch.intake`). All other
events are read by `EventReader.parse`, which has the rules.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.intake import Columns, gather
from laurels.engine.batch.packing import split_texts
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
from laurels.model.windows.weighing import Weighing, Weights
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


class Batch(Struct, frozen=True):
    """Events of one board as columns, all accepted at `now_ms`: the input of the fold.

    In event time each event was accepted at one of `nows`. These times never decrease and end with
    `now_ms`. A batch is made so that every window accepts the same events at all these times.

    `position` is the progress of an import after these events: the name of its source and a text.
    `follows` is the text that must be stored for that source before, "" for none, None if any text
    will do; with `behind`, the shards that have stored `follows` count their events, and the others
    skip them. Whether events are late is judged as of `judged_ms`, the time at which a stream took
    them, or `now_ms` without it. `tag` is the random number of their log record, if the board keeps
    changes. `weights` are the weights at the events' instants, as far as they have been computed.
    `labels` is None if no event has labels.
    """

    board: int
    now_ms: int
    size: int
    members: bytes
    lengths: bytes
    values: tuple["array[int]", ...]
    ats: "array[int] | None" = None
    ids: list[bytes | None] | None = None
    absolute: bool = False
    atomic: bool = False
    position: tuple[str, str] | None = None
    weights: dict[Weighing, Weights] = {}
    labels: Labels | None = None
    nows: "array[int] | None" = None
    tag: int = 0
    follows: str | None = None
    behind: bool = False
    judged_ms: int | None = None

    def member(self, i: int) -> bytes:
        """Return the id of event i's member; O(i)."""
        start = sum(self.lengths[:i])
        return self.members[start : start + self.lengths[i]]

    def member_list(self) -> list[bytes]:
        """Return the ids of all members, in the order of the events."""
        return split_texts(self.members, self.lengths)

    def accepted_at(self, i: int) -> int:
        """Return the time at which event i was accepted."""
        return self.now_ms if self.nows is None else self.nows[i]

    def accepted_from(self, now_ms: int) -> "Batch":
        """Return the batch with `now_ms` in place of earlier times of acceptance."""
        if now_ms <= self.now_ms and (self.nows is None or now_ms <= self.nows[0]):
            return self
        nows = self.nows and array("q", [max(each, now_ms) for each in self.nows])
        return replace(self, now_ms=max(self.now_ms, now_ms), nows=nows)

    def at(self, i: int) -> int:
        return self.now_ms if self.ats is None else self.ats[i]

    def weights_in(self, weighing: Weighing) -> Weights:
        """Return the weights of the events, from the log or otherwise computed from the events'
        times.
        """
        if (cached := self.weights.get(weighing)) is not None:
            return cached
        return weighing.weights(self.now_ms if self.ats is None else self.ats)

    def weighed(self, weighings: Iterable[Weighing]) -> "Batch":
        """Return the batch with the weights of its events."""
        weights = {weighing: self.weights_in(weighing) for weighing in weighings}
        return replace(self, weights=weights) if weights else self

    def split(self, ends: Sequence[int], nows: "array[int]") -> list["Batch"]:
        """Return parts of the batch: each part ends before the next position in `ends`. `nows` has
        the time at which each event is accepted. O(size)."""
        parts, start, place = [], 0, 0
        for end in ends:
            lengths = self.lengths[start:end]
            width = sum(lengths)
            parts.append(
                replace(
                    self,
                    now_ms=nows[end - 1],
                    nows=nows[start:end],
                    size=end - start,
                    members=self.members[place : place + width],
                    lengths=lengths,
                    values=tuple([column[start:end] for column in self.values]),
                    ats=None if self.ats is None else self.ats[start:end],
                    ids=None if self.ids is None else self.ids[start:end],
                    weights={},
                    labels=None if self.labels is None else self.labels.span(start, end),
                )
            )
            start, place = end, place + width
        return parts

    def take(self, kept: Sequence[int]) -> "Batch":
        """Return a batch with only the events at the positions `kept`; O(size)."""
        return next(self.taken([kept]))

    def taken(self, positions: Iterable[Sequence[int]]) -> Iterator["Batch"]:
        """Yield a batch for each of several lists of positions. Each batch has the events at these
        positions, which may be in any order. O(size), and O(positions) for each list."""
        members, ids = self.member_list(), self.ids
        for kept in positions:
            yield replace(
                self,
                size=len(kept),
                members=b"".join([members[i] for i in kept]),
                lengths=bytes([self.lengths[i] for i in kept]),
                values=tuple([array("q", [column[i] for i in kept]) for column in self.values]),
                ats=None if self.ats is None else array("q", [self.ats[i] for i in kept]),
                ids=None if ids is None else [ids[i] for i in kept],
                weights={length: cached.take(kept) for length, cached in self.weights.items()},
                labels=None if self.labels is None else self.labels.take(kept),
                nows=None if self.nows is None else array("q", [self.nows[i] for i in kept]),
            )


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
        # The range of a sum limits the total, which only the fold knows.
        self._lows = [-LIMIT if c.adds_up else c.low for c in rules.columns]
        self._highs = [LIMIT if c.adds_up else c.high for c in rules.columns]

    def gather(self, events: Sequence[object]) -> Columns:
        """Return the events as columns, with the errors of refused ones; see
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
        """Raise an error with the same code as `error`, and with the column's name in its message.
        If there is no such column, do nothing."""
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
    """Return the positions of an event's fields in a named tuple with these names."""
    if unknown := [name for name in names if name not in _FIELDS and name != _ROW_LABEL]:
        raise InvalidEvent(
            f"unknown fields in a named tuple: {', '.join(unknown)}; expected member, value "
            "and optionally at, id and labels"
        )
    return {name: position for position, name in enumerate(names)}


def member_of(event: object) -> str | None:
    """Return the member of an event as far as it can be read, for the receipt of a refused
    event."""
    try:
        member = event_fields(event)[0]
    except LaurelsError:
        return None
    return member if isinstance(member, str) else None


def batch_of(
    columns: Columns,
    board: int,
    now_ms: int,
    *,
    absolute: bool = False,
    atomic: bool = False,
) -> Batch:
    """Return columns as a batch accepted at `now_ms`. The times `at` are not changed."""
    return Batch(
        board=board,
        now_ms=now_ms,
        size=columns.n,
        members=columns.arena,
        lengths=columns.lengths,
        values=columns.values,
        ats=columns.ats,
        ids=columns.ids,
        absolute=absolute,
        atomic=atomic,
        labels=columns.labels,
    )
