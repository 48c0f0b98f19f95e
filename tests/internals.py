"""The stores below the verbs, for tests that look inside."""

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.stores.local.store import Service
from laurels.stores.redis.store import Direct

Verbs = Leaderboards | AsyncLeaderboards


def local(lb: Verbs) -> Service:
    """Return the store of boards that are in this process."""
    assert isinstance(lb._service, Service)
    return lb._service


def remote(lb: Verbs) -> Direct:
    """Return the store of boards that are on an index server."""
    assert isinstance(lb._service, Direct)
    return lb._service
