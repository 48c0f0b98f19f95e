"""The output of a soak: samples over time, consecutive parts of the run, and a verdict."""

from __future__ import annotations

import asyncio
import csv
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Protocol, TextIO

PARTS = 8
"""The number of equal parts into which a run is divided; the first `WARM_UP` are not compared."""
WARM_UP = 2
LEAST_MINUTES = 40
"""The shortest run whose growth is judged. In a shorter run, windows of ten minutes would still be
filling after the warm-up."""
GROWTH = 1.10
"""The greatest allowed ratio of a figure in the last part to its median in the two parts after the
warm-up."""
SPARE_MIB = 8
"""The growth that is allowed in addition to `GROWTH`: this many MiB of memory or disk, and this
many descriptors."""
MIB = 1 << 20


class Watched(Protocol):
    """The process that is sampled, and the folder that it writes to."""

    folder: Path

    def rss(self) -> int: ...
    def threads(self) -> int: ...
    def descriptors(self) -> int: ...
    def cpu_seconds(self) -> float: ...


@dataclass
class Tally:
    """The counts of a run so far."""

    events: int = 0
    requests: int = 0
    frames: int = 0
    feeds: int = 0
    snapshots: int = 0
    total: int = 0
    """The sum of the acknowledged values on the board `orders`, to compare with its total."""
    doubtful: int = 0
    """The sum of the values of batches that were not answered: they may or may not have counted."""
    slowest_ms: float = 0.0
    peak_rss: int = 0
    """The peak memory before the check at the end."""
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Sample:
    """The figures of the server and the load at one time."""

    seconds: float
    rss_mib: float
    descriptors: int
    threads: int
    disk_mib: float
    log_mib: float
    cpu_percent: float
    events_per_second: float
    requests_per_second: float
    frames_per_second: float
    slowest_ms: float
    failures: int


class Sampler:
    """Writes a line of figures to a CSV file every few seconds."""

    def __init__(self, server: Watched, tally: Tally, file: TextIO) -> None:
        self.samples: list[Sample] = []
        self._server = server
        self._tally = tally
        self._writer = csv.DictWriter(file, list(Sample.__dataclass_fields__))
        self._file = file
        self._writer.writeheader()
        self._began = self._at = time.monotonic()
        self._before = (server.cpu_seconds(), 0, 0, 0)

    async def run(self, every_seconds: float) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            self._take()

    def _take(self) -> None:
        now, tally = time.monotonic(), self._tally
        so_far = (self._server.cpu_seconds(), tally.events, tally.requests, tally.frames)
        passed = now - self._at
        cpu, events, requests, frames = (
            (new - old) / passed for new, old in zip(so_far, self._before, strict=True)
        )
        disk, log = _disk(self._server.folder)
        sample = Sample(
            round(now - self._began, 1),
            round(self._server.rss() / MIB, 2),
            self._server.descriptors(),
            self._server.threads(),
            round(disk / MIB, 2),
            round(log / MIB, 2),
            round(100 * cpu, 1),
            round(events, 1),
            round(requests, 1),
            round(frames, 1),
            round(tally.slowest_ms, 1),
            tally.failures.total(),
        )
        self._at, self._before, tally.slowest_ms = now, so_far, 0.0
        self.samples.append(sample)
        self._writer.writerow(asdict(sample))
        self._file.flush()


def _disk(folder: Path) -> tuple[int, int]:
    """Return the size of a folder in bytes, and that of the log in it."""
    whole = log = 0
    for path in folder.iterdir():
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # a snapshot may be removed during the loop
            continue
        whole += size
        log += size if path.name.startswith("log.") else 0
    return whole, log


@dataclass(frozen=True)
class Part:
    """The figures of one of the equal parts of a run. `rss_most`, descriptors, disk and log are
    maxima, the others are medians."""

    minutes: str
    rss_mib: float
    rss_most: float
    descriptors: int
    disk_mib: float
    log_mib: float
    cpu_percent: float
    events_per_second: float


def parts_of(samples: Sequence[Sample]) -> list[Part]:
    """Divide the samples into `PARTS` equal parts, and return the figures of each."""
    return [
        Part(
            f"{each[0].seconds / 60:.1f} to {each[-1].seconds / 60:.1f}",
            median(sample.rss_mib for sample in each),
            max(sample.rss_mib for sample in each),
            max(sample.descriptors for sample in each),
            max(sample.disk_mib for sample in each),
            max(sample.log_mib for sample in each),
            median(sample.cpu_percent for sample in each),
            median(sample.events_per_second for sample in each),
        )
        for each in _split(samples)
        if each
    ]


def _split(samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    ends = [i * len(samples) // PARTS for i in range(PARTS + 1)]
    return [samples[first:end] for first, end in pairwise(ends)]


def slope_of(samples: Sequence[Sample]) -> float:
    """Return the growth of memory in MiB an hour: for all pairs of samples that are half the run
    apart, the median of the slopes between the two."""
    half = len(samples) // 2
    pairs = list(zip(samples[:half], samples[half:], strict=False))
    if not pairs:
        return 0.0
    return median(
        3_600 * (later.rss_mib - early.rss_mib) / (later.seconds - early.seconds)
        for early, later in pairs
    )


def errors_of(tally: Tally, code: int) -> list[str]:
    """Return descriptions of the failed requests, and of an exit code of the server other than
    0."""
    wrong = [f"{count} times {what}" for what, count in tally.failures.most_common(10)]
    if code != 0:
        wrong.append(f"the server ended with exit code {code}")
    return wrong


def growth_of(parts: Sequence[Part]) -> list[str]:
    """Return a sentence for each figure that is too large in the last part, compared with the two
    parts after the warm-up."""
    settled, last = parts[WARM_UP : WARM_UP + 2], parts[-1]
    grown = []
    for name in ("rss_mib", "descriptors", "disk_mib"):
        before, now = median(getattr(part, name) for part in settled), getattr(last, name)
        if now > GROWTH * before + SPARE_MIB:
            grown.append(f"{name} grows: {now:,.0f} in the last part, {before:,.0f} before")
    return grown


def table_of(parts: Sequence[Part]) -> str:
    """Return the parts as a Markdown table for the documentation."""
    rows = [
        "| minutes | RSS, median | RSS, most | descriptors | folder | log | CPU | events/s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows += [
        f"| {part.minutes} | {part.rss_mib:,.0f} MiB | {part.rss_most:,.0f} MiB "
        f"| {part.descriptors} | {part.disk_mib:,.0f} MiB | {part.log_mib:,.0f} MiB "
        f"| {part.cpu_percent:.0f} % | {part.events_per_second:,.0f} |"
        for part in parts
    ]
    return "\n".join(rows)
