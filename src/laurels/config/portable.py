"""Opening a store to copy boards from or to it."""

from os import PathLike

from laurels.errors import UnknownUrl
from laurels.stores.base import PortableStore
from laurels.timeline.clock import Clock

from .local import connect
from .urls import is_direct, is_remote


def portable(
    url: str | PathLike[str], clock: str | Clock | None = None, *, create: bool
) -> PortableStore:
    """The store that a URL names, for copying boards from or to it."""
    if is_direct(url) or is_remote(url):
        raise UnknownUrl("boards are copied between folders")
    return connect(url, clock, create=create)
