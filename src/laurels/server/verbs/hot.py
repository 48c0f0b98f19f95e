"""The boards and members that are asked for most."""

from laurels.core.hot_report import HotBoard, HotMember, HotReport
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes

ROUTES = Routes()


@ROUTES.query("GET", "/v1/hot", returns=HotReport)
async def hot(context: RequestContext, _: NoQuery) -> object:
    """The boards and members that are asked for most: those with at least 50 queries, and 0.5 % of
    all, within 10 seconds. The counts are those of the process that answers, and are never too low.
    A caller that is limited to some boards gets only these boards and their members."""
    sees = context.caller.sees
    seconds, boards = context.server.hot_boards.hot()
    members = context.server.hot_members.hot()[1]
    return HotReport(
        round(seconds, 3),
        [HotBoard(each.key, each.count) for each in boards if sees(each.key)],
        [HotMember(*each.key, each.count) for each in members if sees(each.key[0])],
    )
