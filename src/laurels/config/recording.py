"""Record the administrative calls of programs on this machine in the audit log. An entry has the
program's name, the user that it runs as, and the time of the system's clock."""

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.api.recording import Recorded, Recorder
from laurels.stores.base import Servable
from laurels.wire.audit_entry import AuditStore

_program: ContextVar[str] = ContextVar("laurels program", default="a program")


@contextmanager
def recorded_as(program: str) -> Iterator[None]:
    """Set the name of the program in the audit log for stores that are opened in this `with` block.
    The name tells calls of the command line from those of other programs."""
    token = _program.set(program)
    try:
        yield
    finally:
        _program.reset(token)


def recorded_verbs(store: Servable) -> Leaderboards:
    """Return `Leaderboards` over a store that this process has opened; administrative calls are
    recorded in the audit log of the store."""
    return Leaderboards(store, Recorded(store, recorder(store.audit_log)))


def recorded_verbs_async(store: Servable) -> AsyncLeaderboards:
    """Return `AsyncLeaderboards` over a store that this process has opened; administrative calls
    are recorded in the audit log of the store."""
    return AsyncLeaderboards(store, recorder(store.audit_log))


def recorder(log: AuditStore | None) -> Recorder:
    """Return a recorder that writes the calls of this process to an audit log; for None it writes
    nothing.
    """
    return Recorder(log, f"{_program.get()} (user {_user()})", _now_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _user() -> str:
    """Return the name of the user who runs this process.

    It is looked up by the user's id, which no environment variable can change.
    """
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # in a container, for example, the user may have no name
        return str(number)
