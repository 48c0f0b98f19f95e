"""The stores below the verbs, for tests that look inside."""

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.stores.base import BoardCopies
from laurels.stores.http.store import RemoteStore
from laurels.stores.http.transport import Wire
from laurels.stores.local.store import Service
from laurels.stores.redis.store import RedisStore

Verbs = Leaderboards | AsyncLeaderboards


def local(lb: Verbs) -> Service:
    """Return the store of boards that are in this process."""
    assert isinstance(lb._store, Service)
    return lb._store


def remote(lb: Verbs) -> RedisStore:
    """Return the store of boards that are on an index server."""
    assert isinstance(lb._store, RedisStore)
    return lb._store


def wire_of(lb: Verbs) -> Wire:
    """Return the connection to the service that the boards are behind."""
    assert isinstance(lb._store, RemoteStore)
    return lb._store.wire


def stop_pacing(lb: AsyncLeaderboards) -> None:
    """Have no task see to what time makes due: how often it does depends on how long a test
    takes."""
    pacing = remote(lb)._pacing
    assert pacing is not None
    pacing.cancel()


def copies_of(lb: Verbs) -> BoardCopies:
    """Return the access to whole boards of a store that has it."""
    assert isinstance(lb._store, Service | RedisStore | RemoteStore)
    return lb._store.copies
