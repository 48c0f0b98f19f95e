"""Programs of this project that are forked from a process which has already imported laurels.

A program spends 0.3 s of processor time on imports before it does anything, and a service 0.6 s.
That is most of the time of a test that starts a program again and again and kills it. The fork
server of `multiprocessing` imports the modules once for all programs that the tests of this process
start. `tests/http/test_lifetime.py` starts services as users do.
"""

from __future__ import annotations

import io
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context, reduction
from pathlib import Path
from typing import IO, Any

_IMPORTED = ["pytest", "httpx", "laurels.cli.program", "laurels.server.process.serving"]
_PIPE = subprocess.PIPE


class Forked:
    """A process that runs a module, like `python -m MODULE ARGUMENTS`. It has the methods and
    attributes of `subprocess.Popen` that tests use.

    `stdout` and `stderr` are files or PIPE. A pipe is read as text.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
    ) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        written: list[int] = []
        self.stdout, out = _opened(stdout, written)
        self.stderr, err = _opened(stderr, written)
        streams = {number: _Shared(own) for number, own in ((1, out), (2, err)) if own is not None}
        variables = dict(os.environ if environment is None else environment)
        texts = [str(argument) for argument in arguments]
        self._process = context.Process(
            target=_run, args=(module, texts, variables, folder or Path.cwd(), streams), daemon=True
        )
        self._process.start()
        for descriptor in written:
            os.close(descriptor)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the number of the signal that ended the process."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, "the process did not end"
        return code

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


class _Shared:
    """A file descriptor that the new process gets, too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> Any:
        return _received, (reduction.DupFd(self._descriptor),)


def _received(copy: Any) -> Any:
    return copy.detach()


def _opened(
    stream: IO[Any] | int | None, written: list[int]
) -> tuple[io.TextIOWrapper | None, int | None]:
    """Return what this process reads, and the descriptor that the new process writes to. Add the
    end of a pipe that this process has to close to `written`."""
    if stream is None:
        return None, None
    if stream != _PIPE:
        return None, stream if isinstance(stream, int) else stream.fileno()
    own, theirs = os.pipe()
    written.append(theirs)
    return io.TextIOWrapper(io.FileIO(own), encoding="utf-8"), theirs


def _run(
    module: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    streams: Mapping[int, int],
) -> None:
    """Run a module in the new process."""
    for number, descriptor in streams.items():
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # the streams of the fork server are those of the tests, which pytest may have replaced by files
    sys.stdout, sys.stderr = (open(each, "w", encoding="utf-8", closefd=False) for each in (1, 2))  # noqa: SIM115
    sys.stderr.reconfigure(line_buffering=True)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
