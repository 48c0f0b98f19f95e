"""A service with thousands of boards in a folder and two index servers: its start, its memory, the
list of boards, reads whose boards are drawn by Zipf, and moves of boards one after the other.

    python -m bench.http.many_boards [--boards 10000] [--moves 1000]

Each store has a third of the boards. Each board has 20 members and `max_age` of a second.
"""

import argparse
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.http.process import Process
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY

import laurels
from bench.http.process import HOST

MEMBERS = 20
READERS = 4
_HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}


class Caller:
    """One connection to the service."""

    def __init__(self, url: str) -> None:
        self._http = HTTPConnection(HOST, int(url.rpartition(":")[2]), timeout=3_600)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Return the body of a successful answer."""
        content = None if body is None else json.dumps(body)
        self._http.request(method, path, content, _HEADERS)
        answer = self._http.getresponse()
        found = answer.read()
        assert answer.status == 200, found
        return found

    def move(self, board: str) -> tuple[dict[str, Any], int]:
        """Move a board to the third store. If it is refused because the busy machine could not copy
        the last changes in time, repeat it. Return the answer, and the number of these refusals."""
        for refused in range(1_000):
            self._http.request("POST", f"/v1/boards/{board}/move", '{"to": 3}', _HEADERS)
            answer = self._http.getresponse()
            found = json.loads(answer.read())
            if answer.status != 503:
                assert answer.status == 200, found
                return found, refused
        raise RuntimeError(f"{board} could not be moved")


def fill(urls: list[str], boards: int) -> None:
    """Create the boards. The first letter of a name (`c`, `a` or `b`) decides in which store the
    board is."""
    events = [(f"m{i}", i) for i in range(MEMBERS)]

    def create(letter: str, url: str) -> None:
        with laurels.open(url) as lb:
            for number in range(boards // 3):
                lb.create(laurels.Board(f"{letter}{number}", max_age="1s"))
                lb.submit_many(f"{letter}{number}", events)

    threads = [threading.Thread(target=create, args=each) for each in zip("cab", urls, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def zipf_names(boards: int, count: int, seed: int) -> Iterator[str]:
    """Yield names of boards; the k-th most popular one has a weight of 1/k."""
    names = [f"{letter}{number}" for number in range(boards // 3) for letter in "abc"]
    weights = [1 / (rank + 1) for rank in range(len(names))]
    yield from random.Random(seed).choices(names, weights, k=count)


def read_rate(url: str, boards: int, seconds: float) -> float:
    """Return how many requests per second a few connections make that read the first entries of
    boards."""
    counts = [0] * READERS
    deadline = time.perf_counter() + seconds

    def read(own: int) -> None:
        caller = Caller(url)
        for name in zipf_names(boards, 10_000_000 if seconds > 60 else 1_000_000, own):
            if time.perf_counter() > deadline:
                return
            caller.ask("GET", f"/v1/boards/{name}/top")
            counts[own] += 1

    threads = [threading.Thread(target=read, args=(own,)) for own in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def memory_share(caller: Caller) -> float:
    """Return the fraction of the answers that came from memory."""
    counts = {"memory": 0.0, "index_server": 0.0}
    for line in caller.ask("GET", "/metrics").decode().splitlines():
        for source in counts:
            if line.startswith(f'laurels_answers_total{{source="{source}"}} '):
                counts[source] += float(line.split()[1])
    return counts["memory"] / max(1.0, sum(counts.values()))


@contextmanager
def timed(name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - began:.2f} s", flush=True)


def move_all(url: str, boards: int, moves: int) -> None:
    """Move boards from one index server to the other, one after the other."""
    caller = Caller(url)
    seconds, held, refused = [], [], 0
    for number in range(min(moves, boards // 3)):
        began = time.perf_counter()
        answer, tries = caller.move(f"a{number}")
        refused += tries
        seconds.append(time.perf_counter() - began)
        held.append(answer["held_ms"])
    tenth = max(1, len(seconds) // 10)
    print(
        f"{len(seconds)} moves: {1_000 * median(seconds):.0f} ms each (first tenth "
        f"{1_000 * median(seconds[:tenth]):.0f}, last tenth "
        f"{1_000 * median(seconds[-tenth:]):.0f}); "
        f"writes held p50 {median(held):.1f} ms, most {max(held):.1f}; refused: {refused}",
        flush=True,
    )


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1_024
    return 0.0


def measure(folder: Path, one: Server, two: Server, boards: int, moves: int) -> None:
    file, data = folder / "laurels.toml", folder / "boards"
    file.write_text(f'[placement]\n"a*" = "{one.url}"\n"b*" = "{two.url}"\n')
    with timed(f"making {boards:,} boards"):
        fill([str(data), one.url, two.url], boards)
    began = time.perf_counter()
    with Process(data, "--config", str(file), keys=True, LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        print(f"start to the first answer: {time.perf_counter() - began:.2f} s")
        caller = Caller(server.url)
        with timed("the list of boards"):
            caller.ask("GET", "/v1/boards")
        with timed("stats"):
            caller.ask("GET", "/v1/stats")
        with timed("metrics"):
            caller.ask("GET", "/metrics")
        print(f"resident: {resident_mib(server.pid):.0f} MiB")
        print(f"tops by Zipf: {read_rate(server.url, boards, 20):,.0f} requests/s")
        print(f"answers of index servers from memory: {memory_share(caller):.2f}")
        with timed("hot keys"):
            caller.ask("GET", "/v1/hot")
        move_all(server.url, boards, moves)
        print(f"resident: {resident_mib(server.pid):.0f} MiB")
        server.end()
    began = time.perf_counter()
    with Process(data, "--config", str(file), keys=True, LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        print(f"start with the routes: {time.perf_counter() - began:.2f} s")
        server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=10_000)
    parser.add_argument("--moves", type=int, default=1_000)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, Server() as one, Server() as two:
        measure(Path(folder), one, two, options.boards, options.moves)


if __name__ == "__main__":
    main()
