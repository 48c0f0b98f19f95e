"""Open the reader of a stream, and the storage of its rejects, by their addresses."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from laurels.errors.sources import InvalidRejects, InvalidStream, MissingNats
from laurels.flows.retries import Sleep
from laurels.flows.stream_url import ensure_path
from laurels.stores.redis.connection.urls import is_redis

from .lines import FileReader, PipeReader, is_pipe
from .reader import StreamReader
from .rejects import JsonRejects
from .rejects_subject import SubjectRejects

STDIN = "-"
NATS_SCHEMES = ("nats", "tls")
OpenedRejects = JsonRejects | SubjectRejects


def open_reader(
    address: str, *, sleep: Sleep, stdin: Callable[[int], bytes], run: str
) -> StreamReader:
    """Return the reader for an address, not yet connected.

    `nats://host:port/STREAM` is a stream of NATS JetStream (`tls://` with TLS),
    `redis://host:port/0/KEY` a Redis stream, `-` standard input, and anything without `://` a file.
    `stdin` reads from standard input, up to a number of bytes. `run` identifies this run, for
    streams that can be read only once. Raises InvalidStream, SourceUnreadable.
    """
    scheme, separator, _ = address.partition("://")
    if is_redis(address):
        from .redis_stream import RedisStreamReader  # noqa: PLC0415 (the package is optional)

        return RedisStreamReader(address)
    if separator and scheme.lower() in NATS_SCHEMES:
        from .nats_stream import NatsReader  # noqa: PLC0415 (the package is optional)

        return NatsReader(address)
    if separator:
        raise InvalidStream(f"expected a stream, got an address that begins with {scheme}://")
    if address == STDIN:
        return PipeReader("standard input", stdin, run)
    ensure_path(address, InvalidStream)
    path = Path(address)
    if is_pipe(path):
        return PipeReader(address, _lazy_reader(path), run)
    return FileReader(path, sleep)


def open_rejects(address: str | None, source: str, warn: Callable[[str], None]) -> OpenedRejects:
    """Return the storage of a source's rejects, neither created nor connected yet. The address is
    the path of a file, or nats://host:port/subject; None stands for the file `NAME.rejects.jsonl`.
    That file also gets the rejects that could not be published to a subject; `warn` is called if
    there are any. Raises InvalidRejects, MissingNats."""
    own = JsonRejects(Path(f"{source}.rejects.jsonl"))
    if address is None:
        return own
    scheme, separator, _ = address.partition("://")
    if separator and scheme.lower() in NATS_SCHEMES:
        if find_spec("nats") is None:
            raise MissingNats("nats-py is not installed")
        return SubjectRejects(address, own, warn)
    if separator:
        raise InvalidRejects(f"expected nats://, got an address that begins with {scheme}://")
    ensure_path(address, InvalidRejects)
    return JsonRejects(Path(address))


def _lazy_reader(path: Path) -> Callable[[int], bytes]:
    """Return a function that reads from a path. The path is opened at the first call, since opening
    a pipe waits for its writer."""
    descriptors: list[int] = []

    def read(size: int) -> bytes:
        if not descriptors:
            descriptors.append(os.open(path, os.O_RDONLY))
        return os.read(descriptors[0], size)

    return read
