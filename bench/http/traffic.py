"""The prepared requests for all peers, with the same members and events in the same order."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from bench.workload import Batch, Population, in_batches

_WATCHED = 50

Method: TypeAlias = Literal["GET", "POST"]


class Requests:
    """The lines of a file for the load generator: bodies of POST requests, or the last parts of the
    paths of GET requests."""

    def __init__(self, method: Method, lines: list[str], batches: list[Batch], file: Path) -> None:
        self.method: Method = method
        self.batches = batches
        """The events of each line; none for reads."""
        self._lines = lines
        self._file = file
        self._files: dict[str, Path] = {}

    def file(self, path: str) -> Path:
        """Return the name of the file of requests for this URL path. Write the file if it is
        missing. A line of GET requests begins with the path, so each path has its own file. A line
        of POST requests is a body, so one file is used for all paths."""
        begin = path if self.method == "GET" else ""
        if begin not in self._files:
            file = self._file.with_name(f"{self._file.name}-{len(self._files)}")
            file.write_text("".join(f"{begin}{line}\n" for line in self._lines))
            self._files[begin] = file
        return self._files[begin]

    def events(self, sent: int) -> Counter[str]:
        """Return for each member the sum of its values when `sent` lines have been sent. After
        the last line of the file, sending starts again with the first."""
        whole, rest = divmod(sent, len(self.batches))
        total = {member: whole * value for member, value in totals(self.batches).items()}
        return Counter(total) + totals(self.batches[:rest])

    @cached_property
    def watched(self) -> list[str]:
        """The members with the greatest sums of values."""
        return [member for member, _ in totals(self.batches).most_common(_WATCHED)]

    @cached_property
    def largest(self) -> int:
        """The greatest sum of values in any one line."""
        return max(sum(value for _, value in batch) for batch in self.batches)


def totals(batches: Iterable[Batch]) -> Counter[str]:
    """Return for each member the sum of its values in these events."""
    total: Counter[str] = Counter()
    for member, value in chain.from_iterable(batches):
        total[member] += value
    return total


def written(events: Batch) -> list[dict[str, str | int]]:
    """Return events in the JSON form of requests."""
    return [{"member": member, "value": value} for member, value in events]


def single_events(population: Population, count: int, folder: Path) -> Requests:
    """Return POST requests with one event each, drawn by Zipf."""
    batches = in_batches(population.traffic("zipf", count), 1)
    lines = [msgspec.json.encode(written(batch)[0]).decode() for batch in batches]
    return Requests("POST", lines, batches, folder / "single")


def batches_of(size: int, population: Population, count: int, folder: Path) -> Requests:
    """Return POST requests with several events each, drawn by Zipf."""
    batches = in_batches(population.traffic("zipf", count * size), size)
    lines = [msgspec.json.encode(written(batch)).decode() for batch in batches]
    return Requests("POST", lines, batches, folder / f"batches-{size}")


def members_of(population: Population, count: int, folder: Path) -> Requests:
    """Return GET requests that each end with a member, drawn uniformly."""
    return Requests("GET", population.sample(count), [], folder / "members")


def same(folder: Path) -> Requests:
    """Return GET requests that all have the same path."""
    return Requests("GET", [""], [], folder / "same")
