"""Seeded episodes of the long run: one for every ninth combination."""

from __future__ import annotations

import pytest

from tests.stateful.choices import COMBINATIONS
from tests.stateful.episode import run
from tests.stateful.long import combinations_of


@pytest.mark.parametrize("seed", range(0, 2 * len(COMBINATIONS), 9))
def test_an_episode_agrees_with_the_oracle(seed: int) -> None:
    tally = run(seed, combinations_of(seed), steps=40)
    assert tally.steps == 40
    assert tally.rankings >= 40
