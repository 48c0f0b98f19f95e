"""Every store that plays the recorded trace returns the recorded receipts and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from tests.conftest import Scaled
from tests.contract.deployments import IMPLEMENTATIONS, Deployment, Implementation
from tests.golden.trace import EVENTS, START_MS, Player
from tests.golden.trace_file import recorded


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda each: each.name)
def test_a_store_repeats_the_trace(
    implementation: Implementation, tmp_path: Path, scaled: Scaled
) -> None:
    clock = laurels.ManualClock(START_MS)
    steps = recorded()
    with Deployment(implementation, tmp_path, clock) as deployment:
        player = Player(deployment.lb, clock)
        for number, step in enumerate(player.play(scaled(3_000, EVENTS))):
            assert step == steps[number], f"step {number} differs; its answers: {player.answers}"
