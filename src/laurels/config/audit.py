"""Opens audit logs, also while another process has the boards open."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from laurels.api.recording import Recorder
from laurels.errors import FolderMissing
from laurels.stores.local.files.audit import FolderAudit
from laurels.wire.audit_entry import AuditStore, MemoryAudit

from .index_server import direct_beside
from .recording import recorder
from .urls import folder_of, is_direct, is_remote


@contextmanager
def audit_log_of(url: str) -> Iterator[AuditStore]:
    """Open the audit log of a folder or of an index server. Another process may have the folder
    open. The audit log of `memory:` is empty.

    Raises UnknownUrl, FolderMissing, and the errors of opening an index server.
    """
    if is_direct(url):
        with closing(direct_beside(url, create=False)) as store:
            yield store.audit_log
        return
    folder = folder_of(url)
    if folder is not None and not folder.is_dir():
        raise FolderMissing(f"there are no boards at {folder}")
    with closing(MemoryAudit() if folder is None else FolderAudit(folder)) as log:
        yield log


@contextmanager
def recorder_of(url: str) -> Iterator[Recorder]:
    """Open a recorder for calls that are not verbs of `Leaderboards`, such as the creation of a
    key. For the URL of a service the recorder writes nothing, since the service itself records the
    calls. Raises the errors of `audit_log_of`."""
    if is_remote(url):
        yield recorder(None)
        return
    with audit_log_of(url) as log:
        yield recorder(log)
