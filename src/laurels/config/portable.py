"""Opening a store to copy boards from or to it."""

from os import PathLike, fspath

from laurels.stores.base import PortableStore
from laurels.timeline.clock import Clock

from .index_server import direct_beside
from .local import connect
from .service import remote_store
from .urls import is_direct, is_remote


def portable(
    url: str | PathLike[str], clock: str | Clock | None = None, *, create: bool
) -> PortableStore:
    """Return the store of a URL, for copying boards from or to it."""
    if is_direct(url):
        return direct_beside(fspath(url), clock, create=create)
    if is_remote(url):
        return remote_store(fspath(url), clock)
    return connect(url, clock, create=create)
