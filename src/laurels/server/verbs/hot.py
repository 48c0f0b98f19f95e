"""The boards and members that are asked for most."""

from msgspec import Struct

from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes

ROUTES = Routes()


class HotBoard(Struct, frozen=True):
    """A board, and about how many queries asked for it."""

    board: str
    count: int


class HotMember(Struct, frozen=True):
    """A member of a board, and about how many queries asked for it."""

    board: str
    member: str
    count: int


class HotAnswer(Struct, frozen=True):
    """The boards and members with many queries in the last `seconds`, most frequent first."""

    seconds: float
    boards: list[HotBoard]
    members: list[HotMember]


@ROUTES.query("GET", "/v1/hot", returns=HotAnswer)
async def hot(context: RequestContext, _: NoQuery) -> object:
    """The boards and members that are asked for most: those with at least 50 queries, and 0.5 % of
    all, within 10 seconds. Counts are of the process that answers, and never too low. A caller that
    is limited to some boards gets only these boards and their members."""
    sees = context.caller.sees
    seconds, boards = context.server.hot_boards.hot()
    members = context.server.hot_members.hot()[1]
    return HotAnswer(
        round(seconds, 3),
        [HotBoard(each.key, each.count) for each in boards if sees(each.key)],
        [HotMember(*each.key, each.count) for each in members if sees(each.key[0])],
    )
