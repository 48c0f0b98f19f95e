"""Parse the query strings and bodies of requests into arguments of verbs.

Query strings are parsed strictly: an unknown parameter or a value of the wrong form is refused with
the parameter's name. The labels of a scope are one parameter, `labels=gender=f,room=42`. Numbers in
bodies are decoded exactly. Events are first decoded as records of the known fields, which is fast
and suits nearly all bodies. If one event does not fit such a record, all events are decoded as
general documents, so that each invalid event can be refused with a receipt of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from laurels.errors import (
    InvalidJson,
    JsonTooDeep,
    LaurelsError,
    TooLarge,
    ValueOutOfRange,
)
from laurels.errors.service import (
    BodyTooLarge,
    InvalidBody,
    InvalidMsgpack,
    InvalidPath,
    InvalidQuery,
    UnsupportedMediaType,
)
from laurels.model.exact_json import exact
from laurels.model.validation import expectation, names_in_short, safe_repr, shorten

from .parameters import read_parameters

MAX_BATCH = 10_000
MAX_MESSAGE = 300
"""The maximum number of characters of a message about an invalid body. The message may quote a
field name of any length."""
_UNKNOWN = "Object contains unknown field"
_NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
JSON, NDJSON, MSGPACK = "application/json", "application/x-ndjson", "application/msgpack"

Q = TypeVar("Q", bound=Struct)
T = TypeVar("T")


class BatchTooLong(TooLarge):
    """The body has more than 10,000 events."""

    code = "batch_too_long"
    advice = "send the events in several requests, each with its own Idempotency-Key"


def query_of(raw: str, form: type[Q]) -> Q:
    """Parse a query string into a record of the type `form`. Raises InvalidQuery."""
    parameters = read_parameters(raw)
    try:
        return msgspec.convert(parameters, form, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidQuery(_message(str(error), parameters, form)) from error


def _message(message: str, parameters: Mapping[str, str], form: type[Struct]) -> str:
    """Return the message about an invalid parameter, in which the parameter is named."""
    if message.startswith(_UNKNOWN):
        name = message.removeprefix(_UNKNOWN).strip(" `")
        hint = (
            "; labels are given as labels=NAME=VALUE" if "labels" in form.__struct_fields__ else ""
        )
        return f"there is no parameter `{name}`{hint}"
    what, _, path = message.partition(" - at `$.")
    name = path.rstrip("`")
    if name in parameters:
        return expectation(what, name, parameters[name])
    return message.replace("Object missing required field", "the query lacks")


def ensure_text(path: str) -> None:
    """Raise InvalidPath if a path was not UTF-8. The decoded path then has a replacement
    character."""
    if _NOT_UTF8 in path:
        raise InvalidPath("the path is not UTF-8")


class EventFields(Struct, forbid_unknown_fields=True):
    """An event in a body.

    `value` is a number, decimal text, an array of these for several columns, or an object with
    measures of the board. `at` is a number of milliseconds since 1970 UTC, or a time in RFC 3339;
    by default, it is the time of acceptance. `labels` decide in which of the board's scopes the
    event counts.
    """

    member: str
    value: Any
    at: int | datetime | None = None
    id: str | None = None
    labels: dict[str, str | None] | None = None


_one = msgspec.json.Decoder(EventFields, float_hook=exact)
_many = msgspec.json.Decoder(list[EventFields], float_hook=exact)
_any = msgspec.json.Decoder(float_hook=exact)
_one_packed = msgspec.msgpack.Decoder(EventFields)
_many_packed = msgspec.msgpack.Decoder(list[EventFields])
_any_packed = msgspec.msgpack.Decoder()


def media_type(content_type: str | None) -> str:
    """Return the format of a body: JSON, NDJSON or MSGPACK. Raises UnsupportedMediaType.

    Every write needs one of these types, even without a body: a web page of another origin can send
    them only after a CORS preflight, whereas it can send a form or text/plain without a preflight.
    """
    if content_type == JSON:
        return JSON
    if content_type is None:
        raise UnsupportedMediaType("the request has no Content-Type")
    kind = content_type.partition(";")[0].strip().lower()
    if kind in (JSON, NDJSON, MSGPACK):
        return kind
    if kind in ("application/vnd.msgpack", "application/x-msgpack"):
        return MSGPACK
    raise UnsupportedMediaType(f"the Content-Type is {safe_repr(content_type)}")


def document(raw: bytes, kind: str) -> Any:
    """Decode a body with exact numbers; for NDJSON return the list of the documents in its lines.
    Raises InvalidJson, InvalidMsgpack, JsonTooDeep, ValueOutOfRange."""
    if kind == MSGPACK:
        return _decoded(_any_packed.decode, raw, InvalidMsgpack)
    if kind == NDJSON:
        return _decoded(_any.decode_lines, raw, InvalidJson)
    return _decoded(_any.decode, raw, InvalidJson)


def events(raw: bytes, kind: str) -> tuple[list[Any], bool]:
    """Return the events in a body, in the form that verbs accept, and whether the body is a single
    event instead of a list.

    Raises InvalidJson, InvalidMsgpack, JsonTooDeep, InvalidBody, BatchTooLong. The board checks
    each event, so an invalid event raises no error here.
    """
    single = kind != NDJSON and _is_object(raw, kind)
    try:
        if kind == MSGPACK:
            decoded = [_one_packed.decode(raw)] if single else _many_packed.decode(raw)
        elif kind == NDJSON:
            decoded = _one.decode_lines(raw)
        else:
            decoded = [_one.decode(raw)] if single else _many.decode(raw)
        normalized: list[Any] = [
            (each.member, tuple(each.value) if type(each.value) is list else each.value)
            if each.at is None and each.id is None and each.labels is None
            else (each.member, _tuple_of_columns(each.value), each.at, each.id, each.labels)
            for each in decoded
        ]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        normalized = _with_parsed_times(document(raw, kind), single=single)
    ensure_count(len(normalized))
    return normalized, single


def ensure_count(count: int) -> None:
    """Raise BatchTooLong if a body has too many events."""
    if count > MAX_BATCH:
        raise BatchTooLong(f"expected at most {MAX_BATCH:,} events, got {count:,}")


def _with_parsed_times(decoded: Any, *, single: bool) -> list[Any]:
    """Return decoded events with their times parsed. They may have any form, since the board checks
    each of them."""
    if not single and not isinstance(decoded, list):
        raise InvalidBody(f"expected an event or a list of events, got {safe_repr(decoded)}")
    return [timed(event) for event in ([decoded] if single else decoded)]


def timed(event: Any) -> Any:
    """Return an event with its `at` parsed, if that is in RFC 3339, and a list of values converted
    to a tuple. Anything of another form is returned unchanged."""
    if isinstance(event, dict) and isinstance(event.get("at"), str):
        return {**event, "at": _parse_time(event["at"]), **_with_tuple(event)}
    if isinstance(event, dict):
        return {**event, **_with_tuple(event)}
    if isinstance(event, list):
        if len(event) < 2 or len(event) > 5:
            return event
        member, value, at, id, labels = (*event, None, None, None)[:5]
        return (
            member,
            _tuple_of_columns(value),
            _parse_time(at) if isinstance(at, str) else at,
            id,
            labels,
        )
    return event


def _with_tuple(event: dict[Any, Any]) -> dict[str, Any]:
    return {"value": _tuple_of_columns(event["value"])} if "value" in event else {}


def _tuple_of_columns(value: Any) -> Any:
    return tuple(value) if type(value) is list else value


def _parse_time(text: str) -> Any:
    """Parse a time in RFC 3339. Other text is returned unchanged, and the board refuses it."""
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return text


def _is_object(raw: bytes, kind: str) -> bool:
    if kind == MSGPACK:
        return bool(raw) and (0x80 <= raw[0] <= 0x8F or raw[0] in (0xDE, 0xDF))
    return raw.lstrip(b" \t\r\n")[:1] == b"{"


def _decoded(decode: Callable[[bytes], T], raw: bytes, error_type: type[LaurelsError]) -> T:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise ValueOutOfRange("a number has more digits than any score") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise error_type(str(error)) from error
    except RecursionError as error:
        raise JsonTooDeep("the body is nested too deeply") from error


def fields(decoded: Any, *names: str, optional: Sequence[str] = ()) -> list[Any]:
    """Return the values of the named fields of an object in a body, in order; None for an optional
    field that is absent. Raises InvalidBody."""
    if not isinstance(decoded, dict):
        raise InvalidBody(f"expected an object, got {safe_repr(decoded)}")
    if unknown := sorted(str(name) for name in decoded.keys() - set(names) - set(optional)):
        raise InvalidBody(f"unknown fields: {names_in_short(unknown)}")
    if missing := [name for name in names if name not in decoded]:
        raise InvalidBody(f"missing fields: {', '.join(missing)}")
    return [decoded.get(name) for name in (*names, *optional)]


def typed(decoded: Any, form: type[Q]) -> Q:
    """Convert a decoded document to a record of the type `form`. Raises InvalidBody."""
    try:
        return msgspec.convert(decoded, form)
    except msgspec.ValidationError as error:
        raise InvalidBody(shorten(str(error), MAX_MESSAGE)) from error


def plain(value: Any) -> Any:
    """Return a document in which every Decimal is replaced by a float, for data that does not
    affect ranks. Raises JsonTooDeep."""
    try:
        return _with_floats(value)
    except RecursionError as error:
        raise JsonTooDeep("the body is nested too deeply") from error


def _with_floats(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_floats(each) for key, each in value.items()}
    return value


def ensure_size(length: int, most: int) -> None:
    if length > most:
        raise BodyTooLarge(f"expected a body of at most {most:,} bytes, got more")
