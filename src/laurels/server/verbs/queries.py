"""The endpoints of the queries. The type of a query declares how the request is read, run and
answered."""

from typing import Any

from laurels.core.queries import QUERIES
from laurels.core.query import Query
from laurels.core.stats import BoardStats
from laurels.errors.service import InvalidBody
from laurels.model.validation import safe_repr
from laurels.server.requests.context import Handler, RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire import requests
from laurels.wire.queries import parameters_of, read_query

ROUTES = Routes()
BODY_VALUES = 10_100
"""The most values in a body: more than enough for the 10,000 members that a query takes at most,
and the object that contains them."""
BODY_BYTES = 4 << 20
"""The greatest size of a body in bytes. A member has at most 128 bytes, and up to three times as
many if its characters beyond ASCII are escaped."""


def _endpoint(kind: type[Query[Any]]) -> Handler:
    """Return the handler for a type of query."""

    async def answer(context: RequestContext, parameters: Any) -> object:
        body = None if kind.body is None else await _members(context, kind.body)
        return await context.answer(read_query(kind, parameters, body))

    answer.__name__ = kind.verb
    answer.__doc__ = kind.__doc__
    return answer


async def _members(context: RequestContext, name: str) -> list[Any]:
    """Return the list in a body. The list is the body itself or its field `name`. Raises
    InvalidBody."""
    body = await context.server.decoder.document(context.raw, context.media_type, BODY_VALUES)
    if isinstance(body, dict):
        (body,) = requests.fields(body, name)
    if not isinstance(body, list):
        raise InvalidBody(f"expected a list of {name}, got {safe_repr(body)}")
    return body


for _kind in QUERIES:
    if _kind.body is None:
        _put = ROUTES.query(
            "GET",
            f"/v1/boards/{{board}}/{_kind.path}",
            query=parameters_of(_kind),
            returns=_kind.returns,
            scope="admin" if _kind.is_administrative else "read",
        )
    else:
        _put = ROUTES.query(
            "POST",
            f"/v1/boards/{{board}}/{_kind.path}",
            query=parameters_of(_kind),
            body=list[str],
            returns=_kind.returns,
            most_body=BODY_BYTES,
        )
    _put(_endpoint(_kind))


@ROUTES.query("GET", "/v1/boards/{board}/stats", returns=BoardStats)
async def board_stats(context: RequestContext, _: NoQuery) -> object:
    """Figures of a board: its size and memory."""
    return await context.lb.stats(context.board)
