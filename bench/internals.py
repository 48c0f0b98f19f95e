"""Access to the store behind `Leaderboards`, for measurements of its parts."""

from laurels.api.leaderboards import Leaderboards
from laurels.stores.local.store import Service


def local(lb: Leaderboards) -> Service:
    """Return the store, which must be one in this process."""
    assert isinstance(lb._store, Service)
    return lb._store
