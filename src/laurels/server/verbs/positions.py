"""The positions of sources."""

from msgspec import Struct

from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes

ROUTES = Routes()


class SourceQuery(Struct, forbid_unknown_fields=True):
    """`source` is the name of an imported source."""

    source: str


class PositionAnswer(Struct, frozen=True):
    """How far a source has been imported; null if nothing has been imported."""

    position: str | None


@ROUTES.query(
    "GET",
    "/v1/boards/{board}/position",
    query=SourceQuery,
    returns=PositionAnswer,
)
async def position(context: RequestContext, query: SourceQuery) -> object:
    """The position that was last committed for a source."""
    return PositionAnswer(await context.lb.position(context.board, query.source))


class PositionsAnswer(Struct, frozen=True):
    """How far each source has been imported."""

    positions: dict[str, str]


@ROUTES.query("GET", "/v1/boards/{board}/positions", returns=PositionsAnswer)
async def positions(context: RequestContext, _: NoQuery) -> object:
    """The positions that were last committed, by name. The name is `sink:NAME` for a sink and
    `source/NAME` for a source; all other names are imports."""
    return PositionsAnswer(await context.lb.positions(context.board))
