"""Seeded episodes of the long run, on every kind of store."""

from __future__ import annotations

import pytest

from tests.conftest import Scaled
from tests.contract.deployments import ARCHIVING, IMPLEMENTATIONS
from tests.counts import rare, some
from tests.stateful import choices
from tests.stateful.choices import COMBINATIONS
from tests.stateful.episode import run
from tests.stateful.long import combinations_of, long_run

# Events are random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

NINTH = range(0, 2 * len(COMBINATIONS), 9)
"""The seeds of one in nine combinations."""


@pytest.mark.parametrize(
    "seed", [*NINTH[::9], *rare(*(seed for seed in NINTH if seed not in NINTH[::9]))]
)
def test_an_episode_agrees_with_the_oracle(seed: int) -> None:
    tally = run(seed, combinations_of(seed), steps=40)
    assert tally.steps == 40
    assert tally.rankings >= 40


SCOPED = [1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006]
"""Seeds that together cover each kind of store."""


@pytest.mark.parametrize(
    "seed", [*SCOPED, *rare(*(begin + i for begin in range(1_010, 1_060, 10) for i in (0, 1)))]
)
def test_an_episode_of_boards_with_scopes_agrees_with_the_oracle(
    monkeypatch: pytest.MonkeyPatch, seed: int, scaled: Scaled
) -> None:
    monkeypatch.setattr(choices, "SCOPED", 1)
    steps = scaled(16, 40)
    assert run(seed, combinations_of(seed), steps=steps).steps == steps


IN_DATABASE_SERVERS = [each for each in ARCHIVING if each not in IMPLEMENTATIONS]
"""Index servers whose ledger is in a database server, one of each kind."""


@pytest.mark.parametrize("seed", some(2, range(2_000, 2_020)))
def test_an_episode_with_a_ledger_in_a_database_server_agrees_with_the_oracle(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(choices, "ARCHIVED", 1)
    monkeypatch.setattr(choices, "PRIZED", 1)
    assert run(seed, combinations_of(seed), 20, IN_DATABASE_SERVERS).steps == 20


@pytest.mark.torture
@pytest.mark.parametrize("seed", [1, 2])
def test_a_long_run_agrees_with_the_oracle(seed: int) -> None:
    assert long_run(steps=100_000, seed=seed, episode=150) == 0
