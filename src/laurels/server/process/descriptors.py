"""List the file descriptors of this process, and use sockets that other code owns by their
descriptors."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DESCRIPTORS = next(filter(Path.is_dir, map(Path, ("/proc/self/fd", "/dev/fd"))))


def open_descriptors() -> list[int]:
    """Return the numbers of all open descriptors, in ascending order."""
    return sorted(int(name) for name in os.listdir(DESCRIPTORS))  # noqa: PTH208 (names only)


@contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Use a descriptor as a socket without closing it. The socket's methods raise OSError if the
    descriptor is not a socket."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield connection
    finally:
        connection.detach()
