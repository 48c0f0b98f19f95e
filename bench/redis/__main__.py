"""`python -m bench.redis`: measure boards on an index server, print the tables, write the JSON.

Servers run on the first core of this machine, and their clients on the last.

example: python -m bench.redis --quick --json quick.json
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
from rich.console import Console

from bench.http.process import Cores, two_cores
from bench.machine import describe
from bench.redis.effort import FULL, HUGE_HEAD, QUICK, RedisEffort
from bench.redis.suite import EVERYTHING, Chosen, RedisPlan, missing, run, software
from bench.report import Measured
from bench.tables import markdown, print_tables
from bench.timing import Sample

RESULTS = Path(__file__).parent.parent / "results"


class RedisReport(Measured, frozen=True, kw_only=True):
    """The report of a run that measured boards on an index server."""

    effort: RedisEffort


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return exit code 0, or 2 for an invalid option or a missing requirement."""
    options = _parser().parse_args(arguments)
    cores, lacking = two_cores(), missing()
    if cores is None:
        lacking.append("expected two cores, for the servers and their clients, got one")
    if lacking or cores is None:
        print("\n".join(lacking))
        return 2
    # exit normally on SIGTERM, so that the servers started here are stopped as well
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    file = options.json or RESULTS / f"{started}-redis.json"
    report = _measure(options, cores, started, file)
    if options.markdown:
        sys.stdout.write(markdown(report))
        return 0
    print_tables(report)
    print(f"{report.line()}\n{file}")
    return 0


def _measure(options: argparse.Namespace, cores: Cores, started: str, file: Path) -> RedisReport:
    """Measure section by section. The file is written after each one, so that its figures remain if
    a later section fails."""
    progress = Console(stderr=True)
    effort = QUICK if options.quick else FULL
    if options.huge:
        effort = msgspec.structs.replace(effort, head_memory=(*effort.head_memory, HUGE_HEAD))
    with tempfile.TemporaryDirectory(prefix="laurels-bench-") as folder:
        machine = describe(Path(folder))
    progress.print(machine.line())
    now_ms = time.time_ns() // 1_000_000
    begun = time.monotonic()

    def say(text: str) -> None:
        progress.print(f"{time.monotonic() - begun:4.0f} s  {text}")

    report = RedisReport(
        started=started, machine=machine, samples=[], software=software(), effort=effort
    )

    def keep(samples: list[Sample]) -> None:
        nonlocal report
        report = msgspec.structs.replace(report, samples=samples)
        report.write(file)

    plan = RedisPlan(effort, options.only, cores, now_ms, say, keep)
    run(plan)
    say("done")
    return report


def _parser() -> argparse.ArgumentParser:
    description, _, example = (__doc__ or "").partition("\n\nexample: ")
    parser = argparse.ArgumentParser(
        prog="python -m bench.redis", description=description, epilog=f"example: {example}"
    )
    parser.add_argument("--quick", action="store_true", help="30k members, 2 minutes, less exact")
    parser.add_argument(
        "--only", "--section", type=_chosen, default=EVERYTHING, metavar=",".join(get_args(Chosen))
    )
    parser.add_argument(
        "--huge", action="store_true", help="also the memory of boards with a head, 10M members"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in bench/results")
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables in Markdown, as in the docs"
    )
    return parser


def _chosen(text: str) -> frozenset[Chosen]:
    words: tuple[Chosen, ...] = get_args(Chosen)
    chosen = frozenset(word for word in words if word in text.split(","))
    if len(chosen) != len(set(text.split(","))):
        raise argparse.ArgumentTypeError(f"choose among {', '.join(words)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
