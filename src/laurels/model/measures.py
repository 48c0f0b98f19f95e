"""Measures: numbers that events report by name, for columns whose value is a weighted sum. Pure.

An event on such a board may carry `{"like": 3, "gift": 10}` in place of numbers for the columns.
When the event is accepted, each column adds up its measures times their weights, exactly. The log
has the sum, so measures have no meaning after acceptance.
"""

from collections.abc import Mapping

from laurels.errors import BoardInvalid, InvalidValue, TooManyPlaces, UnknownMeasure, WrongColumns

from .definition_errors import DefinitionErrors
from .rules import ColumnRule
from .score import (
    LIMIT,
    MAX_SCALE,
    Number,
    any_number,
    exact_units,
    shortest_value,
    to_units,
    to_value,
)
from .validation import is_name, quoted, safe_repr

MAX_MEASURES = 32
_MOST = LIMIT * 10**MAX_SCALE
_PLACES = 2 * MAX_SCALE
"""The decimal places of a product of a weight and a value."""


def canonical_measures(value: object) -> dict[str, Number]:
    """Return measures with their weights in canonical form, sorted by name. Raise BoardInvalid with
    every fault."""
    if not isinstance(value, Mapping):
        raise BoardInvalid(f"expected measures as names and weights, got {safe_repr(value)}")
    if len(value) > MAX_MEASURES:
        raise BoardInvalid(f"expected at most {MAX_MEASURES} measures, got {len(value)}")
    errors = DefinitionErrors()
    for name in value:
        if not is_name(name):
            errors.add(f"expected a name for a measure, got {safe_repr(name)}")
    weights = {name: errors.read(_weight, weight, 1) for name, weight in value.items()}
    errors.raise_any()
    return dict(sorted(weights.items()))


def _weight(value: object) -> Number:
    units = exact_units(value, MAX_SCALE, "a weight", _MOST)
    if units == 0:
        raise BoardInvalid("expected a weight other than 0, got 0")
    return shortest_value(units, MAX_SCALE)


def weight_units(measures: Mapping[str, Number]) -> tuple[tuple[str, int], ...]:
    """Return measures with their weights in units of 10^-MAX_SCALE."""
    return tuple(
        [
            (name, exact_units(weight, MAX_SCALE, "a weight", _MOST))
            for name, weight in measures.items()
        ]
    )


def units_of_measures(
    value: Mapping[str, object], columns: tuple[ColumnRule, ...]
) -> tuple[int, ...]:
    """Return the units of each column for an event that carries measures.

    A measure that the event lacks counts as 0. A column without measures takes the value that the
    event has under the column's name; if there is none, a `sum` column counts 0. Raises
    InvalidValue if no column of the board has measures, or the event has none. Also raises
    UnknownMeasure, WrongColumns, and the errors of numbers.
    """
    board_measures = {name for column in columns for name in _names(column)}
    if not any(column.measures for column in columns):
        raise InvalidValue(f"expected a number, as no column has measures, got {safe_repr(value)}")
    if not value:
        raise InvalidValue("expected at least 1 measure, got none")
    for name in value:
        if name not in board_measures:
            raise UnknownMeasure(
                f"expected a measure of the board ({', '.join(sorted(board_measures))}), "
                f"got {safe_repr(name)}"
            )
    return tuple([_units(value, column) for column in columns])


def _names(column: ColumnRule) -> tuple[str, ...]:
    return tuple([name for name, _ in column.measures]) or (column.name,)


def _units(value: Mapping[str, object], column: ColumnRule) -> int:
    if not column.measures:
        if column.name not in value and not column.adds_up:
            raise WrongColumns(f"expected a value for {quoted(column.name)}, got none")
        return to_units(value.get(column.name, 0), column)
    total = sum(
        [
            weight * exact_units(value[name], MAX_SCALE, name, _MOST)
            for name, weight in column.measures
            if name in value
        ]
    )
    units, rest = divmod(total, 10 ** (_PLACES - column.scale))
    if rest:
        places = f"at most {column.scale}" if column.scale else "no"
        raise TooManyPlaces(
            f"expected {places} decimal places for {quoted(column.name)}, got a weighted sum of "
            f"{shortest_value(total, _PLACES)}"
        )
    return to_units(to_value(units, column.scale), column)


def any_measures(value: Mapping[object, object]) -> dict[str, Number | str]:
    """Validate an event's measures as far as this is possible without its board, and return them.
    Raises InvalidValue for a name that is not text, and the errors of `any_number`."""
    numbers: dict[str, Number | str] = {}
    for name, part in value.items():
        if not isinstance(name, str):
            raise InvalidValue(f"expected text for the name of a measure, got {safe_repr(name)}")
        numbers[name] = any_number(part)
    return numbers
