"""Every store plays the kept history and gives every receipt and answer that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from tests.contract.deployments import IMPLEMENTATIONS, Deployment, Implementation
from tests.golden.trace import START_MS, Player
from tests.golden.trace_file import recorded

EVENTS = 3_000
"""So many events suffice between two edits; the history that is kept has 100,000."""


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda each: each.name)
def test_a_store_repeats_the_trace(implementation: Implementation, tmp_path: Path) -> None:
    clock = laurels.ManualClock(START_MS)
    steps = recorded()
    with Deployment(implementation, tmp_path, clock) as deployment:
        player = Player(deployment.lb, clock)
        for number, step in enumerate(player.play(EVENTS)):
            assert step == steps[number], f"step {number}: {player.answers}"
