"""Opens what a server needs: its store, its key store and its audit log."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from laurels.stores.answers.answer import CacheSettings
from laurels.stores.base import Backing
from laurels.stores.local.log.folder import Folder
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.timeline.clock import Clock

from .index_server import DEFAULT_CACHE, direct_beside, direct_here
from .local import connect
from .service import new_key
from .urls import folder_of, folder_with_files, is_direct

if TYPE_CHECKING:
    from laurels.wire.keys import KeyStore


@contextmanager
def key_store_of(url: str, warned: Callable[[str], None]) -> "Iterator[KeyStore]":
    """Open the key store of a folder or of an index server. The folder stays locked until the end
    of the block. `warned` is called with each warning for the operator.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and Locked if a server has the folder open.
    """
    from laurels.stores.local.files.key_file import FolderKeyStore  # noqa: PLC0415
    from laurels.stores.redis.key_store import ServerKeyStore  # noqa: PLC0415

    with ExitStack() as stack:
        store: KeyStore
        if is_direct(url):
            service = direct_beside(url, create=False)
            stack.callback(service.close)
            store = ServerKeyStore(service.keys, service.run, new_key)
        else:
            folder = Folder(folder_with_files(url), create=True)
            stack.callback(folder.close)
            log = SqliteLog(folder.log_path)
            stack.callback(log.close)
            store = FolderKeyStore(folder.path, log, warned)
        yield store


async def servable(
    url: str,
    clock: str | Clock | None = None,
    *,
    max_clock_step: str | int | None,
    cache: CacheSettings = DEFAULT_CACHE,
    warn: Callable[[str], None],
    moment: Callable[[], int] | None = None,
    ledgers: Mapping[str, str] = {},
) -> Backing:
    """Open the store of a server on the running event loop, creating it if it does not exist;
    `warn` is called with each problem of the store's files. `moment` returns the next moment; the
    stores of one service share this function, so that their moments are in one order. Raises the
    errors of `connect` and `direct`."""
    from laurels.stores.local.answers import LocalAnswers  # noqa: PLC0415
    from laurels.stores.local.files.key_file import FolderKeyStore  # noqa: PLC0415
    from laurels.stores.redis.key_store import ServerKeyStore  # noqa: PLC0415
    from laurels.wire.keys import MemoryKeyStore  # noqa: PLC0415 (only a server needs it)

    if is_direct(url):
        direct = await direct_here(
            url,
            clock,
            create=True,
            max_clock_step=max_clock_step,
            cache=cache,
            is_session=False,
            moment=moment,
            ledgers=ledgers,
        )
        stored = ServerKeyStore(direct.keys, direct.run, new_key)
        return Backing(direct, direct.answers, stored, direct, stored)
    service = await asyncio.to_thread(
        connect, url, clock, create=True, max_clock_step=max_clock_step
    )
    answers = LocalAnswers(service, cache.max_bytes)
    if (folder := folder_of(url)) is None:
        return Backing(service, answers, MemoryKeyStore(), service)
    try:
        keys = FolderKeyStore(folder, service, warn)
        await asyncio.to_thread(service.audit_log.create)
    except BaseException:
        await asyncio.to_thread(service.close)
        raise
    return Backing(service, answers, keys, service)
