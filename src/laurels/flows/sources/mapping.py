"""The mapping from the fields of a message to an event: the template of a source.

A template is one line, `board=KeyPrefix,member=UserId,value=DeltaScore`, or a JSON object with the
same names, `{"board": "{KeyPrefix}", "member": "{UserId}", "value": "{DeltaScore}"}`. On the left
of `=` is a part of the event: `board`, `member`, `value` (once for each column), `at`, `id`,
`labels` or `labels.NAME`; a part that ends with `?` is optional. On the right is a field, whose
name may have dots for nested objects; text in double quotes; or text with fields in braces. In a
JSON object every value is text with fields in braces; `value` may also be a list of such texts, and
`labels` an object with such texts.

`{field|pattern}` is the part of a field's text that the `*` of the pattern matches:
`board={KeyPrefix|lb:*:all}`. For `at` the text after the bar is a unit: s, ms, us, ns.

Numbers are never converted to floats: they stay ints, Decimals or text.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from math import floor

from msgspec import Struct

from laurels.errors import (
    InvalidAt,
    InvalidEvent,
    InvalidId,
    InvalidLabel,
    InvalidMember,
    LaurelsError,
)
from laurels.errors.sources import LineNotUtf8, LineTooLong, MissingField
from laurels.model.exact_json import decode_json
from laurels.model.validation import safe_repr

from .reader import MESSAGE_LIMIT, Message

DEFAULT = "board=board,member=member,value=value,at?=at,id?=id,labels?=labels"
"""The mapping of messages whose fields have laurels' own names."""

SUBJECT = "$subject"
"""The field that has the subject of a message."""
UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Fields = Mapping[str, object]
MappedEvent = tuple[object, object, object, str | None, dict[str, str] | None]
"""Member, value, at, id and labels, for `submit_many`."""


class ForeignMessage(Exception):  # noqa: N818 (says what the message is, not what went wrong)
    """A message is for a board that the source does not feed."""


class Field(Struct, frozen=True):
    """A field of a message: its path, and the pattern or unit after the bar."""

    path: tuple[str, ...]
    modifier: str = ""

    def read(self, fields: Fields) -> object:
        """Return the value of the field in a message, None if the message does not have it."""
        full_name = ".".join(self.path)
        if full_name in fields:
            return fields[full_name]
        value: object = fields
        for name in self.path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        return value

    def __str__(self) -> str:
        return ".".join(self.path)


class Expression(Struct, frozen=True):
    """The expression for a part of an event: a sequence of texts and fields."""

    pieces: tuple[str | Field, ...]
    optional: bool = False
    field_name: str = ""
    """The name of the field, if the expression is a single top-level field without a pattern."""

    def evaluate(self, fields: Fields) -> object:
        """Return the value of a single field unchanged, or the concatenation of several texts and
        fields. Return None if a field of an optional expression is missing or empty. Raises
        MissingField, ForeignMessage."""
        if self.field_name and (value := fields.get(self.field_name)):
            return value
        values = [_evaluate(piece, fields) for piece in self.pieces]
        for piece, value in zip(self.pieces, values, strict=True):
            if value is None or (value == "" and self.optional):
                if self.optional:
                    return None
                raise MissingField(f"the message has no {str(piece)!r}")
        return values[0] if len(values) == 1 else "".join(map(_as_text, values))

    @property
    def modifier(self) -> str:
        """The pattern or unit after the bar, for an expression that is a single field."""
        piece = self.pieces[0]
        return piece.modifier if isinstance(piece, Field) else ""


class EventMapping(Struct, frozen=True):
    """The template of a source, parsed: an expression for each part of an event."""

    board: Expression
    member: Expression
    values: tuple[Expression, ...]
    at: Expression | None = None
    id: Expression | None = None
    labels: Expression | None = None
    label: tuple[tuple[str, Expression], ...] = ()

    def board_of(self, fields: Fields) -> str:
        """Return the name of the board of a message. Raises MissingField, ForeignMessage."""
        name = self.board.evaluate(fields)
        if type(name) is int:
            return str(name)
        if not isinstance(name, str):
            raise InvalidEvent(f"expected the name of a board, got {safe_repr(name)}")
        return name

    def event_of(self, fields: Fields, taken_ms: int | None) -> MappedEvent:
        """Return the event of a message that the stream took at `taken_ms`; the board checks its
        value. Raises MissingField and the errors of members, times, ids and labels."""
        try:
            return self._event_of(fields, taken_ms)
        except ForeignMessage as error:
            raise InvalidEvent(str(error)) from None

    def _event_of(self, fields: Fields, taken_ms: int | None) -> MappedEvent:
        values = tuple(each.evaluate(fields) for each in self.values)
        at = None if self.at is None else self.at.evaluate(fields)
        id = None if self.id is None else self.id.evaluate(fields)
        return (
            _text(self.member.evaluate(fields), InvalidMember),
            values[0] if len(values) == 1 else values,
            taken_ms if at is None or self.at is None else instant(at, self.at.modifier),
            None if id is None else _text(id, InvalidId),
            self._labels(fields) or None,
        )

    def _labels(self, fields: Fields) -> dict[str, str]:
        if self.labels is None and not self.label:
            return {}
        mapped = None if self.labels is None else self.labels.evaluate(fields)
        if mapped is not None and not isinstance(mapped, Mapping):
            raise InvalidLabel(f"expected labels as an object, got {safe_repr(mapped)}")
        labels = dict(mapped or {})
        labels |= {name: each.evaluate(fields) for name, each in self.label}
        return {
            name: _text(value, InvalidLabel)
            for name, value in labels.items()
            if value is not None and value != ""
        }


def fields_of(message: Message) -> Fields:
    """Return the fields of a message, or of the JSON object in it. Raises LineTooLong, LineNotUtf8,
    InvalidEvent, and the errors of JSON."""
    if len(message.raw) > MESSAGE_LIMIT:
        raise LineTooLong(f"expected a message of at most {MESSAGE_LIMIT:,} bytes, got more")
    if message.fields is not None:
        return message.fields
    try:
        message.raw.decode()
    except UnicodeDecodeError as error:
        raise LineNotUtf8(f"byte {error.start + 1} of the message is not UTF-8") from error
    document = decode_json(message.raw)
    if not isinstance(document, dict):
        raise InvalidEvent(f"expected a JSON object, got {safe_repr(document)}")
    if message.subject is not None:  # it replaces a field `$subject`
        document[SUBJECT] = message.subject
    return document


def _evaluate(piece: str | Field, fields: Fields) -> object:
    if isinstance(piece, str):
        return piece
    value = piece.read(fields)
    if value is None or "*" not in piece.modifier:
        return value
    before, _, after = piece.modifier.partition("*")
    text = _as_text(value)
    if len(text) < len(before + after) or not (text.startswith(before) and text.endswith(after)):
        raise ForeignMessage(f"expected {piece} to match {piece.modifier!r}, got {safe_repr(text)}")
    return text[len(before) : len(text) - len(after)]


def _as_text(value: object) -> str:
    """Return text, or a number as text, for use within a longer text. Raises InvalidEvent."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal) or type(value) is int:
        return str(value)
    raise InvalidEvent(f"expected text or a number, got {safe_repr(value)}")


def _text(value: object, error_type: type[LaurelsError]) -> str:
    """Return an id as text. An integer, which many programs use as an id, becomes its digits."""
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise error_type(f"expected text or an integer, got {safe_repr(value)}")
    return value


def instant(value: object, unit: str) -> object:
    """Return a time as milliseconds, or as an aware datetime if it is in ISO 8601. Raises
    InvalidAt."""
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except InvalidOperation:
            return _from_iso(value)
    elif isinstance(value, Decimal) or type(value) is int:
        number = Decimal(value)
    else:
        raise InvalidAt(f"expected a time, got {safe_repr(value)}")
    if not number.is_finite() or abs(number) > 10**24:
        raise InvalidAt(f"expected a time, got {safe_repr(value)}")
    return floor(number * 1_000 / UNITS_PER_SECOND[unit or "ms"])


def _from_iso(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidAt(f"expected a time as ISO 8601, got {safe_repr(text)}") from error
    if instant.utcoffset() is None:
        raise InvalidAt(f"expected a time with its offset from UTC, got {safe_repr(text)}")
    return instant
