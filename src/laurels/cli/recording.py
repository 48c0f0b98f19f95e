"""What commands administer, written to the audit log.

A service writes the entries of its calls itself. Commands on a folder or an index server write
theirs here: they name the user of this machine, as no key was used.
"""

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import msgspec

from laurels import config
from laurels.errors import LaurelsError
from laurels.server.audit.opening import AuditLog, audit_of
from laurels.wire.audit_entry import MAX_REQUEST_BYTES, AuditEntry, is_recorded

from .failures import one_line
from .show import complain

DONE, MAYBE_DONE = 200, 500


class Recorder:
    """Write entries to the audit log that belongs to a URL; none where a service writes its own.

    The log is opened with the first entry. One that cannot be written is a warning: what it is
    about was carried out.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = ExitStack()
        self._log: AuditLog | None = None

    @contextmanager
    def call(
        self, verb: str, *, board: str | None = None, target: str | None = None, request: Any = None
    ) -> Iterator[None]:
        """Record what is done in this block, unless it is refused."""

        def add(status: int) -> None:
            if not config.is_remote(self._url):
                self._add(_entry(verb, board, target, request, status))

        try:
            yield
        except LaurelsError as error:
            if is_recorded(error.status):
                add(error.status)
            raise
        except BaseException:
            add(MAYBE_DONE)
            raise
        add(DONE)

    def _add(self, entry: AuditEntry) -> None:
        try:
            if self._log is None:
                self._log = self._open.enter_context(audit_of(self._url, create=True))
            self._log.add(entry)
        except LaurelsError as error:
            complain(f"warning: `{entry.verb}` is not in the audit log: {one_line(error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()


def _entry(
    verb: str, board: str | None, target: str | None, request: Any, status: int
) -> AuditEntry:
    return AuditEntry(
        at_ms=time.time_ns() // 1_000_000,
        by=f"the command line (user {_user()})",
        verb=verb,
        board=board,
        target=target,
        status=status,
        request=_bounded(request),
    )


def _bounded(request: Any) -> Any:
    """Return the arguments of a call, or how long they are."""
    size = len(msgspec.json.encode(request))
    return request if size <= MAX_REQUEST_BYTES else {"bytes": size}


def _user() -> str:
    """Return the name of the user whose process this is, which no variable can change."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container
        return str(number)
