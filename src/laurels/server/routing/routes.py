"""The route table: what each endpoint takes, what it answers, and who may call it.

A handler is a verb of `AsyncLeaderboards` over HTTP. The docstring of the handler is its text in
the documentation, and the struct of its query has its parameters. `openapi` is made from the table,
so the documentation cannot differ from the table.
"""

from laurels.server.verbs import (
    audit,
    boards,
    callers,
    changes,
    copies,
    erasing,
    flows,
    hot,
    members,
    moderation,
    moves,
    payouts,
    positions,
    queries,
    streams,
    upkeep,
    writes,
)

from .route import Route

ROUTES: list[Route] = [
    *boards.ROUTES,
    *writes.ROUTES,
    *members.ROUTES,
    *positions.ROUTES,
    *moderation.ROUTES,
    *erasing.ROUTES,
    *queries.ROUTES,
    *streams.ROUTES,
    *changes.ROUTES,
    *callers.ROUTES,
    *hot.ROUTES,
    *payouts.ROUTES,
    *upkeep.ROUTES,
    *flows.ROUTES,
    *copies.ROUTES,
    *moves.ROUTES,
    *audit.ROUTES,
]
