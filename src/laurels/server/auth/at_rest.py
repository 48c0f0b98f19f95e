"""Open the keys of a folder or of an index server, for programs other than the service."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laurels import config
from laurels.timeline.clock import SystemClock

from .access import Keys


@contextmanager
def keys_of(url: str, warned: Callable[[str], None]) -> Iterator[Keys]:
    """Open the keys of a folder or of an index server. The folder is locked until the end of the
    block. `warned` is called with warnings for the operator.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and Locked if a server has the folder open.
    """
    with config.key_store_of(url, warned) as store:
        yield Keys(store, None, secrets.token_bytes, SystemClock().now_ms)
