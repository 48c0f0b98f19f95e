"""The oracle's parsers for the fields of an event: ids, labels, exact numbers, times."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from tests.calendar_by_scanning import EPOCH, utc_ms
from tests.definitions import LIMIT, ColumnDef, Refusal, Score

FIRST_MS = utc_ms(datetime(1900, 1, 1))  # noqa: DTZ001
LAST_MS = utc_ms(datetime(9900, 1, 1)) - 1  # noqa: DTZ001
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def text_of(text: object, what: str) -> str:
    """Return the text of a member or an event id. Raise an error unless it has 1 to 128 bytes of
    UTF-8."""
    if not isinstance(text, str):
        raise Refusal(f"invalid_{what}")
    try:
        coded = text.encode()
    except UnicodeEncodeError:
        raise Refusal(f"{what}_not_utf8") from None
    if not 1 <= len(coded) <= 128:
        raise Refusal(f"{what}_too_long" if coded else f"{what}_empty")
    return text


def ensure_label_texts(labels: object) -> None:
    """Refuse labels of a wrong type or with invalid Unicode. All other checks of labels depend on
    the board, and are made later."""
    for part in [*labels, *labels.values()] if isinstance(labels, Mapping) else [labels]:
        if isinstance(part, str):
            try:
                part.encode()
            except UnicodeEncodeError:
                raise Refusal("invalid_label") from None
        elif part is not None and not isinstance(part, int | float | list | tuple):
            raise Refusal("invalid_label")


def labels_of(labels: object, board_labels: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return the labels of an event as pairs, sorted by name. Labels with the value None are left
    out."""
    if labels is None:
        return ()
    if not isinstance(labels, Mapping):
        raise Refusal("invalid_label")
    if any(label not in board_labels for label in labels):
        raise Refusal("unknown_label")
    return tuple(
        (label, value_of(labels[label])) for label in sorted(labels) if labels[label] is not None
    )


def value_of(value: object) -> str:
    """Return the value of a label. Raise an error unless it has 1 to 128 bytes of UTF-8."""
    try:
        coded = value.encode() if isinstance(value, str) else b""
    except UnicodeEncodeError:
        coded = b""
    if not isinstance(value, str) or not 1 <= len(coded) <= 128:
        raise Refusal("invalid_label")
    return value


def scope_text(labels: Sequence[tuple[str, str]]) -> str:
    """Return the text of a scope. Lists of scopes are in the order of these texts."""
    return ",".join(f"{name}={''.join(map(_quoted, value))}" for name, value in labels)


def _quoted(sign: str) -> str:
    return f"%{ord(sign):02X}" if sign <= " " or sign in "%=,:{}@\x7f" else sign


def values_of(value: object, columns: Sequence[ColumnDef]) -> Score:
    """Return a score in exact units, as one integer per column."""
    if isinstance(value, dict):
        return tuple(units_of(part, column) for part, column in weighed(value, columns))
    parts = value if isinstance(value, tuple | list) else (value,)
    if len(parts) != len(columns):
        raise Refusal("wrong_columns")
    return tuple(units_of(part, column) for part, column in zip(parts, columns, strict=True))


def weighed(
    value: dict[str, object], columns: Sequence[ColumnDef]
) -> list[tuple[object, ColumnDef]]:
    """Return the value of each column for an event with measures: the weighted sum of the
    measures."""
    if not value or not any(column.measures for column in columns):
        raise Refusal("invalid_value")
    names = {name for column in columns for name in column.measures or (column.name,)}
    if not names.issuperset(value):
        raise Refusal("unknown_measure")
    sums: list[tuple[object, ColumnDef]] = []
    for column in columns:
        if not column.measures:
            if column.name not in value and column.op != "sum":
                raise Refusal("wrong_columns")
            sums.append((value.get(column.name, 0), column))
            continue
        total = Fraction(0)
        for name, weight in column.measures.items():
            part = value.get(name, 0)
            wide = ColumnDef(scale=15, min=-(10**40), max=10**40, op="last")
            total += Fraction(units_of(part, wide), 10**15) * Fraction(weight)
        units = total * 10**column.scale
        if units.denominator != 1:
            raise Refusal("too_many_places")
        low, high = (-LIMIT, LIMIT) if column.op == "sum" else (column.low, column.high)
        if not low <= units <= high:
            raise Refusal("value_out_of_range")
        sums.append((Decimal(int(units)).scaleb(-column.scale), column))
    return sums


def ensure_numbers(value: object) -> None:
    """Refuse numbers that no column accepts. Numbers written as text are checked later, when their
    column is known."""
    parts = tuple(value.values()) if isinstance(value, dict) else value
    for part in parts if isinstance(parts, tuple | list) else (parts,):
        if isinstance(part, str):
            continue
        if isinstance(part, float) and not isfinite(part):
            raise Refusal("not_finite")
        if isinstance(part, bool) or not isinstance(part, int | Decimal):
            raise Refusal("invalid_value")
        if isinstance(part, Decimal) and not part.is_finite():
            raise Refusal("not_finite")
        if abs(part) > LIMIT if isinstance(part, int) else bool(part) and part.adjusted() > 16:
            raise Refusal("value_out_of_range")


def units_of(value: object, column: ColumnDef) -> int:
    """Return a number in exact units of its column. In a `sum` column the range limits only the
    total of the member, so it is not checked here."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise Refusal("invalid_value")
    if isinstance(value, str) and (len(value) > 64 or not NUMBER.fullmatch(value)):
        raise Refusal("invalid_value")
    number = Decimal(value)
    if not number.is_finite():
        raise Refusal("not_finite")
    if abs(number.adjusted()) > 64:
        raise Refusal("value_out_of_range" if number.adjusted() > 0 else "too_many_places")
    units = Fraction(number) * 10**column.scale
    if units.denominator != 1:
        raise Refusal("too_many_places")
    low, high = (-LIMIT, LIMIT) if column.op == "sum" else (column.low, column.high)
    if not low <= units <= high:
        raise Refusal("value_out_of_range")
    return int(units)


def at_of(at: object) -> int | None:
    """Return an aware datetime or an integer as milliseconds, and None as None."""
    if at is None:
        return None
    if isinstance(at, datetime) and at.utcoffset() is not None:
        at = (at - EPOCH) // timedelta(milliseconds=1)
    if isinstance(at, bool) or not isinstance(at, int) or not FIRST_MS <= at <= LAST_MS:
        raise Refusal("invalid_at")
    return at
