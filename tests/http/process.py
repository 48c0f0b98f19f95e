"""A server in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked import Forked
from tests.serving import ADMIN_KEY

WITHIN_SECONDS = 60
VARIABLE = "LAURELS_ADMIN_KEY"


def _started(
    arguments: list[str], variables: dict[str, str], descriptors: int | None, forked: bool
) -> Forked | subprocess.Popen[str]:
    if forked:
        return Forked("laurels.cli", arguments, environment=variables, stderr=subprocess.PIPE)
    limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"] if descriptors else []
    return subprocess.Popen(
        [*limited, sys.executable, "-m", "laurels.cli", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )


class Process:
    """`laurels serve` on a free port. `url` is the address that it prints.

    A folder is served with `--open`, or without it if `keys` is true. Boards on an index server are
    served with the key ADMIN_KEY. With `descriptors`, the process can open at most that many files
    and sockets. Unless `forked` is false, the process is forked from one that has imported laurels.
    """

    def __init__(
        self,
        folder: Path | str,
        *options: str,
        keys: bool = False,
        descriptors: int | None = None,
        forked: bool = True,
        **environment: str,
    ) -> None:
        if str(folder).startswith("redis"):
            environment.setdefault(VARIABLE, ADMIN_KEY)
        elif not keys and VARIABLE not in environment:
            options = (*options, "--open")
        if "--port" not in options:
            options = (*options, "--port", "0")
        arguments = ["serve", "--data", str(folder), *options]
        # workers are started with the command line of the service, and limits are set by a shell
        forked = forked and descriptors is None and "--workers" not in options
        self._process = _started(arguments, {**os.environ, **environment}, descriptors, forked)
        assert self._process.stderr is not None
        self.output = ""
        for line in self._process.stderr:
            self.output += line
            if line.startswith("serving "):
                break
        _, _, address = self.output.strip().rpartition(" on ")
        self.url = address

    def lines(self, count: int | None = None) -> Iterator[str]:
        """Yield the next lines that the server prints; with `count`, at most that many."""
        assert self._process.stderr is not None
        yield from islice(self._process.stderr, count)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL and wait for the end of the process."""
        self._process.kill()
        self._process.wait(WITHIN_SECONDS)
        self._close()

    def end(self) -> tuple[int, str]:
        """Send SIGTERM. Return the exit code and everything that the server printed."""
        self._process.terminate()
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Wait until the server ends by itself. Return its exit code and everything that it
        printed."""
        assert self._process.stderr is not None
        rest = self._process.stderr.read()
        code = self._process.wait(WITHIN_SECONDS)
        self._close()
        return code, self.output + rest

    def _close(self) -> None:
        if self._process.stderr is not None:
            self._process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()
