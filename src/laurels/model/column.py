"""Columns: the components of a score, as they are defined and as they are counted."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from laurels.errors import BoardInvalid, InvalidName

from .answer import Plain
from .definition_errors import DefinitionErrors
from .measures import canonical_measures, weight_units
from .rules import ColumnRule, Op
from .score import LIMIT, MAX_SCALE, exact_units, to_value
from .validation import integer_within, is_name, one_of, quoted, safe_repr

MAX_COLUMNS = 4

Order = Literal["desc", "asc"]


class Column(Plain, Struct, frozen=True):
    """One component of a score.

    `op` is the effect of an event: `sum` adds the value to the total, `last` keeps the value with
    the latest `at`, and `best` keeps the better score as a whole, so either all columns of a board
    have `best` or none. `order` tells which value is better, the greater (`desc`) or the smaller
    (`asc`). `scale` is the number of decimal places, 0 to 15. Values stay within `min` to `max`; an
    event that would exceed them is refused, never clamped. `measures` are names with their weights.
    An event may carry such measures in place of a value: {"like": 3, "gift": 10} counts as their
    weighted sum.

    A column is validated with its board.
    """

    name: str = "score"
    op: Op = "sum"
    order: Order = "desc"
    scale: int = 0
    min: int | Decimal | str | None = None
    max: int | Decimal | str | None = None
    measures: Mapping[str, int | Decimal | str] = {}

    def __hash__(self) -> int:
        own = (getattr(self, field) for field in self.__struct_fields__ if field != "measures")
        return hash((*own, *self.measures.items()))


def rule_of(column: Column) -> ColumnRule:
    """Return a column resolved to integers."""
    return ColumnRule(
        name=column.name,
        op=column.op,
        sign=-1 if column.order == "desc" else 1,
        scale=column.scale,
        low=-LIMIT if column.min is None else exact_units(column.min, column.scale, "min"),
        high=LIMIT if column.max is None else exact_units(column.max, column.scale, "max"),
        measures=weight_units(canonical_measures(column.measures)),
    )


def canonical_columns(value: object) -> tuple[Column, ...]:
    """Return the columns of a board in canonical form. Raise BoardInvalid with every fault."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BoardInvalid(f"expected a list of columns, got {safe_repr(value)}")
    if not 1 <= len(value) <= MAX_COLUMNS:
        raise BoardInvalid(f"expected 1 to {MAX_COLUMNS} columns, got {len(value)}")
    errors = DefinitionErrors()
    columns = tuple([errors.read(_judged, column, Column()) for column in value])
    errors.raise_any()
    names = [column.name for column in columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        errors.add(f"expected distinct column names, got {quoted(name)} more than once")
    if len({column.op == "best" for column in columns}) > 1:
        errors.add("op best is for all columns or none, since it compares scores as a whole")
    errors.raise_any()
    return columns


def _judged(value: object) -> Column:
    fields: Mapping[str, Any]
    if isinstance(value, Column):
        fields = asdict(value)
    elif isinstance(value, Mapping):
        fields = value
    else:
        raise BoardInvalid(f"expected a column as a Column or a mapping, got {safe_repr(value)}")
    errors = DefinitionErrors(f"column {safe_repr(fields.get('name', 'score'))}")
    for key in fields:
        if key not in Column.__struct_fields__:
            errors.add(f"unknown field {safe_repr(key)}")
    scale = errors.read(_scale, fields.get("scale", 0), MAX_SCALE)
    column = Column(
        name=errors.read(_name, fields.get("name", "score"), "score"),
        op=errors.read(_op, fields.get("op", "sum"), "sum"),
        order=errors.read(_order, fields.get("order", "desc"), "desc"),
        scale=scale,
        min=_bound(errors, fields.get("min"), scale, "min"),
        max=_bound(errors, fields.get("max"), scale, "max"),
        measures=errors.read(canonical_measures, fields.get("measures", {}), {}),
    )
    rule = rule_of(column)
    if rule.low > rule.high:
        errors.add(f"expected min to be at most max, got {column.min} and {column.max}")
    errors.raise_any()
    return column


def _name(value: object) -> str:
    if is_name(value):
        return value
    raise InvalidName(f"expected a name for a column, got {safe_repr(value)}")


def _op(value: object) -> Op:
    return one_of(value, get_args(Op), "op")


def _order(value: object) -> Order:
    return one_of(value, get_args(Order), "order")


def _scale(value: object) -> int:
    if (places := integer_within(value, 0, MAX_SCALE)) is not None:
        return places
    raise BoardInvalid(
        f"expected an integer from 0 to {MAX_SCALE} for scale, got {safe_repr(value)}"
    )


def _bound(errors: DefinitionErrors, value: object, scale: int, which: str) -> int | Decimal | None:
    if value is None:
        return None
    units = errors.read(lambda each: exact_units(each, scale, which), value, None)
    return None if units is None else to_value(units, scale)
