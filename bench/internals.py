"""The store below the verbs, for what measures inside."""

from laurels.api.leaderboards import Leaderboards
from laurels.stores.local.store import Service


def local(lb: Leaderboards) -> Service:
    """Return the store of boards that are in this process."""
    assert isinstance(lb._store, Service)
    return lb._store
