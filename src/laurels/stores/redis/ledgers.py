"""The ledgers in which boards on an index server keep the standings of sealed periods.

A definition names its ledger; each process is configured with the URLs. The drivers of the
databases block, so their calls run in threads of the ledger's own: a database that hangs occupies
these threads and nothing else.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from laurels.errors.index_server import LedgerUnavailable, UnknownLedger
from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable
from laurels.model.validation import quoted
from laurels.sql.databases import dialect_of
from laurels.sql.dialects import Dialect
from laurels.sql.making import make_tables

READERS = 4
"""The number of threads that read from a ledger at the same time."""
READ_SECONDS = 4.5
"""The time limit of a read, in seconds, including the time that it waits for a thread."""
MAX_WAITING = 256
"""The maximum number of reads that run or wait for a thread."""

T = TypeVar("T")


class Ledger:
    """A ledger in a database. Reads and writes are functions of a connection, each of which is one
    transaction. Every method raises LedgerUnavailable."""

    def __init__(self, name: str, dialect: Dialect, prefix: str) -> None:
        self.name = name
        self.dialect = dialect
        self.prefix = prefix
        self._readers = ThreadPoolExecutor(READERS, f"laurels-ledger-{name}")
        self._writer = ThreadPoolExecutor(1, f"laurels-ledger-{name}-seal")
        self._lock = Lock()
        self._idle: list[Any] = []
        self._waiting = 0
        self._has_tables = False

    async def read(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function that reads over a connection."""
        if self._waiting >= MAX_WAITING:
            raise LedgerUnavailable(f"the ledger {quoted(self.name)} does not keep up with reads")
        self._waiting += 1
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._readers, self._read, work)
        reading.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(reading), READ_SECONDS)
        except TimeoutError:
            raise LedgerUnavailable(
                f"the ledger {quoted(self.name)} did not answer within {READ_SECONDS} s"
            ) from None

    async def compute(self, work: Callable[[Any], T]) -> T:
        """Return the result of a long function that reads over a connection. It runs between the
        writes of this process."""
        return await self.write(work)

    async def write(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function that writes over a connection. The writes of this process
        come one after the other."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, self._transact, work)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Enter a transaction over a connection of its own, in the thread of the caller."""
        with self._plain_errors():
            connection = self._connect()
            try:
                yield connection
                connection.commit()
            finally:
                _close(connection)

    def close(self) -> None:
        """Close the connections that are not in use. Reads and writes that run are not awaited."""
        for executor in (self._readers, self._writer):
            executor.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close(connection)

    def _done(self, reading: "asyncio.Future[Any]") -> None:
        self._waiting -= 1
        if not reading.cancelled():
            reading.exception()  # a read that nobody awaits any more may fail silently

    def _read(self, work: Callable[[Any], T]) -> T:
        """Read in a transaction. If a connection that was idle has been lost meanwhile, read again
        over a new one."""
        with self._lock:
            had_idle = bool(self._idle)
        try:
            return self._transact(work)
        except LedgerUnavailable:
            if not had_idle:
                raise
            with self._lock:
                idle, self._idle = self._idle, []
            for connection in idle:
                _close(connection)
            return self._transact(work)

    def _transact(self, work: Callable[[Any], T]) -> T:
        with self._plain_errors():
            return self._run(work)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Raise LedgerUnavailable for the errors of the database."""
        try:
            with self.dialect.errors():
                yield
        except (TargetUnavailable, TargetRefused, NoLedger, MissingDriver) as error:
            raise LedgerUnavailable(f"the ledger {quoted(self.name)}: {error.what}") from error

    def _connect(self) -> Any:
        """Return a new connection to a database that has the tables."""
        connection = self.dialect.connect()
        if not self._has_tables:
            try:
                make_tables(self.dialect, self.prefix, connection)
                connection.commit()
            except BaseException:
                _close(connection)
                raise
            self._has_tables = True
        return connection

    def _run(self, work: Callable[[Any], T]) -> T:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            result = work(connection)
            connection.commit()
        except BaseException:
            _close(connection)
            raise
        with self._lock:
            if len(self._idle) <= READERS:
                self._idle.append(connection)
                return result
        _close(connection)
        return result


class ArchiveSettings(Struct, frozen=True):
    """The settings for sealing: the `urls` of ledgers by name, a `token` that identifies this
    process, and a function that returns a number of random bytes."""

    urls: Mapping[str, str]
    token: str
    secret: Callable[[int], bytes]


class Ledgers:
    """The ledgers that this process is configured with: URLs by name."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._opened: dict[str, Ledger] = {}

    def named(self, name: str) -> Ledger:
        """Return the ledger of that name; it is connected when it is used. Raises UnknownLedger,
        and the errors of an invalid URL."""
        ledger = self._opened.get(name)
        if ledger is None:
            if name not in self._urls:
                raise UnknownLedger(f"expected a configured ledger, got {quoted(name)}")
            ledger = self._opened[name] = Ledger(name, *dialect_of(self._urls[name]))
        return ledger

    def close(self) -> None:
        """Close all connections that are not in use."""
        for ledger in self._opened.values():
            ledger.close()


def _close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()
