"""`python -m bench`: measure on this machine whether laurels reaches its targets. Each target is a
figure of one run, or a ratio of two figures of the same run.

It prints tables, and writes the figures as JSON after each section.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from rich.console import Console

from bench.effort import FULL, QUICK
from bench.machine import describe
from bench.outcome import Findings
from bench.peers.redis_server import installed
from bench.report import Report
from bench.rolling.suite import measure_rolling
from bench.sizes import size_of
from bench.small import measure_small
from bench.stages import measure_stages
from bench.suite import Chosen, Plan, Size
from bench.tables import print_tables
from bench.targets.scale import FULL_SCALE, HUGE_SCALE, QUICK_SCALE, Scale
from bench.targets.suite import SECTIONS, measure_targets
from bench.workload import LARGEST, SMALLEST

RESULTS = Path(__file__).parent / "results"
_FULL_SIZES = (10_000, 1_000_000, 10_000_000)
_QUICK_SIZES = (10_000, 1_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return exit code 0, or 2 for an invalid option or a missing redis-server."""
    options = _parser().parse_args(arguments)
    if "redis" in options.only and not options.profile and not installed():
        print("redis-server is not installed: install it, or measure --only engine,api.")
        return 2
    # exit normally on SIGTERM, so that the servers started here are stopped as well
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.json or RESULTS / f"{started}.json"
    report = _measure(options, started, file)
    print_tables(report)
    print(f"{report.line()}\n{file}")
    return 0


def _measure(options: argparse.Namespace, started: str, file: Path) -> Report:
    """Measure the requested sections. The file is written after each one, so that its figures
    remain if a later section fails."""
    progress = Console(stderr=True)
    begun = time.monotonic()

    def say(text: str) -> None:
        progress.print(f"{time.monotonic() - begun:4.0f} s  {text}")

    effort = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.folder) as folder:
        machine = describe(Path(folder))
        progress.print(machine.line())
        plan = Plan(time.time_ns() // 1_000_000, options.only, effort, Path(folder), say)
        report = Report(started=started, machine=machine, samples=[], effort=effort)
        for findings in _sections(options, plan):
            report = report.with_more(findings)
            report.write(file)
    say("done")
    return report


def _sections(options: argparse.Namespace, plan: Plan) -> Iterator[Findings]:
    """Yield the findings of the requested sections."""
    sizes = options.members or (_QUICK_SIZES if options.quick else _FULL_SIZES)
    if options.rolling:
        yield from (Findings(measure_rolling(plan, members)) for members in sizes)
    elif options.profile:
        yield from (Findings(measure_stages(plan, members)) for members in sizes)
    elif options.detail:
        yield Findings(measure_small(plan))
        yield from (Findings(Size(plan, members).measure()) for members in sizes)
    else:
        yield from measure_targets(plan, _scale(options), options.section)


def _scale(options: argparse.Namespace) -> Scale:
    if options.huge:
        return HUGE_SCALE
    return QUICK_SCALE if options.quick else FULL_SCALE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes, less exact")
    parser.add_argument(
        "--section", type=_section, default=tuple(SECTIONS), metavar=",".join(SECTIONS)
    )
    parser.add_argument("--huge", action="store_true", help="also 100 million members")
    parser.add_argument("--detail", action="store_true", help="all tables of loads, reads, writes")
    parser.add_argument("--profile", action="store_true", help="the time of each stage of a submit")
    parser.add_argument("--rolling", action="store_true", help="rolling windows and snapshots")
    parser.add_argument(
        "--members", type=_sizes, metavar="10k,1M", help="sizes of the tables' boards"
    )
    parser.add_argument("--only", type=_chosen, default=_chosen(), metavar="engine,api,redis")
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in bench/results")
    parser.add_argument(
        "--folder",
        type=Path,
        default=RESULTS,
        help="where stores and servers that are durable write their files",
    )
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    """Return sizes such as `10k,1M` as numbers."""
    sizes = [size_of(word) for word in text.split(",")]
    if any(not SMALLEST <= size <= LARGEST for size in sizes):
        raise argparse.ArgumentTypeError(f"a size is {SMALLEST} to {LARGEST:,} members")
    return tuple(sizes)


def _section(text: str) -> tuple[str, ...]:
    names = text.split(",")
    if not set(names) <= set(SECTIONS):
        raise argparse.ArgumentTypeError(f"choose among {', '.join(SECTIONS)}")
    return tuple(name for name in SECTIONS if name in names)


def _chosen(text: str = ",".join(get_args(Chosen))) -> frozenset[Chosen]:
    words: tuple[Chosen, ...] = get_args(Chosen)
    chosen = frozenset(word for word in words if word in text.split(","))
    if len(chosen) != len(set(text.split(","))):
        raise argparse.ArgumentTypeError(f"choose among {', '.join(words)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
