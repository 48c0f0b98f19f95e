"""`python -m bench`: measure, print the tables, write the JSON."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from rich.console import Console

from bench.effort import FULL, QUICK
from bench.machine import describe
from bench.peers.redis_server import installed
from bench.report import Report
from bench.rolling.suite import measure_rolling
from bench.small import measure_small
from bench.stages import measure_stages
from bench.suite import Chosen, Plan, Size
from bench.tables import print_tables
from bench.workload import LARGEST, SMALLEST

RESULTS = Path(__file__).parent / "results"
_FULL_SIZES = (10_000, 1_000_000, 10_000_000)
_QUICK_SIZES = (10_000, 1_000_000)
_MULTIPLES = {"k": 1_000, "M": 1_000_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 2 for a wrong option or a missing redis-server."""
    options = _parser().parse_args(arguments)
    if "redis" in options.only and not options.profile and not installed():
        print("redis-server is not installed: install it, or measure --only engine,api.")
        return 2
    # A terminated bench must still stop the server it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    options.folder.mkdir(parents=True, exist_ok=True)
    report = _measure(options, started)
    print_tables(report.samples)
    file = options.json or RESULTS / f"{started}.json"
    report.write(file)
    print(f"{report.machine.line()}\n{file}")
    return 0


def _measure(options: argparse.Namespace, started: str) -> Report:
    progress = Console(stderr=True)
    effort = QUICK if options.quick else FULL
    sizes = options.members or (_QUICK_SIZES if options.quick else _FULL_SIZES)
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.folder) as folder:
        machine = describe(Path(folder))
        progress.print(machine.line())
        plan = Plan(time.time_ns() // 1_000_000, options.only, effort, Path(folder), progress.print)
        if options.rolling:
            samples = [s for members in sizes for s in measure_rolling(plan, members)]
        elif options.profile:
            samples = [s for members in sizes for s in measure_stages(plan, members)]
        else:
            samples = measure_small(plan)
            for members in sizes:
                samples += Size(plan, members).measure()
    return Report(started=started, machine=machine, samples=samples, effort=effort)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes, rougher")
    parser.add_argument("--profile", action="store_true", help="where our time per event goes")
    parser.add_argument("--rolling", action="store_true", help="rolling windows and snapshots")
    parser.add_argument("--members", type=_sizes, metavar="10k,1M", help="sizes of the board")
    parser.add_argument("--only", type=_chosen, default=_chosen(), metavar="engine,api,redis")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in bench/results")
    parser.add_argument(
        "--folder", type=Path, default=RESULTS, help="where the durable peers write, for the time"
    )
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    """`10k,1M` as numbers."""
    sizes = [int(word.rstrip("kM")) * _MULTIPLES.get(word[-1], 1) for word in text.split(",")]
    if any(not SMALLEST <= size <= LARGEST for size in sizes):
        raise argparse.ArgumentTypeError(f"a size is {SMALLEST} to {LARGEST:,} members")
    return tuple(sizes)


def _chosen(text: str = ",".join(get_args(Chosen))) -> frozenset[Chosen]:
    words: tuple[Chosen, ...] = get_args(Chosen)
    chosen = frozenset(word for word in words if word in text.split(","))
    if len(chosen) != len(set(text.split(","))):
        raise argparse.ArgumentTypeError(f"choose among {', '.join(words)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
