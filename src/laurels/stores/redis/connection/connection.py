"""A connection to an index server or cluster: it runs scripts and commands within a time limit.

Within `timeout_ms` a caller gets an answer or one of the errors of `errors`. After a restart of the
server, after a failover to a replica, and while slots move to another node, the connection is made
again automatically. If that takes too long, the call fails with an error that says whether the call
may have been carried out. The caller may retry.
"""

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from laurels.errors import Closed, Forked, LaurelsError
from laurels.errors.index_server import (
    IndexDenied,
    IndexFailed,
    IndexMoving,
    IndexUnavailable,
    MissingRedis,
    WrongServer,
)
from laurels.stores.intake import forks
from laurels.stores.redis.scripts import Script

from .deadline import seconds_left
from .errors import DENIED_WORDS, unanswered
from .moving import MOVING_SECONDS, guarded, sibling_key, slot_of
from .server import ServerInfo, server_info, sync_policy
from .urls import Host, RedisAddress, redis_address

if TYPE_CHECKING:
    from .wire import ServerClient

__all__ = ["Connection", "RedisAddress", "connect", "redis_address"]

TIMEOUT_MS = 2_000
_MOVING_SHARE = 0.75
"""The fraction of the time limit that may be spent on waiting for a slot to move. The rest is for a
last attempt, so that the call fails with the error of the server and not by a timeout."""
_MARGIN_MS = 50
"""By how many milliseconds the time limit of the client library is shorter than the limit of this
module. So the limit of this module takes effect only if the library fails to enforce its own."""


async def connect(address: RedisAddress, *, timeout_ms: int = TIMEOUT_MS) -> "Connection":
    """Connect to a server or cluster, and check that it is usable.

    Raises MissingRedis, IndexUnavailable if there is no answer in time, IndexDenied for a wrong
    user or password, IndexTooOld, and WrongServer for a replica, for a database that does not
    exist, and for a URL that names a cluster as a single server or a single server as a cluster.
    """
    connection = await _open(address, timeout_ms)
    try:
        policies = await connection.sync_policies()
        for place, info in (await connection.infos()).items():
            _check_server(connection, place, info, policies.get(place))
    except BaseException as error:
        await connection.close()
        if isinstance(error, IndexUnavailable):
            await _raise_reason(address, timeout_ms, error)
        raise
    return connection


class Connection:
    """A connection made by `connect`, for any number of tasks of the loop that made it.

    `warnings` are sentences about how the server may lose counted events; `server` is its name and
    version.
    """

    def __init__(self, wire: "ServerClient", address: RedisAddress, timeout_ms: int) -> None:
        self.address = address
        self.warnings: list[str] = []
        self.server = ""
        self._wire = wire
        self._timeout_ms = timeout_ms
        self._forks = forks.count
        self._closed = False

    async def script(self, script: Script, key: bytes, argument: bytes) -> Any:
        """Run a script on the node that owns `key`: KEYS[1] is the key, ARGV[1] the argument.

        If the server does not know the script, its source is sent. While the slot of the key moves
        to another node of a cluster, the call waits and tries again. Raises the errors of
        `command`.
        """
        return await self._with_timeout(self._run(script, key, argument))

    async def command(self, *parts: bytes, key: bytes | None) -> Any:
        """Send a command to the node that owns `key`; if `key` is None, the client library chooses
        the node.

        Raises IndexDenied, IndexFailed, Closed, Forked, and IndexUnavailable, after which the
        command may be sent again.
        """
        return await self._with_timeout(self._wire.send(parts, self._slot(key)))

    async def infos(self) -> dict[str, ServerInfo]:
        """Return the INFO text of every primary, by its address. Raises the errors of `command`."""
        texts = await self._with_timeout(self._wire.send_to_primaries(b"INFO"))
        return {place: server_info(text) for place, text in texts.items()}

    async def sync_policies(self) -> dict[str, str]:
        """Return the `appendfsync` policy of every primary that this user may query, by the
        primary's address. Raises the errors of `command`."""
        try:
            answers = await self._with_timeout(
                self._wire.send_to_primaries(b"CONFIG", b"GET", b"appendfsync")
            )
        except (IndexDenied, IndexFailed):
            return {}
        return {place: sync_policy(answer) for place, answer in answers.items()}

    async def close(self) -> None:
        """Disconnect from the server; calls in progress end with Closed."""
        if not self._closed and forks.count == self._forks:
            self._closed = True
            await self._wire.close()

    async def _run(self, script: Script, key: bytes, argument: bytes) -> Any:
        """Run a script; while the slot of its key moves, wait and try again."""
        arguments: list[bytes] = [key, argument]
        if self.address.cluster:
            script = guarded(script)
            arguments.append(sibling_key(key))
        until = asyncio.get_running_loop().time() + self._timeout_ms / 1_000 * _MOVING_SHARE
        while True:
            try:
                return await self._run_now(script, arguments)
            except IndexMoving:
                if asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(MOVING_SECONDS)

    async def _run_now(self, script: Script, arguments: list[bytes]) -> Any:
        """Run a script by its digest, or by its source if the server does not know it yet."""
        from .wire import NoScript  # noqa: PLC0415 (needs an optional package)

        try:
            return await self._wire.send([b"EVALSHA", script.sha.encode(), b"1", *arguments])
        except NoScript:
            return await self._wire.send([b"EVAL", script.source.encode(), b"1", *arguments])

    async def _with_timeout(self, call: Coroutine[Any, Any, Any]) -> Any:
        seconds = seconds_left(self._timeout_ms / 1_000)
        try:
            self._ensure_usable()
            if seconds <= 0:
                raise IndexUnavailable(
                    f"no call was sent to {self.address}: the time limit had passed"
                )
            async with asyncio.timeout(seconds):
                return await call
        except TimeoutError as error:
            await self._wire.take_answers_over()
            raise unanswered(str(self.address), f"within {seconds * 1_000:.0f} ms") from error
        except asyncio.CancelledError as error:
            if self._closed:  # closing the library's client cancels its calls
                raise Closed("the connection was closed during the call") from error
            raise
        finally:
            call.close()

    def _ensure_usable(self) -> None:
        if forks.count != self._forks:
            raise Forked("the connection was made in the parent of this process")
        if self._closed:
            raise Closed("the connection to the index server is closed")

    def _slot(self, key: bytes | None) -> int | None:
        return None if key is None or not self.address.cluster else slot_of(key)


async def _open(address: RedisAddress, timeout_ms: int) -> Connection:
    if find_spec("glide") is None:
        raise MissingRedis("valkey-glide is not installed")
    from .wire import ServerClient  # noqa: PLC0415 (needs an optional package)

    library_ms = timeout_ms - min(_MARGIN_MS, timeout_ms // 10)
    return Connection(await ServerClient.open(address, library_ms), address, timeout_ms)


def _check_server(
    connection: Connection, place: str, info: ServerInfo, sync_policy: str | None
) -> None:
    if info.cluster and not connection.address.cluster:
        raise WrongServer(f"{place} is a node of a cluster")
    info.ensure_recent(place)
    connection.server = info.name
    connection.warnings.extend(info.warnings(place, sync_policy))


async def _raise_reason(address: RedisAddress, timeout_ms: int, error: IndexUnavailable) -> None:
    """Find out why an address cannot be reached, and raise an error with the reason. Return if the
    reason cannot be found."""
    message = str(error.__cause__)
    if any(word in message for word in DENIED_WORDS):
        raise IndexDenied(f"{address} rejects the user or the password") from error
    if "PermissionDenied" in message or "NOPERM" in message:
        raise IndexDenied(f"{address} denies the user the commands INFO and ROLE") from error
    if "No primary node found" in message:
        raise WrongServer(f"{address} is a replica") from error
    if len(address.hosts) > 1 and not address.cluster:
        return
    await _probe_port(address.hosts[0], timeout_ms)
    if address.cluster or address.database:
        await _check_address(address, timeout_ms, error)


async def _probe_port(host: Host, timeout_ms: int) -> None:
    """Raise IndexUnavailable, with the reason, if a host cannot be reached."""
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            _, writer = await asyncio.open_connection(host.name, host.port)
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        raise IndexUnavailable(f"{host} cannot be reached ({reason})") from error
    writer.close()


async def _check_address(address: RedisAddress, timeout_ms: int, error: IndexUnavailable) -> None:
    """Raise WrongServer if the address names a cluster but its first host is a single server, or if
    it names a database that the server does not have. To find this out, connect to the first host
    as a single server with database 0. Return if that host does not answer."""
    plain = msgspec.structs.replace(address, hosts=address.hosts[:1], cluster=False, database=0)
    probe = await _open(plain, timeout_ms)
    try:
        ((place, info),) = (await probe.infos()).items()
    except LaurelsError:
        return
    finally:
        await probe.close()
    if address.cluster and not info.cluster:
        raise WrongServer(f"{place} is a single server, not a cluster") from error
    if address.database:
        raise WrongServer(f"{place} has no database {address.database}") from error
