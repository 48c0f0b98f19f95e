"""Queries over HTTP: the client encodes their fields as parameters, and the service decodes them.

No code here is specific to one query. Each field is a parameter with the field's name; the type of
the field decides how it is encoded.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo

from laurels.core.between import Bound, Percentile
from laurels.core.query import Query
from laurels.model.labels import LabelNames, LabelPairs

from .answers import to_json, to_msgpack
from .parameters import (
    board_path,
    read_bound,
    read_label_names,
    read_labels,
    target,
    write_bound,
    write_label_names,
    write_labels,
    write_percentile,
)

Q = TypeVar("Q", bound=Query[Any])
T = TypeVar("T")

LABELS = "The labels of a scope of the board, values percent-encoded: room=42, or gender=f,room=42"


class _Conversion(NamedTuple):
    """Converts the fields of one type to parameters (`write`) and back (`read`). A parameter is
    decoded from the query string as the type `kind`, and `read` gets the result."""

    kind: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], object]
    default: Any = None


def _unchanged(value: Any) -> Any:
    return value


_CONVERSIONS: Mapping[Any, _Conversion] = {
    LabelPairs: _Conversion(
        Annotated[str, Meta(description=LABELS)] | None, read_labels, write_labels
    ),
    LabelPairs | None: _Conversion(
        str | None, lambda text: None if text is None else read_labels(text), write_labels
    ),
    LabelNames: _Conversion(str, read_label_names, write_label_names, ""),
    Bound | None: _Conversion(str | None, read_bound, write_bound),
    Percentile: _Conversion(str, _unchanged, write_percentile, NODEFAULT),
}
"""The conversions of the field types that need one."""


class _Parameter(NamedTuple):
    field: str
    name: str
    conversion: _Conversion


class _Parameters(NamedTuple):
    """The parameters of a query type, and the record type `kind` to which they are decoded."""

    kind: type[Struct]
    each: list[_Parameter]


@cache
def _parameters(kind: type[Struct]) -> _Parameters:
    hints = get_type_hints(kind)
    each, fields = list[_Parameter](), list[Any]()
    for info in msgspec.structs.fields(kind):
        if info.name != getattr(kind, "body", None):
            conversion = _CONVERSIONS.get(hints[info.name]) or _without_conversion(info)
            each.append(_Parameter(info.name, info.encode_name, conversion))
            default = () if conversion.default is NODEFAULT else (conversion.default,)
            fields.append((info.encode_name, conversion.kind, *default))
    name = f"{kind.__name__}Parameters"
    parameter_type = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return _Parameters(parameter_type, each)


def _without_conversion(info: FieldInfo) -> _Conversion:
    """Return a conversion that changes nothing, for a field that is a number, text or a flag."""
    return _Conversion(info.type, _unchanged, _unchanged, info.default)


def parameters_of(kind: type[Struct]) -> type[Struct]:
    """Return the record type to which the parameters of `kind` are decoded. `kind` is a query type,
    or a base class of query types."""
    return _parameters(kind).kind


def encode_answer(query: Query[T], result: T, *, packed: bool = False) -> bytes:
    """Encode the result of a query as its answer, in JSON or msgpack. If the result is None, raise
    the error that the service sends instead of an answer."""
    return (to_msgpack if packed else to_json).encode(query.to_answer(result))


def decode_answer(query: Query[T], content: bytes) -> T:
    """Return the result of a query from the JSON of its answer."""
    return query.from_answer(_answer_decoder(type(query)).decode(content))


@cache
def _answer_decoder(kind: type[Query[Any]]) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind.returns)


def read_query(kind: type[Q], parameters: Struct, body: Any = None) -> Q:
    """Make a query from its parameters, and from the body if one of its fields is sent there.
    Raises the error of an invalid field."""
    fields = read_fields(kind, parameters)
    if kind.body is not None:
        fields[kind.body] = body
    return kind(**fields)


def read_fields(kind: type[Struct], parameters: Struct) -> dict[str, Any]:
    """Convert the parameters of a query to its fields, by name."""
    return {
        each.field: each.conversion.read(getattr(parameters, each.name))
        for each in _parameters(kind).each
    }


def query_target(board: object, query: Query[Any]) -> str:
    """Return the path and query string for a query about a board. Raises UnknownBoard for a name
    that no board can have, and InvalidQuery for text that is not Unicode."""
    parameters = {
        each.name: each.conversion.write(getattr(query, each.field))
        for each in _parameters(type(query)).each
    }
    return target(board_path(board, query.path), **parameters)
