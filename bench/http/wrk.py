"""The load generator wrk: one thread on its own core, with requests from a file."""

import math
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec

from bench.http.process import HOST, on_core
from bench.http.traffic import Requests

_SCRIPT = Path(__file__).with_name("wrk.lua")
_GRACE_SECONDS = 30


class Load(msgspec.Struct, frozen=True):
    """The numbers of requests and answers in a run. `unanswered` requests were in progress at its
    end."""

    sent: int
    answered: int
    failed: int
    seconds: float
    p50_us: int
    p99_us: int

    @property
    def requests_a_second(self) -> float:
        return self.answered / self.seconds


def installed() -> bool:
    """Return whether wrk is installed."""
    return shutil.which("wrk") is not None


def version() -> str:
    """Return the version that wrk prints."""
    completed = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    return " ".join(completed.stdout.split()[:2])


class NothingAnswered(RuntimeError):  # noqa: N818 (says what happened)
    """No request of a load was answered in its time, because the machine is busy with something
    else."""


def send(
    requests: Requests,
    port: int,
    path: str,
    *,
    core: int,
    connections: int,
    seconds: float,
    wait_ms: float = 0.0,
) -> Load:
    """Send requests for this many seconds. Each connection sends a request when the previous one is
    answered or, with `wait_ms`, after a random delay with that mean.

    `path` is the path of POST requests, or the beginning of the path of GET requests, before a line
    of the file. Raise RuntimeError if a request fails, and NothingAnswered if the time was too
    short for any answer.
    """
    # wrk runs for whole seconds; SIGINT makes it stop earlier and print its results.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds) + 1}s", "-T10s"]
    command += ["-s", str(_SCRIPT), f"http://{HOST}:{port}", "--"]
    command += [str(requests.file(path)), requests.method, path, f"{wait_ms:.3f}"]
    with on_core(core):
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    try:
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=_GRACE_SECONDS)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode == -signal.SIGINT:
        raise NothingAnswered("wrk was stopped before it had begun")
    return _read(output)


def _read(output: str) -> Load:
    last = output.rstrip().rpartition("\n")[2]
    if not last.startswith("{"):
        raise RuntimeError(f"wrk failed:\n{output}")
    load = msgspec.json.decode(last, type=Load)
    if load.failed:
        raise RuntimeError(f"{load.failed} of {load.sent} requests failed:\n{output}")
    if not load.answered:
        raise NothingAnswered(f"none of {load.sent} requests was answered in time:\n{output}")
    return load
