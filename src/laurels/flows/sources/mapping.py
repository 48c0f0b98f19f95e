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

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from math import floor
from typing import Any

import msgspec
from msgspec import Struct

from laurels.errors import (
    InvalidAt,
    InvalidEvent,
    InvalidId,
    InvalidLabel,
    InvalidMember,
    LaurelsError,
)
from laurels.errors.sources import InvalidTemplate, LineNotUtf8, LineTooLong, MissingField
from laurels.model.exact_json import decode_json
from laurels.model.validation import safe_repr

from .reader import MESSAGE_LIMIT, Message

DEFAULT = "board=board,member=member,value=value,at?=at,id?=id,labels?=labels"
"""The mapping of messages whose fields have laurels' own names."""

SUBJECT = "$subject"
"""The field that has the subject of a message."""
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_PARTS = ("board", "member", "value", "at", "id", "labels")
_ITEM = re.compile(r'((?:[^,{}"]|"[^"]*"|\{[^{}]*\})+)(?:,|$)')
_FIELD = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"[^{}\"]+")

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
    if message.subject is not None:  # takes the place of a field `$subject`
        document[SUBJECT] = message.subject
    return document


def parse_mapping(text: str) -> EventMapping:
    """Parse a template. Raises InvalidTemplate."""
    text = text.strip()
    items = list(_json_items(text) if text.startswith("{") else _listed_items(text))
    values = tuple(each for name, each in items if name == "value")
    single = [name for name, _ in items if name != "value"]
    if repeated := sorted({name for name in single if single.count(name) > 1}):
        raise InvalidTemplate(f"the mapping has {', '.join(repeated)} more than once")
    named = dict(items)
    if missing := [name for name in ("board", "member", "value") if name not in named]:
        raise InvalidTemplate(f"the mapping has no {', '.join(missing)}")
    _ensure_units(named.get("at"))
    return EventMapping(
        board=named["board"],
        member=named["member"],
        values=values,
        at=named.get("at"),
        id=named.get("id"),
        labels=named.get("labels"),
        label=tuple(
            (name.removeprefix("labels."), each)
            for name, each in items
            if name.startswith("labels.")
        ),
    )


def _listed_items(text: str) -> Iterator[tuple[str, Expression]]:
    """Yield the parts of an event from a template such as `name=field,name=field`."""
    offset = 0
    while offset < len(text):
        match = _ITEM.match(text, offset)
        name, equals, expression = ("", "", "") if match is None else match[1].partition("=")
        if match is None or not equals:
            raise InvalidTemplate(f"expected name=FIELD at {safe_repr(text[offset : offset + 40])}")
        expression = expression.strip()
        if expression.startswith('"') and expression.endswith('"') and len(expression) > 1:
            yield _item(name, (expression[1:-1],))
        elif "{" in expression:
            yield _item(name, _parse_pieces(expression))
        elif _PLAIN.fullmatch(expression):
            yield _item(name, (_parse_field(expression),))
        else:
            raise InvalidTemplate(
                f"expected a field for {safe_repr(name)}, got {safe_repr(expression)}"
            )
        offset = match.end()


def _json_items(text: str) -> Iterator[tuple[str, Expression]]:
    """Yield the parts of an event from a template that is a JSON object."""
    try:
        items = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise InvalidTemplate(f"the mapping is not a JSON object: {error}") from error
    for name, value in items.items():
        if name == "value" and isinstance(value, list):
            yield from (_item(name, _json_pieces(name, each)) for each in value)
        elif name == "labels" and isinstance(value, dict):
            for label, each in value.items():
                yield _item(f"labels.{label}", _json_pieces(label, each))
        else:
            yield _item(name, _json_pieces(name, value))


def _json_pieces(name: str, value: object) -> tuple[str | Field, ...]:
    if not isinstance(value, str):
        raise InvalidTemplate(f"expected text for {safe_repr(name)}, got {safe_repr(value)}")
    return _parse_pieces(value)


def _item(name: str, pieces: tuple[str | Field, ...]) -> tuple[str, Expression]:
    name = name.strip()
    optional, name = name.endswith("?"), name.removesuffix("?")
    label = name.removeprefix("labels.")
    if name not in _PARTS and (label == name or not label):
        raise InvalidTemplate(
            f"expected one of {', '.join(_PARTS)} or labels.NAME, got {safe_repr(name)}"
        )
    if optional and name in ("board", "member", "value"):
        raise InvalidTemplate(f"every event needs its {name}: remove the ? after it")
    return name, Expression(pieces, optional, _field_name(pieces))


def _field_name(pieces: tuple[str | Field, ...]) -> str:
    piece = pieces[0]
    if len(pieces) > 1 or isinstance(piece, str) or len(piece.path) > 1 or "*" in piece.modifier:
        return ""
    return piece.path[0]


def _parse_pieces(text: str) -> tuple[str | Field, ...]:
    """Split a text that has fields in braces into texts and fields."""
    outside_fields = _FIELD.sub("", text)
    if "{" in outside_fields or "}" in outside_fields:
        raise InvalidTemplate(f"expected every brace to have its counterpart in {safe_repr(text)}")
    split = _FIELD.split(text)
    pieces = [_parse_field(part) if i % 2 else part for i, part in enumerate(split)]
    return tuple(piece for piece in pieces if piece != "") or ("",)


def _parse_field(text: str) -> Field:
    path, bar, modifier = text.partition("|")
    names = tuple(path.strip().split("."))
    if not all(names) or (bar and modifier.count("*") != 1 and modifier not in _UNITS_PER_SECOND):
        raise InvalidTemplate(
            f"expected FIELD, FIELD|PATTERN with one *, or FIELD|UNIT, got {safe_repr(text)}"
        )
    return Field(names, modifier)


def _ensure_units(at: Expression | None) -> None:
    if at is not None and (len(at.pieces) > 1 or "*" in at.modifier):
        raise InvalidTemplate("expected one field for at, with s, ms, us or ns after its bar")


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
    return floor(number * 1_000 / _UNITS_PER_SECOND[unit or "ms"])


def _from_iso(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidAt(f"expected a time as ISO 8601, got {safe_repr(text)}") from error
    if instant.utcoffset() is None:
        raise InvalidAt(f"expected a time with its offset from UTC, got {safe_repr(text)}")
    return instant
