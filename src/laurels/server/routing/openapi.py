"""The description of the service (OpenAPI 3.1). It is made from the route table, from the types of
requests and from the types of answers. So it cannot differ from the code."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_type_hints

import msgspec

import laurels
from laurels import errors
from laurels.errors import index_server, service
from laurels.wire import requests
from laurels.wire.answers import PROBLEM, Problem
from laurels.wire.requests import JSON, MSGPACK, NDJSON

from .route import NO_CONTENT, Route

_REFERENCE = "#/components/schemas/{name}"
_ALWAYS = ("400", "401", "403", "404", "409", "410", "413", "414", "429", "500", "503")
_WITH_BODY = ("415", "422")
_CODED = frozenset(module.__name__ for module in (errors, index_server, service, requests))
"""The modules with the errors that the service may answer with.

Errors of other modules that a process has imported, such as a shell or a client, are left out, so
that all processes of a service give the same description.
"""


def openapi(routes: Sequence[Route]) -> bytes:
    """Return the document as JSON."""
    types = [
        kind
        for route in routes
        for kind in (*_alternatives(route.body), *_alternatives(route.returns))
    ]
    _, components = msgspec.json.schema_components([*types, Problem], ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    document = _plain_numbers(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "laurels",
                "version": laurels.__version__,
                "description": "Exact, live, durable leaderboards.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{}, {"key": []}],
            "x-errors": [row._asdict() for row in errors.table() if _is_answered(row)],
        }
    )
    return msgspec.json.encode(document)


def _is_answered(row: errors.ErrorRow) -> bool:
    return errors.by_code(row.code).__module__ in _CODED


def _plain_numbers(schema: Any) -> Any:
    """Return the schema with numbers in place of decimals, since decimals are written as JSON
    numbers with all their digits."""
    if isinstance(schema, list):
        return [_plain_numbers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {"type": "number"}
    return {name: _plain_numbers(each) for name, each in schema.items()}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if kind is None or kind is bytes:
        return ()
    return kind if isinstance(kind, tuple) else (kind,)


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, tuple):
        return {"anyOf": list(map(_schema, kind))}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return schema


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.verb,
        "summary": _summary(route),
        "description": " ".join((route.handler.__doc__ or "").split()),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            str(route.status): _answer(route),
            **dict.fromkeys(_problems(route), _PROBLEM),
        },
        "x-scope": route.scope,
    }
    if (
        route.path.startswith("/v1/boards/{board}")
        and route.method == "PUT"
        and route.status == 200
    ):
        operation["responses"].setdefault("201", _answer(route))
    if route.body is not None:
        schema = _schema(route.body)
        operation["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": schema} for kind in (JSON, MSGPACK)},
        }
    return operation


def _summary(route: Route) -> str:
    text = " ".join((route.handler.__doc__ or "").split())
    return text.split(". ")[0].rstrip(".")


def _problems(route: Route) -> Iterator[str]:
    yield from _ALWAYS
    if route.method != "GET":
        yield from _WITH_BODY


_PROBLEM = {
    "description": "Refused: a problem document with a stable code",
    "content": {PROBLEM: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
}


def _answer(route: Route) -> dict[str, Any]:
    if route.status == NO_CONTENT:
        return {"description": "Done"}
    if route.returns is bytes:
        kind = "text/event-stream" if route.verb == "live" else NDJSON
        return {"description": "A stream", "content": {kind: {"schema": {"type": "string"}}}}
    schema = _schema(route.returns)
    return {
        "description": "The answer",
        "content": {JSON: {"schema": schema}, MSGPACK: {"schema": schema}},
    }


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in ("board", "name"):
        if "{" + name + "}" in route.path:
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    hints = get_type_hints(route.query, include_extras=True)
    for field in msgspec.structs.fields(route.query):
        schema = _schema(_without_none(hints[field.name]))
        if field.default is not msgspec.NODEFAULT and field.default is not None:
            schema = {**schema, "default": field.default}
        yield {
            "name": field.name,
            "in": "query",
            "required": field.required,
            "schema": schema,
        }


def _without_none(kind: Any) -> Any:
    """Return a type without its `| None`. A parameter is either present or absent, and never
    null."""
    kinds: Iterable[Any] = [each for each in get_args(kind) if each is not type(None)]
    alternatives = list(kinds)
    return alternatives[0] if type(None) in get_args(kind) and len(alternatives) == 1 else kind
