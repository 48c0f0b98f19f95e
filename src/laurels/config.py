"""Putting a deployment together: the one place that names concrete parts.

A deployment is named by a URL: a folder's path (or `file:` and a path) is the embedded one, the
log in SQLite and the index in memory; `memory:` keeps the log in memory too and is gone with
the process.
"""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from .clock import Clock, EventClock, SystemClock
from .errors import InvalidClock, UnknownUrl
from .index.memory import MemoryIndex
from .log.base import Log
from .log.folder import Folder
from .log.memory import MemoryLog
from .log.sqlite import SqliteLog
from .service import Service

DEFAULT_URL = "laurels-data"

_CLOCKS: dict[str, Callable[[], Clock]] = {"system": SystemClock, "event": EventClock}
_S = TypeVar("_S", bound=Service)


def connect(kind: type[_S], url: str, clock: str | Clock | None, *, create: bool) -> _S:
    """Opens the deployment a URL names, as a service of this kind, recovered from its log."""
    if url == "memory:":
        return _compose(kind, MemoryLog(), clock)
    folder = Folder(_folder_path(url), create=create)
    try:
        log = SqliteLog(folder.log_path)
        try:
            service = _compose(kind, log, clock)
        except BaseException:
            log.close()
            raise
    except BaseException:
        folder.close()
        raise
    service.on_close(folder.close)
    return service


def _compose(kind: type[_S], log: Log, clock: str | Clock | None) -> _S:
    """A service on the clock asked for, else the one the log was last written by.

    Boards made for the system's clock go over to event time only while nothing has happened:
    later, time would go back.
    """
    if isinstance(clock, Clock):
        return _service(kind, log, clock)
    kept = log.note("clock")
    name = clock or kept or "system"
    if name not in _CLOCKS:
        raise InvalidClock(f"there is no clock {name!r}")
    service = _service(kind, log, _CLOCKS[name]())
    if name == "event" and kept == "system" and service.begun:
        raise InvalidClock("the boards already run on the system's clock")
    if name != kept:
        log.set_note("clock", name)
    return service


def _service(kind: type[_S], log: Log, clock: Clock) -> _S:
    return kind(log, lambda: MemoryIndex(secrets.randbits(64)), clock)


def _folder_path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc:
        return Path(parts.path)
    if not url or "://" in url:
        raise UnknownUrl(f"{url!r} names no deployment this version knows")
    return Path(url)
