"""Hot reads: all clients read the same list or the same standing. The service has its boards in a
folder, on an index server without `max_age`, or on one with `max_age`. In the last case, the age of
the answers is measured, too.

    python -m bench.http.hot [--rounds 5] [--seconds 3]

The servers run on one core, and the clients on another.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import laurels
from bench.http.process import HOST, Serving, on_core, two_cores
from bench.http.stalls import Caller

MEMBERS = 10_000
CONNECTIONS = 32
MAX_AGE = "1s"
PATHS = {
    "top 10": "/v1/boards/{board}/top",
    "standing": "/v1/boards/{board}/standing?member=m{near}",
}
ADMIN_KEY = "admin-key-of-the-bench"
REDIS_PORT = 16_380
_WRITE_SECONDS = 0.002


@contextmanager
def redis_server(folder: Path, core: int) -> Iterator[str]:
    """Run a server with an append-only file; yield its URL."""
    command = ["redis-server", "--port", str(REDIS_PORT), "--dir", str(folder)]
    with on_core(core):
        child = subprocess.Popen(
            [*command, "--appendonly", "yes", "--save", ""], stdout=subprocess.DEVNULL
        )
    url = f"redis://{HOST}:{REDIS_PORT}"
    try:
        while subprocess.run(
            ["redis-cli", "-p", str(REDIS_PORT), "ping"], capture_output=True, check=False
        ).returncode:
            time.sleep(0.05)
        yield url
    finally:
        child.terminate()
        child.wait()


def fill(data: str) -> None:
    """Create two boards: every query about `fresh` goes to the store, and those about `kept` may be
    answered from memory."""
    with laurels.open(data) as lb:
        for board, max_age in (("fresh", "0s"), ("kept", MAX_AGE)):
            column = laurels.Column("score", op="last")
            lb.create(laurels.Board(board, columns=[column], max_age=max_age))
            for first in range(0, MEMBERS, 1_000):
                lb.submit_many(board, [(f"m{i}", i) for i in range(first, first + 1_000)])


@contextmanager
def served(data: str, folder: Path, core: int) -> Iterator[int]:
    """Serve boards; yield the port."""
    command = [sys.executable, "-m", "bench.http.hot", "--serve", data]
    server = Serving(command, core, folder / "server.log", ready="/healthz")
    try:
        yield server.port
    finally:
        server.end()


def rate(port: int, path: str, core: int, seconds: int) -> float:
    """Return the requests a second of wrk."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    command += ["-H", f"Authorization: Bearer {ADMIN_KEY}", f"http://{HOST}:{port}{path}"]
    with on_core(core):
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output:
        raise RuntimeError(output)
    (line,) = [line for line in output.splitlines() if line.startswith("Requests/sec:")]
    return float(line.split()[1])


def ages_ms(url: str, port: int, core: int, seconds: float) -> list[float]:
    """Return how old the answers are for a client that asks without pause, while a program writes
    the time to the index server as the score of a member."""
    ended = threading.Event()
    began = time.monotonic()

    def write() -> None:
        with laurels.open(url) as lb:
            while not ended.is_set():
                lb.submit("kept", "time", int((time.monotonic() - began) * 1_000))
                time.sleep(_WRITE_SECONDS)

    writer = threading.Thread(target=write)
    ages = []
    with on_core(core):
        writer.start()
        caller = Caller(port, ADMIN_KEY)
        time.sleep(1)
        deadline = time.monotonic() + seconds
        while (now := time.monotonic()) < deadline:
            status, content = caller.ask("GET", "/v1/boards/kept/standing?member=time")
            assert status == 200, content
            ages.append((now - began) * 1_000 - json.loads(content)["score"])
        ended.set()
        writer.join()
    return ages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--serve", metavar="DATA", help=argparse.SUPPRESS)
    parser.add_argument("port", nargs="?")
    options = parser.parse_args()
    if options.serve is not None:
        _serve(options.serve, int(options.port))
        return
    cores = two_cores()
    if cores is None:
        sys.exit("this needs two cores, one for the servers")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        url = stack.enter_context(redis_server(folder, cores.server))
        ports = {}
        for name, data in (("folder", str(folder / "boards")), ("index server", url)):
            fill(data)
            ports[name] = stack.enter_context(served(data, folder, cores.server))
        print("| requests/s | folder | index server, max_age=1s | ratio | max_age=0s |")
        print("|---|---|---|---|---|")
        for name, path in PATHS.items():
            local, kept, fresh = list[float](), list[float](), list[float]()
            for _ in range(options.rounds):
                for rates, place, board in (
                    (local, "folder", "kept"),
                    (kept, "index server", "kept"),
                    (fresh, "index server", "fresh"),
                ):
                    question = path.format(board=board, near=MEMBERS // 2)
                    rates.append(rate(ports[place], question, cores.load, options.seconds))
            ratio = median(kept) / median(local)
            print(
                f"| {name} | {_spread(local)} | {_spread(kept)} | {ratio:.2f} | {_spread(fresh)} |",
                flush=True,
            )
        ages = ages_ms(url, ports["index server"], cores.load, 10.0)
        cuts = quantiles(ages, n=100)
        print(
            f"\nage of {len(ages):,} answers with max_age={MAX_AGE} in ms: p50 {cuts[49]:.0f}, "
            f"p99 {cuts[98]:.0f}, most {max(ages):.0f}"
        )


def _spread(rates: list[float]) -> str:
    return f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def _serve(data: str, port: int) -> None:
    from laurels.server.process.settings import Settings  # noqa: PLC0415
    from laurels.server.process.starting import serve  # noqa: PLC0415 (only the server needs it)

    serve(Settings(data=data, port=port), ADMIN_KEY, lambda _: None)


if __name__ == "__main__":
    main()
