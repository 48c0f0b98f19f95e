"""Access to the store below the verbs, for measurements of its parts."""

from laurels.api.leaderboards import Leaderboards
from laurels.stores.local.store import Service


def local(lb: Leaderboards) -> Service:
    """Return the store of boards in this process."""
    assert isinstance(lb._store, Service)
    return lb._store
