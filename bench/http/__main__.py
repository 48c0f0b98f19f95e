"""`python -m bench.http`: measure the service, print the tables, write the JSON.

Servers run on the first core of this machine, and the load generator on the last.

example: python -m bench.http --quick --json quick.json
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

from rich.console import Console

from bench.http.effort import FULL, QUICK, HttpEffort
from bench.http.process import Cores, two_cores
from bench.http.suite import EVERYONE, Chosen, HttpPlan, measure_http, missing, software
from bench.machine import describe
from bench.report import Measured
from bench.tables import print_tables

RESULTS = Path(__file__).parent.parent / "results"


class HttpReport(Measured, frozen=True, kw_only=True):
    """The report of a run that measured the service."""

    effort: HttpEffort


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return exit code 0, or 2 for an invalid option or a missing requirement."""
    options = _parser().parse_args(arguments)
    cores = two_cores()
    lacking = missing(options.only)
    if cores is None:
        lacking.append("expected two cores, for the server and the load generator, got one")
    if lacking or cores is None:
        print("\n".join(lacking))
        return 2
    # exit normally on SIGTERM, so that the servers started here are stopped as well
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    options.folder.mkdir(parents=True, exist_ok=True)
    report = _measure(options, cores, started)
    print_tables(report)
    file = options.json or RESULTS / f"{started}-http.json"
    report.write(file)
    print(f"{report.line()}\n{file}")
    return 0


def _measure(options: argparse.Namespace, cores: Cores, started: str) -> HttpReport:
    progress = Console(stderr=True)
    effort = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.folder) as folder:
        machine = describe(Path(folder))
        progress.print(machine.line())
        now_ms = time.time_ns() // 1_000_000
        plan = HttpPlan(effort, options.only, cores, Path(folder), now_ms, progress.print)
        return HttpReport(
            started=started,
            machine=machine,
            samples=measure_http(plan),
            software=software(options.only),
            effort=effort,
        )


def _parser() -> argparse.ArgumentParser:
    description, _, example = (__doc__ or "").partition("\n\nexample: ")
    parser = argparse.ArgumentParser(
        prog="python -m bench.http", description=description, epilog=f"example: {example}"
    )
    parser.add_argument("--quick", action="store_true", help="100k members, 3 minutes, less exact")
    parser.add_argument(
        "--only", type=_chosen, default=EVERYONE, metavar=",".join(get_args(Chosen))
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in bench/results")
    parser.add_argument(
        "--folder", type=Path, default=RESULTS, help="for files of the durable peers"
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
