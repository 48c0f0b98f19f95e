"""The table of endpoints: what each takes, what it answers, and who may ask.

A handler is a verb of `AsyncLeaderboards` seen from HTTP. Its docstring is what the documentation
says, its query's struct are the parameters; `openapi` describes the table, so nothing drifts.
"""

from laurels.server.verbs import audit, boards, callers, changes, questions, streams, upkeep, writes

from .route import Route

ROUTES: list[Route] = [
    *boards.ROUTES,
    *writes.ROUTES,
    *questions.ROUTES,
    *streams.ROUTES,
    *changes.ROUTES,
    *callers.ROUTES,
    *upkeep.ROUTES,
    *audit.ROUTES,
]
