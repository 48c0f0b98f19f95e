"""The implementations the contract holds for. A new one adds a line to `IMPLEMENTATIONS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import laurels


@dataclass(frozen=True)
class Implementation:
    """A kind of deployment: its URL for a fresh folder, and whether it outlives its closing."""

    name: str
    url: Callable[[Path], str]
    lasting: bool


IMPLEMENTATIONS = (
    Implementation("memory", lambda _: "memory:", lasting=False),
    Implementation("folder", lambda folder: str(folder / "laurels-data"), lasting=True),
)
LASTING = tuple(implementation for implementation in IMPLEMENTATIONS if implementation.lasting)


class Deployment:
    """A fresh deployment with a clock that stands still: `lb`, which can be closed and reopened."""

    def __init__(
        self, implementation: Implementation, folder: Path, clock: laurels.Clock | str
    ) -> None:
        self.lasting = implementation.lasting
        self.url = implementation.url(folder)
        self.clock = clock
        self.lb = laurels.open(self.url, clock=clock)

    def reopen(self) -> laurels.Leaderboards:
        """Closes and opens again, as after a restart."""
        self.lb.close()
        self.lb = laurels.open(self.url, clock=self.clock)
        return self.lb

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lb.close()
