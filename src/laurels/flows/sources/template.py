"""Reading the template of a source, as text or as a JSON object."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from laurels.errors.sources import InvalidTemplate
from laurels.model.validation import safe_repr

from .mapping import UNITS_PER_SECOND, EventMapping, Expression, Field

_PARTS = ("board", "member", "value", "at", "id", "labels")
_ITEM = re.compile(r'((?:[^,{}"]|"[^"]*"|\{[^{}]*\})+)(?:,|$)')
_PLAIN = re.compile(r"[^{}\"]+")
_FIELD = re.compile(r"\{([^{}]*)\}")


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
    if not all(names) or (bar and modifier.count("*") != 1 and modifier not in UNITS_PER_SECOND):
        raise InvalidTemplate(
            f"expected FIELD, FIELD|PATTERN with one *, or FIELD|UNIT, got {safe_repr(text)}"
        )
    return Field(names, modifier)


def _ensure_units(at: Expression | None) -> None:
    if at is not None and (len(at.pieces) > 1 or "*" in at.modifier):
        raise InvalidTemplate("expected one field for at, with s, ms, us or ns after its bar")
