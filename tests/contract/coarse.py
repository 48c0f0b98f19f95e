"""Boards in memory that answer like an index in which only the head is in order. Members after the
head come in arbitrary order, with bounds around their true ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from laurels.core import read_plan
from laurels.core.index import Index, Located
from laurels.core.read_plan import ReadPlan
from laurels.core.requests import End, ReadRequest, ReadResult, Start, find, listed_by
from laurels.stores.local.reading import LocalReads
from tests.contract.deployments import Clock, InProcess, OverHttp, Place

GRID_AGE = 7


@contextmanager
def coarse(least: int) -> Iterator[None]:
    """Make the indexes of this process answer about boards with a head as if only the first
    positions of their rankings were certain: `least` of them or more."""
    answers = _Coarse(least)

    def run_local(plan: ReadPlan[Any], index: Index, offset: int) -> Any:
        return answers.run(plan, index, offset)

    with ExitStack() as patches:
        for target, name, replacement in (
            (read_plan, "find", answers.find),
            (ReadPlan, "run_local", run_local),
            (LocalReads, "cached_view", lambda *_: None),
        ):
            patches.enter_context(patch.object(target, name, replacement))
        yield


class Coarse:
    """A running deployment whose answers are made coarse."""

    def __init__(self, place: Callable[[], Place], least: int) -> None:
        self._patches = ExitStack()
        self._patches.enter_context(coarse(least))
        self._place = place()
        self.url, self.clock = self._place.url, self._place.clock

    def close(self) -> None:
        self._place.close()
        self._patches.close()


def in_memory(least: int) -> Callable[[Path, Clock], Place]:
    return lambda _, clock: Coarse(lambda: InProcess("memory:", clock), least)


def over_http(least: int) -> Callable[[Path, Clock], Place]:
    return lambda folder, clock: Coarse(lambda: OverHttp(folder, clock), least)


class _Coarse:
    """Makes the results of an index coarse: only the first positions stay certain."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._rng = Random(17)

    def run(self, plan: ReadPlan[Any], index: Index, offset: int) -> Any:
        """Return the answer of a plan, computed from coarse results."""
        result = plan.finish([self.find(index, request) for request in plan.requests], offset)
        return self.run(result, index, offset) if isinstance(result, ReadPlan) else result

    def find(self, index: Index, request: ReadRequest) -> ReadResult:
        total = listed_by(index, request).size(request.key)
        certain = min(total, self._least + total % 40)
        if request.key.board not in self._heads(index) or certain == total or request.walk:
            return find(index, request)
        result = find(index, replace(request, head=min(request.head, certain)))
        positions = [
            position
            if position < certain or isinstance(anchor, Start | End)
            else self._rng.randint(certain, total)
            for anchor, position in zip(request.anchors, result.positions, strict=True)
        ]
        located = result.located
        return replace(
            result,
            positions=positions,
            located=None if located is None else self._widened(located, certain, total),
            certain=certain,
            grid_age=GRID_AGE,
        )

    def _heads(self, index: Any) -> set[int]:
        return {number for number, store in index._boards.items() if store.rules.head}

    def _widened(self, located: Located, certain: int, total: int) -> Located:
        """Return ranks with bounds around them. If the position of a member is certain, both bounds
        equal its rank."""
        lows, highs = [], []
        for position, rank in zip(located.positions, located.ranks, strict=True):
            wide = self._rng.choice([0, 3, 40]) if position >= certain else 0
            lows.append(max(rank - self._rng.randint(0, wide), min(rank, certain)))
            highs.append(min(rank + self._rng.randint(0, wide), max(rank, total - 1)))
        positions = [
            position if position < certain else self._rng.randint(certain, position)
            for position in located.positions
        ]
        return Located(positions, lows, located.words, highs)
