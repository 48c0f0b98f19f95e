"""Run a service in several worker processes.

Each worker is a complete server. All workers listen at the same port, each by a socket of its own;
the kernel distributes the connections (SO_REUSEPORT). The boards and the keys are on the index
server, for all workers. The parent answers no requests. It starts the workers, forwards the signal
to stop, and ends when all workers have ended. If a worker ends by itself, the parent ends the whole
service, so that the supervisor of the service notices.

The parent sends a worker its instructions on the worker's standard input, and leaves this input
open. If the parent ends, the input is closed, and the worker ends, too. On its standard output a
worker reports that it accepts requests, or why it does not.
"""

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import structlog
import uvloop

from laurels import config
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidSettings, WorkerFailed
from laurels.model.validation import safe_repr
from laurels.wire.answers import problem
from laurels.wire.problems import error_of

from .ports import Order, free
from .process_memory import settle_collector, share_arenas
from .service_log import settle_log
from .serving import Announce, ServingAddress, opened, run, warn_of
from .settings import Settings

END_SECONDS = 10.0
"""How many seconds a worker may take to end after SIGTERM before it is killed."""
_READY, _FAILED = b"ready ", b"failed "
_log = structlog.get_logger("laurels")


def ensure_possible(settings: Settings) -> None:
    """Raise InvalidSettings if the settings do not allow several workers."""
    for url in settings.stores:
        if not config.is_direct(url):
            raise InvalidSettings(
                f"workers is {settings.workers}, but {safe_repr(url)} can only be "
                "used by one process: several workers need an index server (data redis://...)"
            )
    if sys.platform != "linux":
        raise InvalidSettings(f"workers is {settings.workers}: several workers need Linux")


def oversee(settings: Settings, admin_key: str | None, announce: Announce) -> int:
    """Run workers until SIGTERM or SIGINT. Return 0, or 1 if a worker ended by itself."""
    ensure_possible(settings)
    return asyncio.run(_oversee(settings, admin_key, announce))


async def _oversee(settings: Settings, admin_key: str | None, announce: Announce) -> int:
    ending = asyncio.Event()
    for end in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(end, ending.set)
    workers: list[Process] = []
    with TemporaryDirectory(prefix="laurels-") as folder, _reserved(*free(settings)) as (ip, port):
        reports = str(Path(folder, "flows.json"))
        try:
            orders = [
                Order(number, settings, ip, port, admin_key, reports)
                for number in range(1, settings.workers + 1)
            ]
            # The first worker is started alone, so that an error that concerns all workers is
            # reported once. The other workers are then started together.
            workers.append(await _started())
            address = await _ready(workers[0], orders[0], ending)
            workers += [await _started() for _ in orders[1:]]
            await asyncio.gather(
                *[
                    _ready(worker, order, ending)
                    for worker, order in zip(workers[1:], orders[1:], strict=True)
                ]
            )
            if ending.is_set():
                return 0
            announce(address)
            return await _until_one_ends(workers, ending)
        finally:
            await asyncio.gather(*map(_end, workers))


@contextmanager
def _reserved(ip: str, port: int) -> Iterator[tuple[str, int]]:
    """Hold a port within the block, so that no other process can take it before the workers listen
    at it."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((ip, port))
        yield ip, port


async def _started() -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "laurels.server.process.workers", stdin=PIPE, stdout=PIPE
    )


async def _ready(worker: Process, order: Order, ending: asyncio.Event) -> ServingAddress:
    """Return the address at which a worker accepts requests. Return an address with an empty URL if
    `ending` is set first. Raise the error with which the worker failed."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(msgspec.json.encode(order) + b"\n")
    line = asyncio.ensure_future(worker.stdout.readline())
    ended = asyncio.ensure_future(ending.wait())
    await asyncio.wait([line, ended], return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    if not line.done():
        line.cancel()
        return ServingAddress("")
    announce = line.result()
    if announce.startswith(_READY):
        return msgspec.json.decode(announce.removeprefix(_READY), type=ServingAddress)
    if announce.startswith(_FAILED):
        raise error_of(500, announce.removeprefix(_FAILED))
    raise WorkerFailed(f"worker {order.number} ended before it accepted requests")


async def _until_one_ends(workers: list[Process], ending: asyncio.Event) -> int:
    ended = [asyncio.ensure_future(worker.wait()) for worker in workers]
    end = asyncio.ensure_future(ending.wait())
    await asyncio.wait([end, *ended], return_when=asyncio.FIRST_COMPLETED)
    if ending.is_set():
        return 0
    for number, exit_ in enumerate(ended, 1):
        if exit_.done():
            _log.error("a worker ended by itself, so the service ends", worker=number)
    return 1


async def _end(worker: Process) -> None:
    """Tell a worker to end, and wait until it has ended."""
    if worker.returncode is None:
        worker.terminate()
    try:
        await asyncio.wait_for(worker.wait(), END_SECONDS)
    except TimeoutError:
        worker.kill()
        await worker.wait()


def work() -> int:
    """Run this process as a worker: read its order from the standard input, and serve until it is
    told to end. Return the exit code."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    settle_log(order.settings)
    try:
        uvloop.run(_work(order))
    except LaurelsError as error:
        end = msgspec.json.encode(problem(error, error.status, ""))
        _write_line(_FAILED + end)
        return 2
    return 0


async def _work(order: Order) -> None:
    share_arenas()
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and sends SIGTERM
    parent = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(parent), sys.stdin)
    watching = asyncio.create_task(parent.read())
    watching.add_done_callback(lambda _: ending.set())
    backing = await opened(order.settings)
    if order.number == 1:
        warn_of(backing)

    def announce(address: ServingAddress) -> None:
        _write_line(_READY + msgspec.json.encode(address))

    try:
        settle_collector()
        await run(order.settings, backing, order.admin_key, ending, announce, order)
    finally:
        watching.cancel()


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(work())
