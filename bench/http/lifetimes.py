"""How long a server takes to become ready, and to end while streams are open."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.http.effort import HttpEffort
from bench.http.peers import Laurels
from bench.http.process import HOST
from bench.http.rounds import Figure, samples_of
from bench.peers import BOARD
from bench.timing import Sample

_TIMEOUT_SECONDS = 30
_RECEIVED_BYTES = 1 << 16
_LAST_EVENT = b"event: end"


def measure_lifetimes(
    laurels: Laurels, effort: HttpEffort, folder: Path, core: int, say: Callable[[str], None]
) -> list[Sample]:
    """Measure in each round how long the server takes to end, how long it takes to start again, and
    how long a second server takes to start on an empty folder. After the last round, stop all
    servers."""
    group = "Start and end"
    say(group)
    rounds: list[list[Figure]] = []
    for number in range(effort.rounds):
        if number:
            laurels.start()
        ended = end_watched(laurels, effort.streams)
        ready = _seconds(laurels.start)
        laurels.close()
        empty = start_on_empty(folder / f"empty-{number}", core)
        rounds.append(
            [
                ("empty folder to ready, s", "s", empty),
                ("this board to ready, s", "s", ready),
                (f"SIGTERM with {effort.streams} streams, s", "s", ended),
            ]
        )
    return samples_of(group, effort.members, laurels, rounds)


def start_on_empty(folder: Path, core: int) -> float:
    """Start the server without boards; return the seconds until `/readyz` is answered with 200."""
    began = time.perf_counter()
    with Laurels(folder, core):
        return time.perf_counter() - began


def end_watched(laurels: Laurels, streams: int) -> float:
    """Return the seconds from SIGTERM to the end of the process, with this many open streams. Raise
    AssertionError if a stream gets no event about the end."""
    with _watching(laurels, streams) as sockets:
        elapsed = laurels.close()
        for stream in sockets:
            if _LAST_EVENT not in _rest(stream):
                raise AssertionError("a stream got no event about the end")
    return elapsed


@contextmanager
def _watching(laurels: Laurels, streams: int) -> Iterator[list[socket.socket]]:
    request = f"GET /v1/boards/{BOARD}/live HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with ExitStack() as stack:
        sockets = []
        for _ in range(streams):
            opened = socket.create_connection((HOST, laurels.port), _TIMEOUT_SECONDS)
            sockets.append(stack.enter_context(opened))
            opened.sendall(request)
        for opened in sockets:
            _until_top(opened)
        yield sockets


def _until_top(stream: socket.socket) -> None:
    received = b""
    while b"event: top" not in received:
        some = stream.recv(_RECEIVED_BYTES)
        if not some:
            raise ConnectionError(f"the feed did not begin: {received.decode()}")
        received += some


def _rest(stream: socket.socket) -> bytes:
    received = b""
    while some := stream.recv(_RECEIVED_BYTES):
        received += some
    return received


def _seconds(start: Callable[[], None]) -> float:
    began = time.perf_counter()
    start()
    return time.perf_counter() - began
