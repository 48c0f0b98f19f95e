"""A server of a folder with a clock of its own. Tests kill it while it closes and archives periods,
or makes and emits payouts.

    python -m tests.flows.season_server FOLDER PORT NOW_MS

Prints `ready` once it accepts requests, and then a line whenever it begins a stage of a season (see
`STAGES`). Each line of its input is a number of milliseconds by which the clock advances.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import laurels
from laurels.core.period_awards import SealedStandings
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.segment import SegmentWriter
from laurels.stores.local.committing import LocalCommits
from laurels.stores.local.payouts.table import PayoutTable
from tests.serving import ADMIN_KEY, Served

STAGES: dict[str, list[tuple[type, str]]] = {
    "close": [(LocalCommits, "_close_boards")],
    "archive": [(Archive, "write"), (SegmentWriter, "finish")],
    "payouts": [(PayoutTable, "unstage"), (PayoutTable, "stage"), (SealedStandings, "row")],
    "seal": [(PayoutTable, "flush"), (PayoutTable, "publish")],
    "emit": [(LocalCommits, "_emit_share"), (PayoutTable, "emit")],
}
"""The methods whose calls begin each stage."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # in one call, since several threads write
    sys.stdout.flush()


def announce(stage: str, owner: type, name: str) -> None:
    """Make a method print a stage whenever it is called."""
    method: Callable[..., Any] = getattr(owner, name)

    def announced(*args: Any, **options: Any) -> Any:
        say(stage)
        return method(*args, **options)

    setattr(owner, name, announced)


def serve(data: str, port: int, now_ms: int) -> None:
    """Serve a folder, or the boards on an index server, until killed."""
    clock = laurels.ManualClock(now_ms)
    Served(data, clock, admin_key=ADMIN_KEY, port=port)
    say("ready")
    for line in sys.stdin:
        clock.advance(int(line))
        say("advanced")


if __name__ == "__main__":
    for stage, methods in STAGES.items():
        for owner, name in methods:
            announce(stage, owner, name)
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
