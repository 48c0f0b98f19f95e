"""The audit log of a folder or an index server, for programs that run beside the service."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from laurels import config
from laurels.errors import FolderMissing
from laurels.stores.local.files.audit import NAME, FolderAudit
from laurels.wire.audit_entry import AuditEntry, AuditStore, MemoryAudit
from laurels.wire.audit_page import AuditPage, page_of


class AuditLog:
    """An audit log with blocking calls."""

    def __init__(self, store: AuditStore, runner: asyncio.Runner) -> None:
        self._store = store
        self._runner = runner

    def add(self, entry: AuditEntry) -> None:
        """Append an entry; it is durable when this returns. Raise as `AuditStore.add`."""
        self._runner.run(self._store.add([entry]))

    def page(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return up to `limit` entries older than `before`, newest first, of a board or of all."""
        return self._runner.run(
            page_of(self._store, lambda entry: board in (None, entry.board), before, limit)
        )


@contextmanager
def audit_of(url: str, *, create: bool) -> Iterator[AuditLog]:
    """Open the audit log of the deployment that a URL names; a folder may be served meanwhile.

    With `create`, a folder without an audit log gets one. Raise UnknownUrl, FolderMissing,
    StorageFailed, FormatTooNew, and the errors of connecting to an index server.
    """
    with asyncio.Runner() as runner:
        if config.is_direct(url):
            with _of_server(url, runner) as log:
                yield log
            return
        store = _store_of(config.folder_of(url), create=create)
        try:
            yield AuditLog(store, runner)
        finally:
            runner.run(store.close())


@contextmanager
def _of_server(url: str, runner: asyncio.Runner) -> Iterator[AuditLog]:
    from laurels.stores.redis.connection.connection import connect, redis_address  # noqa: PLC0415
    from laurels.stores.redis.index.audit import RedisAudit  # noqa: PLC0415 (needs an optional package)

    address = redis_address(url)
    connection = runner.run(connect(address))
    try:
        yield AuditLog(RedisAudit(connection, address.prefix), runner)
    finally:
        runner.run(connection.close())


def _store_of(folder: Path | None, *, create: bool) -> AuditStore:
    if folder is None:
        return MemoryAudit()
    if not folder.is_dir():
        raise FolderMissing(f"there are no boards at {folder}")
    if not create and not (folder / NAME).exists():
        return MemoryAudit()
    return FolderAudit(folder)
