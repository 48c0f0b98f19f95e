"""Audit entries of commands that administer.

A service writes the entries of its calls itself. Commands on a folder or an index server write
theirs here; they name the user of this machine, since no key was used.
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
from laurels.wire.audit_entry import MAX_REQUEST_BYTES, AuditEntry, AuditStore, is_recorded

from .failures import one_line
from .show import complain

DONE, MAYBE_DONE = 200, 500


class Recorder:
    """Writes entries to the audit log that belongs to a URL, or none if a service writes them
    itself.

    The log is opened with the first entry. An entry that cannot be written is a warning, since the
    command itself has been carried out.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = ExitStack()
        self._log: AuditStore | None = None

    @contextmanager
    def call(
        self, verb: str, *, board: str | None = None, target: str | None = None, request: Any = None
    ) -> Iterator[None]:
        """Record the action of this block, unless it is refused."""

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
                self._log = self._open.enter_context(config.audit_log_of(self._url))
            self._log.add([entry])
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
    """Return the arguments of a call, or their length if they are long."""
    size = len(msgspec.json.encode(request))
    return request if size <= MAX_REQUEST_BYTES else {"bytes": size}


def _user() -> str:
    """Return the user of this process by its id, which no environment variable can change."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # for example in a container
        return str(number)
