"""The long run: `python -m tests.crash.long --damages 2000 --seed 1`.

Every call of every scene fails in every way, the power is cut after every call, and every file is
damaged at many offsets. After each case, the remaining folder is checked. If data is lost, the
program prints how to reproduce the case. The report has one line for each of these three kinds of
cases. The exit code is 1 if anything was lost. `make torture` runs the same cases as tests; this
program takes other seeds and counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.crash.damage import damages, try_out, whole_folder
from tests.crash.disk import Stage, compiled, staged
from tests.crash.faults import KINDS, READS, every, scenes, survive
from tests.crash.power_cut import survive_cut, traced

Case = Callable[[], object]
"""One case to try. It returns a word for the outcome, and raises an error if something was lost."""


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--damages", type=int, default=400, help="flipped bits and cuts to try in each file"
    )
    parser.add_argument("--every", type=int, default=1, help="run only every n-th case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=TRIED, action="append", help="repeatable")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, staged(compiled(Path(name))) as stage:
        lost = [
            tried(what, TRIED[what](stage, Path(name) / what, options), options.every)
            for what in options.only or TRIED
        ]
    return 1 if any(lost) else 0


def tried(what: str, cases: Iterator[Case], every: int) -> int:
    """Run the cases and print a report. Return how many cases failed."""
    began = time.monotonic()
    became: Counter[str] = Counter()
    wrong = 0
    for number, case in enumerate(cases):
        if number % every:
            continue
        try:
            became[str(case())] += 1
        except Exception:
            wrong += 1
            print(f"{what}:\n{traceback.format_exc()}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{what}: {number:,}", end="", file=sys.stderr)
    count = sum(became.values()) + wrong
    how = ", ".join(f"{word} {n:,}" for word, n in became.most_common())
    seconds = time.monotonic() - began
    print(f"{what}: {count:,} cases, {wrong} wrong; {how}; {seconds:,.0f} s", flush=True)
    return wrong


def _faults(stage: Stage, base: Path, _options: Namespace) -> Iterator[Case]:
    work = base.with_name("work")
    for scene in scenes(stage, base):
        for kind in (*KINDS, READS):
            for fault in every(scene, kind):
                yield lambda scene=scene, fault=fault: survive(stage, scene, fault, work)  # type: ignore[misc]


def _cuts(stage: Stage, base: Path, options: Namespace) -> Iterator[Case]:
    """Yield two power cuts after every call: the first loses everything that was not flushed, and
    the second keeps a part of it."""
    run, work = traced(stage, base), base.with_name("work")
    for after in range(1, len(run.calls) + 1):
        for chance in (None, Random(options.seed * 100_000 + after)):
            yield lambda after=after, chance=chance: survive_cut(run, after, chance, work)  # type: ignore[misc]


def _damage(_stage: Stage, base: Path, options: Namespace) -> Iterator[Case]:
    expected = whole_folder(base, base.with_name("made"))
    work = base.with_name("work")
    for damage in damages(base, options.damages, Random(options.seed)):
        yield lambda damage=damage: try_out(base, damage, work, expected)  # type: ignore[misc]


TRIED: dict[str, Callable[[Stage, Path, Namespace], Iterator[Case]]] = {
    "faults": _faults,
    "cuts": _cuts,
    "damage": _damage,
}

if __name__ == "__main__":
    sys.exit(main())
