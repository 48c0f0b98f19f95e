"""Queries over HTTP: the client writes and the service reads each field by its type.

No code here is specific to one query. Each field is a parameter with the field's name; the field's
type decides how it is written.
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


class _Form(NamedTuple):
    """How fields of one type are read from a parameter and written to one. The parameter is decoded
    as the type `kind`."""

    kind: Any
    read: Callable[[Any], Any]
    write: Callable[[Any], object]
    default: Any = None


def _as_it_is(value: Any) -> Any:
    return value


_FORMS: Mapping[Any, _Form] = {
    LabelPairs: _Form(Annotated[str, Meta(description=LABELS)] | None, read_labels, write_labels),
    LabelPairs | None: _Form(
        str | None, lambda text: None if text is None else read_labels(text), write_labels
    ),
    LabelNames: _Form(str, read_label_names, write_label_names, ""),
    Bound | None: _Form(str | None, read_bound, write_bound),
    Percentile: _Form(str, _as_it_is, write_percentile, NODEFAULT),
}
"""The forms of the field types that need a conversion."""


class _Parameter(NamedTuple):
    field: str
    name: str
    form: _Form


class _Parameters(NamedTuple):
    """The parameters of a query type. They are decoded as the type `kind`."""

    kind: type[Struct]
    each: list[_Parameter]


@cache
def _parameters(kind: type[Struct]) -> _Parameters:
    hints = get_type_hints(kind)
    each, fields = list[_Parameter](), list[Any]()
    for info in msgspec.structs.fields(kind):
        if info.name != getattr(kind, "body", None):
            form = _FORMS.get(hints[info.name]) or _plain(info)
            each.append(_Parameter(info.name, info.encode_name, form))
            default = () if form.default is NODEFAULT else (form.default,)
            fields.append((info.encode_name, form.kind, *default))
    name = f"{kind.__name__}Parameters"
    made = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return _Parameters(made, each)


def _plain(info: FieldInfo) -> _Form:
    """Return the form of a field that is a number, text or a flag."""
    return _Form(info.type, _as_it_is, _as_it_is, info.default)


def parameters_of(kind: type[Struct]) -> type[Struct]:
    """Return the type as which the parameters of a query type, or of a base class of queries, are
    decoded."""
    return _parameters(kind).kind


def encode_answer(query: Query[T], result: T, *, packed: bool = False) -> bytes:
    """Return the answer that is sent for the result of a query, as JSON or msgpack. Raises the
    error that is sent instead, if the result is None."""
    return (to_msgpack if packed else to_json).encode(query.to_answer(result))


def decode_answer(query: Query[T], content: bytes) -> T:
    """Return the result of a query from the JSON that was sent for it."""
    return query.from_answer(_answer_decoder(type(query)).decode(content))


@cache
def _answer_decoder(kind: type[Query[Any]]) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind.returns)


def read_query(kind: type[Q], parameters: Struct, body: Any = None) -> Q:
    """Return a query made from its parameters, and from the body if one of its fields is the body.
    Raises the error of an invalid field."""
    fields = read_fields(kind, parameters)
    if kind.body is not None:
        fields[kind.body] = body
    return kind(**fields)


def read_fields(kind: type[Struct], parameters: Struct) -> dict[str, Any]:
    """Return the fields of a query from its parameters, by name."""
    return {
        each.field: each.form.read(getattr(parameters, each.name))
        for each in _parameters(kind).each
    }


def query_target(board: object, query: Query[Any]) -> str:
    """Return the path of a query about a board, with its parameters. Raises UnknownBoard for a name
    that no board can have, and InvalidQuery for text that is not Unicode."""
    parameters = {
        each.name: each.form.write(getattr(query, each.field))
        for each in _parameters(type(query)).each
    }
    return target(board_path(board, query.path), **parameters)
