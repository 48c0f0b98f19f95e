"""Putting a deployment together: the one place that names concrete parts.

A deployment is named by a URL: a folder's path (or `file:` and a path) is the embedded one, the
log in SQLite and the index in memory; `memory:` keeps the log in memory too and is gone with
the process. `http://…` and `https://…` are a server, which `connect` does not open: `remote`
gives the verbs over it. `redis://…` and its kin are the direct deployment, the boards on an index
server: `direct`.
"""

import asyncio
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.model.durations import duration_ms
from laurels.model.validation import is_unicode, safe_repr
from laurels.stores.base import Backing, PortableStore
from laurels.stores.local.backup import Backup, Progress
from laurels.stores.local.backup import back_up as back_up_folder
from laurels.stores.local.backup import restore as restore_folder
from laurels.stores.local.changes.file import ChangeFile
from laurels.stores.local.clock_file import ClockFile
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.base import Log
from laurels.stores.local.log.folder import Folder, announce
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.rewind import Rewound
from laurels.stores.local.rewind import rewind as rewind_folder
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.store import Service
from laurels.timeline.clock import Clock, EventClock, SystemClock
from laurels.timeline.clock_guard import DEFAULT_MAX_STEP_MS, ClockGuard, GuardedClock

from .errors import BoardInvalid, DataAtRisk, InvalidClock, NothingToBackUp, UnknownUrl

if TYPE_CHECKING:
    from laurels.stores.http.transport import ServiceAddress, Wire
    from laurels.stores.redis.connection.connection import Connection
    from laurels.stores.redis.index.definitions import RedisDefinitions
    from laurels.stores.redis.index.index import RedisIndex
    from laurels.stores.redis.store import Direct
    from laurels.wire.keys import KeyStore

DEFAULT_URL = "laurels-data"
KEY_VARIABLE = "LAURELS_KEY"
"""The key for a server, where its URL has none."""

_INDEX_SERVERS = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_CLOCKS = ("system", "event")
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
MIN_STEP_MS = 1_000
CHANGES_NAME = "changes.db"


def connect(
    url: str | PathLike[str],
    clock: str | Clock | None,
    *,
    create: bool,
    log_keep: bool | None = None,
    max_clock_step: str | int | None = None,
) -> Service:
    """Opens the deployment a URL names, as a service recovered from its snapshots and its log."""
    max_step_ms = _max_step_ms(max_clock_step)
    url = fspath(url) if isinstance(url, PathLike) else url
    if url == "memory:":
        return _compose(MemoryLog(), clock, None, partial(_guarded_clock, max_step_ms, None))
    folder = Folder(_folder_path(url), create=create)
    try:
        log = SqliteLog(folder.log_path)
        try:
            if log_keep is not None:
                log.set_note("log_keep", "all" if log_keep else "snapshots")
            snapshots = SnapshotFiles(folder.path)
            snapshots.clear_unfinished()
            guarded = partial(_guarded_clock, max_step_ms, ClockFile(folder.path))
            changes = ChangeFile(folder.path / CHANGES_NAME)
            service = _compose(log, clock, snapshots, guarded, changes)
        except BaseException:
            log.close()
            raise
    except BaseException:
        folder.close()
        raise
    service.on_close(folder.close)
    return service


def portable(
    url: str | PathLike[str], clock: str | Clock | None = None, *, create: bool
) -> PortableStore:
    """The store that a URL names, for copying boards from or to it."""
    if is_direct(url) or is_remote(url):
        raise UnknownUrl("boards are copied between folders")
    return connect(url, clock, create=create)


def _compose(
    log: Log,
    clock: str | Clock | None,
    snapshots: SnapshotFiles | None,
    system_clock: Callable[[], Clock],
    changes: ChangeFile | None = None,
) -> Service:
    """A service on the clock asked for, else the one the log was last written by.

    Boards go over to event time only while nothing has happened: later, time would go back.
    """
    if isinstance(clock, Clock) and not isinstance(clock, type):
        return Service(
            log,
            _new_index,
            clock,
            snapshots=snapshots,
            rest=_rest,
            stopwatch=time.perf_counter,
            changes=changes,
        )
    kept = log.note("clock")
    name = clock or kept or "system"
    if not isinstance(name, str) or name not in _CLOCKS:
        raise InvalidClock(f"expected system or event as the clock, got {safe_repr(name)}")
    chosen = system_clock() if name == "system" else EventClock()
    service = Service(log, _new_index, chosen, name, snapshots, _rest, time.perf_counter, changes)
    if name == "event" and kept != "event" and service.has_records:
        service.close()
        raise InvalidClock("the boards already run on another clock")
    return service


def _guarded_clock(max_step_ms: int, file: ClockFile | None) -> GuardedClock:
    """The clock of this machine, held against the time since it was started."""
    known = None if file is None else file.load()
    guard = ClockGuard(max_step_ms, _boot_id(), known, None if file is None else file.save)
    return GuardedClock(time.time_ns, _boot_ns, guard)


def _boot_ns() -> int:
    """Nanoseconds since the machine was started, suspension included. Where there is no
    CLOCK_BOOTTIME (macOS) the monotonic clock counts suspension."""
    return time.clock_gettime_ns(_BOOT_CLOCK)


def _boot_id() -> str:
    """What tells this boot of this machine from others; "" where the system has no such thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _max_step_ms(max_clock_step: str | int | None) -> int:
    """Milliseconds of the longest step of the clock that is followed at once."""
    if max_clock_step is None:
        return DEFAULT_MAX_STEP_MS
    try:
        step_ms = duration_ms(max_clock_step)
    except BoardInvalid as error:
        raise InvalidClock(f"max_clock_step: {error.what}") from error
    if step_ms < MIN_STEP_MS:
        raise InvalidClock(
            f"expected 1s or more for max_clock_step, got {safe_repr(max_clock_step)}"
        )
    return step_ms


def _rest() -> None:
    """Lets other threads run: one that only lets go of the interpreter gets it back at once."""
    time.sleep(0.0005)


def _new_index() -> MemoryIndex:
    return MemoryIndex(secrets.randbits(64))


def is_remote(url: str | PathLike[str]) -> bool:
    """Whether a URL names a server."""
    return isinstance(url, str) and url.lower().startswith(("http://", "https://"))


def remote(
    url: str, clock: object = None, log_keep: object = None, max_clock_step: object = None
) -> Leaderboards:
    """The verbs over a server; nothing is sent yet.

    Raises MissingClient, UnknownUrl, and InvalidClock where something is asked that only whoever
    holds the boards can say.
    """
    _ensure_not_told(clock, log_keep, max_clock_step)
    wire = remote_wire(url)
    from laurels.stores.http.store import RemoteStore  # noqa: PLC0415 (httpx is optional)

    return Leaderboards(RemoteStore(wire))


def remote_async(
    url: str, clock: object = None, log_keep: object = None, max_clock_step: object = None
) -> AsyncLeaderboards:
    """The same for event loops."""
    _ensure_not_told(clock, log_keep, max_clock_step)
    wire = remote_wire(url)
    from laurels.stores.http.store import AsyncRemoteStore  # noqa: PLC0415 (httpx is optional)
    from laurels.stores.http.transport import AsyncWire  # noqa: PLC0415

    return AsyncLeaderboards(
        AsyncRemoteStore(wire, AsyncWire(wire.address, _new_key, asyncio.sleep))
    )


def remote_wire(url: str) -> "Wire":
    """The connection to a server; nothing is sent yet. Raises MissingClient, UnknownUrl."""
    _ensure_client()
    from laurels.stores.http.transport import Wire  # noqa: PLC0415 (httpx is optional)

    return Wire(_address(url), _new_key, time.sleep)


@contextmanager
def key_store_of(url: str, warned: Callable[[str], None]) -> "Iterator[KeyStore]":
    """Open the store of the keys of a folder, which is held meanwhile, or of an index server;
    `warned` is called with what an operator should know of them.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and Locked where a server holds it.
    """
    from laurels.stores.local.key_file import FolderKeyStore  # noqa: PLC0415
    from laurels.stores.redis.key_store import ServerKeyStore  # noqa: PLC0415

    with ExitStack() as stack:
        store: KeyStore
        if is_direct(url):
            service = direct_beside(url, create=False)
            stack.callback(service.close)
            store = ServerKeyStore(service.keys, service.run, _new_key)
        else:
            folder = Folder(_folder_of(url), create=True)
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
    warn: Callable[[str], None],
) -> Backing:
    """Open what a server stands on, creating what is not there, on the loop that runs; `warn` is
    told what is wrong with its files. Raises as `connect` and `direct`."""
    from laurels.stores.local.audit import FolderAudit  # noqa: PLC0415
    from laurels.stores.local.key_file import FolderKeyStore  # noqa: PLC0415
    from laurels.stores.redis.key_store import ServerKeyStore  # noqa: PLC0415
    from laurels.wire.audit_entry import MemoryAudit  # noqa: PLC0415 (only the service)
    from laurels.wire.keys import MemoryKeyStore  # noqa: PLC0415

    if is_direct(url):
        direct = await direct_here(url, clock, create=True, max_clock_step=max_clock_step)
        stored = ServerKeyStore(direct.keys, direct.run, _new_key)
        return Backing(direct, stored, direct.audit, stored)
    service = await asyncio.to_thread(
        connect, url, clock, create=True, max_clock_step=max_clock_step
    )
    if (folder := folder_of(url)) is None:
        return Backing(service, MemoryKeyStore(), MemoryAudit())
    try:
        keys = FolderKeyStore(folder, service, warn)
        audit = await asyncio.to_thread(FolderAudit, folder)
    except BaseException:
        await asyncio.to_thread(service.close)
        raise
    return Backing(service, keys, audit)


def is_direct(url: str | PathLike[str]) -> bool:
    """Whether a URL names an index server."""
    scheme, found, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    return bool(found) and scheme.lower() in _INDEX_SERVERS


def without_login(url: str) -> str:
    """A URL as it may be shown: without what lets one in."""
    return _without_key(url) if "://" in url else url


def direct(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool = True,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> Leaderboards:
    """The verbs over an index server, on a loop in a thread. How the server may lose what was
    counted is told as a warning, DataAtRisk.

    Raises MissingRedis, UnknownUrl, InvalidClock, and where the server cannot be used.
    """
    service = direct_beside(
        url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
    )
    _warn_of(service)
    return Leaderboards(service)


async def direct_async(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool = True,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> AsyncLeaderboards:
    """The same on the loop that runs."""
    service = await direct_here(
        url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
    )
    _warn_of(service)
    return AsyncLeaderboards(service)


def direct_beside(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> "Direct":
    """The service over an index server on a loop in a thread, which ends with it."""
    from laurels.stores.redis.connection.loop import LoopThread  # noqa: PLC0415 (the package is optional)

    thread = LoopThread()
    try:
        service = thread.run(
            direct_here(url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step)
        )
    except BaseException:
        thread.close()
        raise
    service.on_close(thread.close)
    return service


async def direct_here(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> "Direct":
    """The service over an index server on the loop that runs."""
    from laurels.stores.redis.connection.connection import connect as connect_to  # noqa: PLC0415
    from laurels.stores.redis.connection.connection import redis_address  # noqa: PLC0415
    from laurels.stores.redis.index.audit import RedisAudit  # noqa: PLC0415
    from laurels.stores.redis.index.definitions import RedisDefinitions  # noqa: PLC0415
    from laurels.stores.redis.index.keys import RedisKeys  # noqa: PLC0415
    from laurels.stores.redis.registry import Registry  # noqa: PLC0415 (needs an optional package)
    from laurels.stores.redis.retry import Calls  # noqa: PLC0415
    from laurels.stores.redis.sharding.sharded import Sharded  # noqa: PLC0415
    from laurels.stores.redis.store import Direct  # noqa: PLC0415

    if log_keep is not None:
        raise InvalidClock(f"log_keep is {safe_repr(log_keep)}, but an index server keeps no log")
    address = redis_address(url)
    with _opening_counts_nothing():
        connection = await connect_to(address)
    try:
        definitions = RedisDefinitions(connection, address.prefix)
        guard = ClockGuard(_max_step_ms(max_clock_step))
        registry = Registry(definitions)
        with _opening_counts_nothing():
            await definitions.ensure_readable(create=create)
            followed = await _followed(clock, connection, definitions, guard, create=create)
            await registry.load()
        return Direct(
            Sharded(_redis_index(connection, address.prefix, followed)),
            registry,
            followed,
            asyncio.get_running_loop(),
            connection.close,
            RedisKeys(connection, address.prefix),
            Calls(secrets.token_hex(8)),
            connection.warnings,
            RedisAudit(connection, address.prefix),
        )
    except BaseException:
        await connection.close()
        raise


@contextmanager
def _opening_counts_nothing() -> Iterator[None]:
    """Have no error of opening an index server say that something may have been applied."""
    from laurels.errors.index_server import IndexUnavailable  # noqa: PLC0415

    try:
        yield
    except IndexUnavailable as error:
        error.clear_doubt()
        raise


async def _followed(
    clock: str | Clock | None,
    connection: "Connection",
    definitions: "RedisDefinitions",
    guard: ClockGuard,
    *,
    create: bool,
) -> Clock:
    """The clock asked for, else the one the boards on a server run by, which is noted when
    somebody comes who may create some."""
    from laurels.stores.redis.index.node_clock import NodeClock  # noqa: PLC0415 (needs an optional package)

    if isinstance(clock, Clock) and not isinstance(clock, type):
        return clock
    kept = await definitions.note("clock")
    name = clock or kept or "system"
    if not isinstance(name, str) or name not in _CLOCKS:
        raise InvalidClock(f"expected system or event as the clock, got {safe_repr(name)}")
    if kept is None and create:
        kept = await definitions.first_note("clock", name)
    if kept not in (None, name):
        raise InvalidClock("the boards already run on another clock")
    if name == "event":
        return EventClock()
    followed = NodeClock(connection, definitions.key, _boot_ns, guard, notes=definitions)
    await followed.start()
    return followed


def _redis_index(connection: "Connection", prefix: str, clock: Clock) -> "RedisIndex":
    """The index on a server; under the server's own clock the keys of its periods expire."""
    from laurels.stores.redis.index.index import RedisIndex  # noqa: PLC0415 (needs an optional package)
    from laurels.stores.redis.index.node_clock import NodeClock  # noqa: PLC0415

    return RedisIndex(connection, prefix, _wall_clock(clock), expires=isinstance(clock, NodeClock))


def _wall_clock(clock: Clock) -> Clock | None:
    """A clock that goes on by itself; None for one that only events move."""
    return None if isinstance(clock, EventClock) else clock


def _warn_of(service: "Direct") -> None:
    for risk in service.risks:
        warnings.warn(risk, DataAtRisk, stacklevel=4)


def _ensure_not_told(clock: object, log_keep: object, max_clock_step: object) -> None:
    settings = (("clock", clock), ("log_keep", log_keep), ("max_clock_step", max_clock_step))
    for name, said in settings:
        if said is not None:
            raise InvalidClock(
                f"{name} is {safe_repr(said)}, but a server decides on its own {name}"
            )


def _ensure_client() -> None:
    from laurels.errors.client import MissingClient  # noqa: PLC0415 (only a client needs it)

    if find_spec("httpx") is None:
        raise MissingClient("httpx is not installed")


def _address(url: str) -> "ServiceAddress":
    """Where a server is; the key is the user of the URL, or comes from the environment."""
    from laurels.stores.http.transport import ServiceAddress  # noqa: PLC0415 (httpx is optional)

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UnknownUrl(f"expected a URL, got {safe_repr(_without_key(url))} ({error})") from error
    if not host or parts.query or parts.fragment or not is_unicode(url):
        raise UnknownUrl(f"expected the address of a server, got {safe_repr(_without_key(url))}")
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    key = unquote(parts.username or "") or os.environ.get(KEY_VARIABLE) or None
    return ServiceAddress(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", key)


def _without_key(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _new_key() -> str:
    return uuid4().hex


def back_up(url: str, file: Path, *, overwrite: bool, progress: Progress) -> Backup:
    """Writes all that the deployment of a URL holds to one file, also while it is served.

    Raises NothingToBackUp for `memory:`, UnknownUrl, and as `backup.back_up`.
    """
    return back_up_folder(_folder_of(url), file, overwrite=overwrite, progress=progress)


def restore(file: Path, url: str, *, progress: Progress) -> Backup:
    """Makes a deployment of a backup; raises as `back_up`, and as `backup.restore`."""
    return restore_folder(file, _folder_of(url), progress=progress)


def rewind(url: str, until_ms: int | None, *, dry_run: bool) -> Rewound:
    """Bring the folder of a deployment, which nobody may use meanwhile, back to an instant, by
    default to now. Raises NothingToBackUp without a folder, Locked, and as `rewind.rewind`."""
    folder = Folder(_folder_of(url), create=False)
    try:
        log = SqliteLog(folder.log_path)
        try:
            until_ms = SystemClock().now_ms() if until_ms is None else until_ms
            return rewind_folder(folder.path, log, until_ms, dry_run=dry_run)
        finally:
            log.close()
    finally:
        folder.close()


def folder_of(url: str) -> Path | None:
    """The folder that holds the files of a deployment, None where it has none. UnknownUrl."""
    return None if url == "memory:" or is_direct(url) else _folder_path(url)


@contextmanager
def announced(url: str, address: str) -> Iterator[None]:
    """Has whoever finds the folder of a deployment in use be told where it is served."""
    folder = folder_of(url)
    if folder is not None:
        announce(folder, address)
    try:
        yield
    finally:
        if folder is not None:
            announce(folder, None)


def _folder_of(url: str) -> Path:
    """The folder that holds the files of a deployment."""
    if url == "memory:":
        raise NothingToBackUp("the store is in memory: it has no files")
    if is_direct(url):
        raise NothingToBackUp("the boards are on an index server, which keeps them its own way")
    return _folder_path(url)


def _folder_path(url: object) -> Path:
    if not isinstance(url, str) or not url or "://" in url or "\0" in url or not is_unicode(url):
        raise UnknownUrl(f"expected the URL of a deployment, got {safe_repr(url)}")
    return Path(url.removeprefix("file:"))
