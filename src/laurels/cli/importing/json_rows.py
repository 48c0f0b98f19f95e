"""JSON Lines: each line is an object with the fields of an event."""

from collections.abc import Iterator

from laurels.errors import InvalidEvent, InvalidId, InvalidLabel, InvalidMember, LaurelsError
from laurels.errors.sources import MissingField
from laurels.model.exact_json import decode_json
from laurels.model.validation import safe_repr

from .lines import Lines
from .reading import BOM, VALUE, Mapping, RawEvent, Reject, SourceRow, Value, decoded, rejected


def looks_like_json(lines: Lines) -> bool:
    """Return whether the first line that is not blank begins a JSON object. No line is consumed."""
    place = 0
    while (raw := lines.look_ahead(place)) and not raw.removeprefix(BOM).strip():
        place += 1
    return raw.removeprefix(BOM).lstrip().startswith(b"{")


LABELS = "labels"
"""The key of the object with an event's labels."""
_NONE = (None, "")
_SCORE = "score"
"""The key that an export uses for the value."""


class JsonRows:
    """The events of a JSON Lines source, with one object on each line. Keys without a meaning are
    ignored."""

    def __init__(self, lines: Lines, mapping: Mapping) -> None:
        self._lines = lines
        self._mapping = mapping
        self._taken = mapping.explicit | mapping.taken | {LABELS, _SCORE}

    def __iter__(self) -> Iterator[SourceRow | Reject]:
        lines = self._lines
        while raw := lines.take():
            if raw.isspace():
                continue
            try:
                yield SourceRow(lines.line, raw, self._event(raw))
            except LaurelsError as error:
                yield rejected(lines.line, error, raw)

    def _event(self, raw: bytes) -> RawEvent:
        decoded(raw)
        fields = decode_json(raw.removeprefix(BOM))
        if not isinstance(fields, dict):
            raise InvalidEvent(f"expected a JSON object on the line, got {safe_repr(fields)}")
        mapping = self._mapping
        at = self._optional(fields, mapping.at)
        id = self._optional(fields, mapping.id)
        event = (
            _text(_required(fields, mapping.member), InvalidMember),
            self._value(fields),
            None if at is None else mapping.read_time(at),
            None if id is None or id == "" else _text(id, InvalidId),
        )
        labels = self._labels(fields)
        return (*event, labels) if labels else event

    def _labels(self, fields: dict[str, object]) -> dict[str, str]:
        """Return the labels of an event: from its object `labels`, or from fields with their names.

        Options of the user take precedence.
        """
        if not self._mapping.labels:
            return {}
        label_fields = fields.get(LABELS)
        if label_fields is not None and not isinstance(label_fields, dict):
            raise InvalidLabel(f"expected labels as an object, got {label_fields!r:.60}")
        labels = dict(label_fields or {})
        for each in self._mapping.labels:
            if each.value is not None:
                labels[each.label] = each.value
            elif each.explicit or (each.label not in labels and each.column not in self._taken):
                labels[each.label] = fields.get(each.column)
        return {
            name: _text(value, InvalidLabel) for name, value in labels.items() if value not in _NONE
        }

    def _optional(self, fields: dict[str, object], name: str) -> object:
        if name in self._mapping.explicit:
            return _required(fields, name)
        return None if name in self._mapping.values else fields.get(name)

    def _value(self, fields: dict[str, object]) -> Value:
        mapping = self._mapping
        if not mapping.explicit.intersection(mapping.values):
            if VALUE in fields:
                return fields[VALUE]
            if _SCORE in fields and not fields.keys() >= set(mapping.values):
                return fields[_SCORE]
        values = [_required(fields, name) for name in mapping.values]
        return values[0] if len(values) == 1 else tuple(values)


def _required(fields: dict[str, object], name: str) -> object:
    if fields.get(name) is None:
        raise MissingField(f"expected the field {name!r} in the object, got none")
    return fields[name]


def _text(value: object, error_type: type[LaurelsError]) -> str:
    """Return an id as text. An integer, which many sources use as an id, becomes its decimal
    digits. Raise an error of type `error_type` for any other value."""
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise error_type(f"expected text or an integer, got {value!r:.60}")
    return value
