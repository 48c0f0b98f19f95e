"""The keys of a folder at rest or an index server, for programs beside the service."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laurels import config
from laurels.timeline.clock import SystemClock

from .access import Keys


@contextmanager
def keys_of(url: str, warned: Callable[[str], None]) -> Iterator[Keys]:
    """Open the keys of a folder, which is held meanwhile, or those on an index server; `warned` is
    called with what an operator should know of them.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and Locked where a server holds it.
    """
    with config.key_store_of(url, warned) as store:
        yield Keys(store, None, secrets.token_bytes, SystemClock().now_ms)
