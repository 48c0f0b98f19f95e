"""Pairs of deployments between which tests copy boards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from laurels import ManualClock
from tests.contract.deployments import ARCHIVING, IMPLEMENTATIONS, Deployment

STORES = {each.name: each for each in (*IMPLEMENTATIONS, *ARCHIVING)}


@contextmanager
def opened_pair(
    names: tuple[str, str], folder: Path, clock: ManualClock
) -> Iterator[tuple[Deployment, Deployment]]:
    """Open deployments of the implementations with these names, as the source and the target of
    copies."""
    with ExitStack() as stack:
        sides = (folder / "source", folder / "target")
        for side in sides:
            side.mkdir()  # for the ledger beside the boards
        source, target = (
            stack.enter_context(Deployment(STORES[name], side, clock))
            for name, side in zip(names, sides, strict=True)
        )
        yield source, target
