"""Access to the store behind `Leaderboards`, for tests of its internals."""

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.stores.board_copies import BoardCopies, MovableCopies
from laurels.stores.http.store import RemoteStore
from laurels.stores.http.transport import Wire
from laurels.stores.local.store import Service
from laurels.stores.redis.store import RedisStore

Verbs = Leaderboards | AsyncLeaderboards


def local(lb: Verbs) -> Service:
    """Return the store of the boards, which must be in this process."""
    assert isinstance(lb._store, Service)
    return lb._store


def remote(lb: Verbs) -> RedisStore:
    """Return the store of the boards, which must be on an index server."""
    assert isinstance(lb._store, RedisStore)
    return lb._store


def wire_of(lb: Verbs) -> Wire:
    """Return the transport of a client's store, which sends requests to the service."""
    assert isinstance(lb._store, RemoteStore)
    return lb._store.wire


def stop_pacing(lb: AsyncLeaderboards) -> None:
    """Stop the task that does due work. Otherwise the number of its runs would depend on how long
    the test takes."""
    pacing = remote(lb)._pacing
    assert pacing is not None
    pacing.cancel()


def copies_of(lb: Verbs) -> BoardCopies:
    """Return a store's interface for copying whole boards."""
    assert isinstance(lb._store, Service | RedisStore | RemoteStore)
    return lb._store.copies


def movable_copies_of(lb: Verbs) -> MovableCopies:
    """Return the interface for copying boards while they are written."""
    assert isinstance(lb._store, Service | RedisStore)
    return lb._store.copies
