"""wrk, the load generator: one thread on the load core, its requests read from a file."""

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
    """What a run sent and how it was answered. Unanswered is what was under way at its end."""

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
    """Whether this machine has a wrk to run."""
    return shutil.which("wrk") is not None


def version() -> str:
    """As wrk tells it."""
    shown = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    return " ".join(shown.stdout.split()[:2])


class NothingAnswered(RuntimeError):  # noqa: N818 (says what happened)
    """The time of a load was too short for any answer: the machine is busy with something else."""


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
    """Sends requests for so many seconds, by every connection as soon as the last one is answered
    or, with `wait_ms`, after a random wait of that mean.

    `path` is where a POST goes and what comes before the line of a GET. Raises RuntimeError where
    anything is not answered with success, NothingAnswered where the time was too short for a single
    answer.
    """
    # wrk takes whole seconds; SIGINT has it stop earlier and report.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds) + 1}s", "-T10s"]
    command += ["-s", str(_SCRIPT), f"http://{HOST}:{port}", "--"]
    command += [str(requests.file(path)), requests.method, path, f"{wait_ms:.3f}"]
    with on_core(core):
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    try:
        try:
            said, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=_GRACE_SECONDS)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode == -signal.SIGINT:
        raise NothingAnswered("wrk was ended before it had begun")
    return _read(said)


def _read(said: str) -> Load:
    last = said.rstrip().rpartition("\n")[2]
    if not last.startswith("{"):
        raise RuntimeError(f"wrk failed:\n{said}")
    load = msgspec.json.decode(last, type=Load)
    if load.failed:
        raise RuntimeError(f"{load.failed} of {load.sent} requests failed:\n{said}")
    if not load.answered:
        raise NothingAnswered(f"none of {load.sent} requests was answered in time:\n{said}")
    return load
