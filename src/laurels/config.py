"""Putting a deployment together: the one place that names concrete parts.

A deployment is named by a URL: a folder's path (or `file:` and a path) is the embedded one, the
log in SQLite and the index in memory; `memory:` keeps the log in memory too and is gone with
the process.
"""

import secrets
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path

from .clock import Clock, EventClock, SystemClock
from .errors import InvalidClock, UnknownUrl
from .given import is_unicode, shown
from .index.memory import MemoryIndex
from .log.base import Log
from .log.folder import Folder
from .log.memory import MemoryLog
from .log.sqlite import SqliteLog
from .service import Service

DEFAULT_URL = "laurels-data"

_CLOCKS: dict[str, Callable[[], Clock]] = {"system": SystemClock, "event": EventClock}


def connect(url: str | PathLike[str], clock: str | Clock | None, *, create: bool) -> Service:
    """Opens the deployment a URL names, as a service of this recovered from its log."""
    url = fspath(url) if isinstance(url, PathLike) else url
    if url == "memory:":
        return _compose(MemoryLog(), clock)
    folder = Folder(_folder_path(url), create=create)
    try:
        log = SqliteLog(folder.log_path)
        try:
            service = _compose(log, clock)
        except BaseException:
            log.close()
            raise
    except BaseException:
        folder.close()
        raise
    service.on_close(folder.close)
    return service


def _compose(log: Log, clock: str | Clock | None) -> Service:
    """A service on the clock asked for, else the one the log was last written by.

    Boards go over to event time only while nothing has happened: later, time would go back.
    """
    if isinstance(clock, Clock) and not isinstance(clock, type):
        return Service(log, _new_index, clock)
    kept = log.note("clock")
    name = clock or kept or "system"
    if not isinstance(name, str) or name not in _CLOCKS:
        raise InvalidClock(f"there is no clock {shown(name)}")
    service = Service(log, _new_index, _CLOCKS[name](), name)
    if name == "event" and kept != "event" and service.begun:
        service.close()
        raise InvalidClock("the boards already run on another clock")
    return service


def _new_index() -> MemoryIndex:
    return MemoryIndex(secrets.randbits(64))


def _folder_path(url: object) -> Path:
    if not isinstance(url, str) or not url or "://" in url or "\0" in url or not is_unicode(url):
        raise UnknownUrl(f"{shown(url)} names no deployment this version knows")
    return Path(url.removeprefix("file:"))
