"""laurels as a Python program uses it: `laurels.open`, events in, receipts out."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import laurels
from bench.peers import BOARD, RADIUS, TOP
from bench.timing import Safety, Task
from bench.workload import Batch, Population


class ApiBoard:
    """A board with the window `all`, in memory or durable in a folder."""

    ours = True

    name = "laurels API"

    def __init__(self, url: str) -> None:
        self.boards = laurels.open(url)
        in_memory = url == "memory:"
        self.settings = "memory:" if in_memory else "SQLite WAL, synchronous=FULL"
        self.safety: Safety = "memory" if in_memory else "each commit"
        self.boards.create(laurels.Board(BOARD), exist_ok=True)

    def load(self, population: Population) -> float:
        elapsed = 0.0
        for batch in population.batches():
            start = time.perf_counter()
            self.boards.submit_many(BOARD, batch)
            elapsed += time.perf_counter() - start
        return elapsed

    def writes(self, batches: Sequence[Batch]) -> Task:
        return lambda: self.write(batches)

    def scores(self, members: Sequence[str]) -> list[int]:
        page = self.boards.standings(BOARD, members)
        scores = {entry.member: entry.score for entry in page.entries}
        return [int(str(scores.get(member, 0))) for member in members]

    def rank(self, members: Sequence[str]) -> Task:
        standing = self.boards.standing
        return lambda: [standing(BOARD, member) for member in members]

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        return self.standings(groups)

    def around(self, members: Sequence[str]) -> Task:
        around = self.boards.around
        return lambda: [around(BOARD, member, radius=RADIUS) for member in members]

    def top(self, times: int) -> Task:
        top = self.boards.top
        return lambda: [top(BOARD, limit=TOP) for _ in range(times)]

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        standings = self.boards.standings
        return lambda: [standings(BOARD, group) for group in groups]

    def close(self) -> None:
        self.boards.close()

    def write(self, batches: Sequence[Batch]) -> None:
        """Write each batch with one call. A batch of one event is written by `submit`, whose
        receipt has ranks."""
        submit, submit_many = self.boards.submit, self.boards.submit_many
        for batch in batches:
            if len(batch) == 1:
                submit(BOARD, *batch[0])
            else:
                submit_many(BOARD, batch)

    def submit_each(self, batches: Sequence[Batch]) -> None:
        submit_many = self.boards.submit_many
        for batch in batches:
            submit_many(BOARD, batch)


class ApiRanks:
    """The board of an `ApiBoard`, for reading ranks alone."""

    ours = True
    name = "laurels API, ranks alone"

    def __init__(self, board: ApiBoard) -> None:
        self._boards = board.boards
        self.settings, self.safety = board.settings, board.safety

    def rank(self, members: Sequence[str]) -> Task:
        rank = self._boards.rank
        return lambda: [rank(BOARD, member) for member in members]

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        ranks = self._boards.ranks
        return lambda: [ranks(BOARD, group) for group in groups]


class ApiThreads:
    """The board of an `ApiBoard`. Its batches are divided among several threads, each of which
    waits for its receipts."""

    ours = True

    def __init__(self, board: ApiBoard, threads: int) -> None:
        self._board, self._threads = board, threads
        self.name = f"laurels API, {threads} threads"
        self.settings, self.safety = board.settings, board.safety

    def writes(self, batches: Sequence[Batch]) -> Task:
        shares = [batches[first :: self._threads] for first in range(self._threads)]

        def run() -> None:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(self._board.write, shares))

        return run

    def scores(self, members: Sequence[str]) -> list[int]:
        return self._board.scores(members)
