"""CSV: each record has the fields of an event. A field is found by its name in the header, or by
its number."""

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from laurels.cli.errors import InvalidCsv, Usage, WrongFieldCount
from laurels.errors import LaurelsError
from laurels.errors.sources import MissingField

from .lines import Lines, too_long
from .reading import BOM, VALUE, Mapping, RawEvent, Reject, SourceRow, decoded, rejected

RECORD_LINES = 100
"""The maximum number of lines of a record with a quoted field."""
_SMALL_INT_DIGITS = 15


class _Places(NamedTuple):
    """The indices of an event's fields in a record. `labels` has the name of each label that has a
    field, and the index of this field."""

    member: int
    values: tuple[int, ...]
    at: int | None
    id: int | None
    labels: tuple[tuple[str, int], ...] = ()


class CsvRows:
    """The events of a CSV source. The constructor reads the header from `lines`.

    Every record must have as many fields as the header. Without a header, columns are numbered from
    1.
    """

    def __init__(self, lines: Lines, mapping: Mapping, *, delimiter: str, header: bool) -> None:
        self._lines = lines
        self._delimiter = delimiter
        self._mapping = mapping
        self._width: int | None = None
        if header:
            names = self._header()
            self._width = len(names)
            self._places = _places_in(names, mapping)
        else:
            self._places = _numbered(mapping)
        self._needed = 1 + max(
            self._places.member,
            *self._places.values,
            -1 if self._places.at is None else self._places.at,
            -1 if self._places.id is None else self._places.id,
            *[place for _, place in self._places.labels],
        )
        self._constants = mapping.constants

    def __iter__(self) -> Iterator[SourceRow | Reject]:
        lines = self._lines
        while raw := lines.take():
            line = lines.line
            if raw.isspace():
                continue
            try:
                fields, raw = self._fields(raw)
                yield SourceRow(line, raw, self._event(fields))
            except LaurelsError as error:
                yield rejected(line, error, raw)

    def _header(self) -> list[str]:
        raw = self._lines.take().removeprefix(BOM)
        while raw.isspace():
            raw = self._lines.take().removeprefix(BOM)
        if not raw:
            raise Usage("expected a header, got an empty source: give --no-header if there is none")
        fields, _ = self._fields(raw)
        return [field.strip() for field in fields]

    def _fields(self, raw: bytes) -> tuple[list[str], bytes]:
        text = decoded(raw)
        if '"' not in text:
            return text.rstrip("\r\n").split(self._delimiter), raw
        return self._quoted(text, raw)

    def _quoted(self, text: str, raw: bytes) -> tuple[list[str], bytes]:
        """Return the fields of a record with quotes, which may extend over several lines, and the
        bytes of the record.

        If a record is malformed, only its first line is consumed, so a stray quote costs one line
        and not the rest of the file.
        """
        more: list[bytes] = []

        def record() -> Iterator[str]:
            yield text
            while len(more) < RECORD_LINES - 1 and (following := self._line_after(len(more))):
                more.append(following)
                yield decoded(following)

        try:
            fields = next(csv.reader(record(), delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            raise InvalidCsv(str(error)) from error
        for _ in more:
            self._lines.take()
        return fields, b"".join([raw, *more])

    def _line_after(self, place: int) -> bytes:
        raw = self._lines.look_ahead(place)
        return b"" if too_long(raw) else raw

    def _event(self, fields: Sequence[str]) -> RawEvent:
        if self._width is not None and len(fields) != self._width:
            raise WrongFieldCount(
                f"expected {self._width} fields as in the header, got {len(fields)}"
            )
        if len(fields) < self._needed:
            raise MissingField(f"expected at least {self._needed} fields, got {len(fields)}")
        places = self._places
        values = [_number(fields[place]) for place in places.values]
        event = (
            fields[places.member],
            values[0] if len(values) == 1 else tuple(values),
            None if places.at is None else self._time(fields[places.at]),
            None if places.id is None else fields[places.id] or None,
        )
        if not (places.labels or self._constants):
            return event
        labels = {label: fields[place] for label, place in places.labels if fields[place]}
        return *event, {**self._constants, **labels}

    def _time(self, text: str) -> int | None:
        if not text and self._mapping.at not in self._mapping.explicit:
            return None
        return self._mapping.read_time(text)


def _number(text: str) -> int | str:
    """Return a small whole number as an int, which the board parses fastest, and other text as it
    is."""
    text = text.strip()
    if len(text) <= _SMALL_INT_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return text


def _places_in(names: list[str], mapping: Mapping) -> _Places:
    repeated = {name for name in names if names.count(name) > 1}

    def place(name: str) -> int:
        if name in repeated:
            raise Usage(f"expected the column {name!r} once in the header, got it several times")
        try:
            return names.index(name)
        except ValueError:
            listed = ", ".join(names)
            raise Usage(f"expected the column {name!r} in the header, got {listed}") from None

    def optional(name: str) -> int | None:
        named = name in names and name not in values
        return place(name) if named or name in mapping.explicit else None

    taken = mapping.explicit | mapping.taken
    values = mapping.values
    if len(values) == 1 and not mapping.explicit.intersection(values) and VALUE in names:
        values = (VALUE,)
    return _Places(
        place(mapping.member),
        tuple(place(name) for name in values),
        optional(mapping.at),
        optional(mapping.id),
        tuple(
            [
                (each.label, place(each.column))
                for each in mapping.labels
                if each.explicit or (each.column in names and each.column not in taken)
            ]
        ),
    )


def _numbered(mapping: Mapping) -> _Places:
    def number(name: str) -> int:
        if not (name.isascii() and name.isdigit() and 1 <= int(name) <= 10_000):
            raise Usage(f"without a header, expected a column number from 1, got {name!r}")
        return int(name) - 1

    def place(name: str, otherwise: int) -> int:
        return number(name) if name in mapping.explicit else otherwise

    def optional(name: str) -> int | None:
        return place(name, 0) if name in mapping.explicit else None

    return _Places(
        place(mapping.member, 0),
        tuple(place(name, 1 + i) for i, name in enumerate(mapping.values)),
        optional(mapping.at),
        optional(mapping.id),
        tuple([(each.label, number(each.column)) for each in mapping.labels if each.explicit]),
    )
