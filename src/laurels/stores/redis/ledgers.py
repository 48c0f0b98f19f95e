"""The ledgers in which boards on an index server keep the standings of sealed periods.

A definition names its ledger; each process is configured with the URLs. The drivers of the
databases block, so their calls run in threads of the ledger's own: some for reads, one for writes
and one for long computations. A database that hangs occupies these threads and nothing else. If the
caller stops waiting, the call is ended and its connection is closed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Generic, TypeVar

from msgspec import Struct

from laurels.errors.index_server import LedgerUnavailable, UnknownLedger
from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable
from laurels.model.validation import quoted
from laurels.sql.databases import dialect_of
from laurels.sql.dialects import ANSWER_SECONDS, Dialect
from laurels.sql.final_reading import FinalReader
from laurels.sql.final_writing import FinalWriter
from laurels.sql.making import make_tables

READERS = 4
"""The number of threads that read from a ledger at the same time."""
READ_SECONDS = 4.5
"""The time limit of a read, in seconds, including the time that it waits for a thread."""
MAX_WAITING = 256
"""The maximum number of reads that run or wait for a thread."""
MAX_COMPUTING = 8
"""The maximum number of computations that run or wait for their thread."""

T = TypeVar("T")
_log = logging.getLogger("laurels")


class _Call(Generic[T]):
    """A function that runs over a connection in a thread, and that can be ended meanwhile."""

    def __init__(self, dialect: Dialect, work: Callable[[Any], T]) -> None:
        self._dialect = dialect
        self._lock = Lock()
        self._connection: Any = None
        self.work = work
        self.is_ended = False

    @contextmanager
    def over(self, connection: Any) -> Iterator[None]:
        """Return a context in which `end` aborts this connection."""
        self._use(connection)
        try:
            yield
        finally:
            self._use(None)

    def end(self) -> None:
        """End the function by aborting its connection, so that it fails. Does not block."""
        with self._lock:
            self.is_ended = True
            if self._connection is not None:
                self._dialect.abort(self._connection)

    def _use(self, connection: Any) -> None:
        with self._lock:
            if self.is_ended and connection is not None:
                raise TargetUnavailable("the call was ended before it began")
            self._connection = connection


class _Threads:
    """Threads in which calls run over connections to a database. `seconds` is the time limit of
    one statement."""

    def __init__(self, name: str, threads: int, seconds: float) -> None:
        self._executor = ThreadPoolExecutor(threads, name)
        self._threads = threads
        self._lock = Lock()
        self._idle: list[Any] = []
        self._calls: set[_Call[Any]] = set()
        self._is_closed = False
        self.seconds = seconds

    @property
    def running(self) -> int:
        """The number of calls that run or wait for a thread."""
        return len(self._calls)

    async def run(self, call: _Call[T], run: Callable[["_Threads", _Call[T]], T]) -> T:
        """Return the result of `run`, called in a thread. If the caller is cancelled, the call is
        ended. Raises LedgerUnavailable after `close`."""
        with self._lock:
            self._calls.add(call)
        try:
            future = self._executor.submit(run, self, call)
        except RuntimeError:
            self._finish(call)
            raise LedgerUnavailable("the ledger is closed") from None
        future.add_done_callback(lambda _: self._finish(call))
        try:
            return await asyncio.wrap_future(future)
        finally:
            if not future.done():
                call.end()

    def take(self) -> Any:
        """Return an idle connection; None if there is none."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, connection: Any) -> None:
        """Make a connection idle, or close it if there are enough idle ones."""
        with self._lock:
            if len(self._idle) < self._threads and not self._is_closed:
                self._idle.append(connection)
                return
        _close(connection)

    def close_idle(self) -> bool:
        """Close the idle connections. Return whether there were any."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close(connection)
        return bool(idle)

    def close(self) -> None:
        """End all calls and close all connections, without waiting for the threads."""
        self._executor.shutdown(wait=False)
        with self._lock:
            self._is_closed = True
            calls = [*self._calls]
        for call in calls:
            call.end()
        self.close_idle()

    def _finish(self, call: _Call[Any]) -> None:
        with self._lock:
            self._calls.discard(call)


class Ledger:
    """A ledger in a database. Reads and writes are functions of a connection, each of which is one
    transaction. Every method raises LedgerUnavailable. The error does not contain the message of
    the database, which may name hosts and files. That message is in the log, for operators."""

    def __init__(self, name: str, dialect: Dialect, prefix: str) -> None:
        self.name = name
        self.dialect = dialect
        self.prefix = prefix
        thread = f"laurels-ledger-{name}"
        self._reads = _Threads(thread, READERS, READ_SECONDS)
        self._writes = _Threads(f"{thread}-seal", 1, ANSWER_SECONDS)
        self._computations = _Threads(f"{thread}-verify", 1, ANSWER_SECONDS)
        self._reported: str | None = None
        self._has_tables = False

    def reader(self, connection: Any) -> FinalReader:
        """Return a reader of the final periods, over a connection."""
        return FinalReader(self.dialect, self.prefix, connection)

    def writer(self, connection: Any) -> FinalWriter:
        """Return a writer of final periods, over a connection."""
        return FinalWriter(self.dialect, self.prefix, connection)

    def locked_writer(self, connection: Any) -> FinalWriter:
        """Return a writer of final periods. Until the transaction of the connection ends, no other
        process can begin or complete a period."""
        writer = self.writer(connection)
        writer.lock()
        return writer

    async def read(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function that reads over a connection."""
        self._ensure_room(self._reads, MAX_WAITING, "reads")
        call = _Call(self.dialect, work)
        try:
            return await asyncio.wait_for(self._reads.run(call, self._read), READ_SECONDS)
        except TimeoutError:
            self._report(f"no answer within {READ_SECONDS} s")
            raise LedgerUnavailable(
                f"the ledger {quoted(self.name)} did not answer within {READ_SECONDS} s"
            ) from None

    async def compute(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function that reads over a connection for any length of time. It
        delays neither reads nor writes; computations of this process come one after the other."""
        self._ensure_room(self._computations, MAX_COMPUTING, "the verification of periods")
        return await self._computations.run(_Call(self.dialect, work), self._read)

    async def write(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function that writes over a connection. The writes of this process
        come one after the other."""
        return await self._writes.run(_Call(self.dialect, work), self._transact)

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
        """End all calls and close all connections. The threads of the calls are not awaited."""
        for threads in (self._reads, self._writes, self._computations):
            threads.close()

    def _ensure_room(self, threads: _Threads, most: int, what: str) -> None:
        if threads.running >= most:
            raise LedgerUnavailable(f"the ledger {quoted(self.name)} does not keep up with {what}")

    def _read(self, threads: _Threads, call: _Call[T]) -> T:
        """Read in a transaction. If a connection that was idle has been lost meanwhile, read again
        over a new one."""
        try:
            return self._transact(threads, call)
        except LedgerUnavailable:
            if call.is_ended or not threads.close_idle():
                raise
            return self._transact(threads, call)

    def _transact(self, threads: _Threads, call: _Call[T]) -> T:
        with self._plain_errors(call):
            return self._run(threads, call)

    @contextmanager
    def _plain_errors(self, call: _Call[Any] | None = None) -> Iterator[None]:
        """Raise LedgerUnavailable for the errors of the database, and write them to the log. Errors
        of a call that was ended are expected, so they are not logged."""
        try:
            with self.dialect.errors():
                yield
        except (TargetUnavailable, TargetRefused, NoLedger, MissingDriver) as error:
            if call is None or not call.is_ended:
                self._report(error.what)
            raise LedgerUnavailable(f"the ledger {quoted(self.name)} does not work") from error
        self._report(None)

    def _report(self, reason: str | None) -> None:
        """Write to the log why the ledger does not work, unless the last entry has the same reason.
        With None, write that it works again."""
        if reason == self._reported:
            return
        self._reported = reason
        if reason is None:
            _log.warning("the ledger %s works again", quoted(self.name))
        else:
            _log.warning("the ledger %s does not work: %s", quoted(self.name), reason)

    def _connect(self, seconds: float = ANSWER_SECONDS) -> Any:
        """Return a new connection to the database, which gets the tables first if it lacks them. On
        this connection, a statement without an answer fails after `seconds`."""
        connection = self.dialect.connect(seconds=seconds)
        if not self._has_tables:
            try:
                make_tables(self.dialect, self.prefix, connection)
                connection.commit()
            except BaseException:
                _close(connection)
                raise
            self._has_tables = True
        return connection

    def _run(self, threads: _Threads, call: _Call[T]) -> T:
        if call.is_ended:
            raise TargetUnavailable("the call was ended before it began")
        connection = threads.take()
        if connection is None:
            connection = self._connect(threads.seconds)
        try:
            with call.over(connection):
                result = call.work(connection)
                connection.commit()
        except BaseException:
            _close(connection)
            raise
        threads.give_back(connection)
        return result


class ArchiveSettings(Struct, frozen=True):
    """The settings for sealing: the `urls` of ledgers by name, a `token` that identifies this
    process, and a function `secret(n)` that returns n random bytes."""

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
        """End all calls, and close all connections."""
        for ledger in self._opened.values():
            ledger.close()


def _close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()
