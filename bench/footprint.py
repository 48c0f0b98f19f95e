"""What a board in memory adds to a process: run by the bench in a fresh interpreter.

`python -m bench.footprint MEMBERS FOLDER` prints the growth of the resident memory in bytes. The
log is in the folder, as in a real deployment, so that only the index is in memory.
"""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.peers.api import ApiBoard
from bench.timing import Safety
from bench.workload import Population

_TIMEOUT_SECONDS = 300


class ProcessMemory:
    """The growth of a whole process, the interpreter's own allocations included."""

    ours = True
    name = "laurels API"
    settings = "growth of a process"
    safety: Safety = "memory"

    def growth(self, members: int, folder: Path) -> int:
        """Load a board of so many members in another process; the bytes it grew by."""
        shown = subprocess.run(
            [sys.executable, "-m", __name__, str(members), str(folder)],
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=_TIMEOUT_SECONDS,
        )
        return int(shown.stdout)


def main(members: int, folder: str) -> None:
    population = Population(members, time.time_ns() // 1_000_000)
    board = ApiBoard(folder)
    before = _resident_bytes()
    board.load(population)
    gc.collect()
    print(_resident_bytes() - before)
    board.close()


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
