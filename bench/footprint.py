"""The memory that a board adds to a process, measured in a fresh interpreter.

`python -m bench.footprint MEMBERS FOLDER [rolling]` prints the growth of the resident memory in
bytes, for a board with the window all or, with `rolling`, with all, day and a rolling window. The
log is in the folder, as in a real deployment, so that the memory has only the index.
"""

import gc
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from bench.history import WEEK, History, evening
from bench.peers.api import ApiBoard
from bench.peers.rolling_api import RollingApi
from bench.timing import Safety
from bench.workload import Population

_TIMEOUT_SECONDS = 300


class ProcessMemory:
    """The row of the tables for the memory of a whole process, including the interpreter."""

    ours = True
    name = "laurels API"
    settings = "growth of a process"
    safety: Safety = "memory"

    def growth(self, members: int, folder: Path, *, rolling: bool = False) -> int:
        """Load a board with this many members in another process; return by how many bytes that
        process grew."""
        board = ["rolling"] if rolling else []
        completed = subprocess.run(
            [sys.executable, "-m", __name__, str(members), str(folder), *board],
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_TIMEOUT_SECONDS,
        )
        return int(completed.stdout)


def main(members: int, folder: str, board: str = "all") -> None:
    population = Population(members, time.time_ns() // 1_000_000)
    grown = _grown_by_rolling if board == "rolling" else _grown_by_all
    print(grown(population, Path(folder)))


def _grown_by_all(population: Population, folder: Path) -> int:
    with closing(ApiBoard(str(folder))) as board:
        before = resident_bytes()
        board.load(population)
        gc.collect()
        return resident_bytes() - before


def _grown_by_rolling(population: Population, folder: Path) -> int:
    now_ms = evening(population.now_ms)
    history = History(population, WEEK.begins_ms(now_ms), now_ms)
    with closing(RollingApi(folder, now_ms)) as board:
        before = resident_bytes()
        board.load(history.batches())
        gc.collect()
        return resident_bytes() - before


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
