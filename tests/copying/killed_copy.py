"""A program that copies a board. Tests kill it.

python -m tests.copying.killed_copy SOURCE TARGET NOW_MS BOARD
"""

from __future__ import annotations

import sys
from contextlib import closing

import laurels
from laurels.config.portable import portable
from laurels.flows.copying.copying import copy_board


def main(source: str, target: str, now_ms: int, board: str) -> None:
    """Copy a board, and print a line for each step."""
    clock = laurels.ManualClock(now_ms)
    of_source, of_target = (
        None if url.startswith("http") else clock for url in (source, target)
    )  # a service has its own clock
    with (
        closing(portable(source, of_source, create=False)) as own,
        closing(portable(target, of_target, create=True)) as other,
    ):
        print("opened", flush=True)
        copy_board(
            own.copies, other.copies, board, lambda doing, rows: print(doing, rows, flush=True)
        )
        print("copied", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
