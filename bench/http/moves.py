"""Moves of a large board between the stores of a service, while it is written: how long the writes
were held, how long the longest write took, and how long the whole move took.

    python -m bench.http.moves [--members 1000000] [--only plain,head]

The stores are a folder, which is the default store, and two index servers without files. The board
moves from one index server to the other, then into the folder, and back.
"""

import argparse
import json
import random
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.http.process import Process
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY

import laurels
from bench.http.process import HOST

BOARDS = {
    "plain": laurels.Board("a1", windows=["all", "day"], dedupe="1h"),
    "scopes": laurels.Board("a1", windows=["all"], scopes=[[], ["room"]], rank_by="room"),
    "rolling": laurels.Board("a1", windows=["all", "7d=rolling:7d/1d", "f=decay:1d"]),
    "head": laurels.Board("a1", head=1_000),
}
ROOMS = 1_000
BATCH = 2_000
WRITERS = 4
EVENTS_PER_SECOND = 200
_HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}


class Load:
    """Threads that send single events at a steady rate, and note how long each took."""

    def __init__(self, url: str, members: int, *, has_rooms: bool) -> None:
        self._port = int(url.rpartition(":")[2])
        self._members = members
        self._has_rooms = has_rooms
        self._ended = threading.Event()
        self.worst_ms = 0.0
        self.sent = self.refused = 0
        self._threads = [threading.Thread(target=self._send, args=(i,)) for i in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, seed: int) -> None:
        rng, connection = random.Random(seed), HTTPConnection(HOST, self._port, timeout=60)
        due = time.perf_counter()
        while not self._ended.wait(max(0.0, due - time.perf_counter())):
            due += WRITERS / EVENTS_PER_SECOND
            event = event_of(rng.randrange(self._members), has_rooms=self._has_rooms)
            began = time.perf_counter()
            connection.request("POST", "/v1/boards/a1/scores", json.dumps(event), _HEADERS)
            answer = connection.getresponse()
            answer.read()
            self.worst_ms = max(self.worst_ms, 1_000 * (time.perf_counter() - began))
            self.sent += 1
            self.refused += answer.status != 200

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def event_of(number: int, *, has_rooms: bool) -> dict[str, object]:
    event: dict[str, object] = {"member": f"m{number}", "value": 1 + number % 97}
    if has_rooms:
        event["labels"] = {"room": str(number % ROOMS)}
    return event


def moves(
    board: laurels.Board, members: int, folder: Path, one: Server, two: Server
) -> Iterator[dict[str, object]]:
    """Fill a board, and yield the results of its moves."""
    has_rooms = board.rules().scoped
    urls = [f"{each.url}?prefix={folder.name}:" for each in (one, two)]
    file = folder / "laurels.toml"
    file.write_text(f'[placement]\n"a*" = "{urls[0]}"\n"b*" = "{urls[1]}"\n')
    with laurels.open(urls[0]) as lb:
        lb.create(board)
        for first in range(0, members, BATCH):
            numbers = range(first, min(members, first + BATCH))
            lb.submit_many("a1", [event_of(i, has_rooms=has_rooms) for i in numbers])
    data = folder / "boards"
    with Process(data, "--config", str(file), keys=True, LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        for to in (3, 1, 2):
            load = Load(server.url, members, has_rooms=has_rooms)
            time.sleep(2)
            began = time.perf_counter()
            connection = HTTPConnection(HOST, int(server.url.rpartition(":")[2]), timeout=3_600)
            body = json.dumps({"to": to})
            connection.request("POST", "/v1/boards/a1/move", body, _HEADERS)
            answer = json.loads(connection.getresponse().read())
            seconds = time.perf_counter() - began
            load.end()
            yield {
                "to": to,
                "seconds": round(seconds, 1),
                "held_ms": answer.get("held_ms", answer),
                "longest_write_ms": round(load.worst_ms),
                "events": load.sent,
                "refused": load.refused,
            }
            time.sleep(7)
        server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(BOARDS))
    options = parser.parse_args()
    for name in options.only.split(","):
        with TemporaryDirectory() as folder, Server() as one, Server() as two:
            for result in moves(BOARDS[name], options.members, Path(folder), one, two):
                print(name, json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
