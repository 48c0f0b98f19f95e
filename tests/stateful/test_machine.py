"""Run the steps of the episodes (`episode.py`) in a state machine of hypothesis, which shrinks
examples that fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.conftest import Scaled
from tests.contract.deployments import EMBEDDED, Implementation
from tests.stateful import rules
from tests.stateful.choices import COMBINATIONS
from tests.stateful.episode import begin, finish, shares, step
from tests.stateful.world import World

# Events are random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

randomness = st.randoms(use_true_random=False)


class Machine(RuleBasedStateMachine):
    """A deployment and the oracle, to which hypothesis applies the steps in an order of its
    choice."""

    implementation: Implementation
    world: World

    def __init__(self) -> None:
        super().__init__()
        self._until_torn_down = ExitStack()
        self._folder = Path(self._until_torn_down.enter_context(TemporaryDirectory()))
        self._random = Random(0)

    @initialize(rng=randomness, combination=st.sampled_from(COMBINATIONS))
    def start(self, rng: Random, combination: tuple[tuple[tuple[str, ...], ...], str, str]) -> None:
        background = self._until_torn_down.enter_context(shares(rng))
        self.world = begin(rng, self.implementation, self._folder, [combination], background)
        self._until_torn_down.callback(self.world.deployment.close)

    def teardown(self) -> None:
        with self._until_torn_down:
            if hasattr(self, "world"):
                finish(self.world, self._random)


def happens(happening: rules.Rule) -> Callable[[Machine, Random], None]:
    """Return a step of `rules.py` as a rule of the machine."""

    def act(self: Machine, rng: Random) -> None:
        step(self.world, rng, happening)

    act.__name__ = happening.__name__
    decorated: Callable[[Machine, Random], None] = rule(rng=randomness)(act)
    return decorated


# hypothesis chooses all rules equally often, so frequent rules are repeated here
for happening, weight in rules.RULES:
    for copy in range(max(1, weight // 4)):
        setattr(Machine, f"{happening.__name__}_{copy}", happens(happening))


@pytest.mark.parametrize("implementation", EMBEDDED, ids=lambda it: it.name)
def test_everything_agrees_with_the_oracle(implementation: Implementation, scaled: Scaled) -> None:
    machine = type("Machine", (Machine,), {"implementation": implementation})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=scaled(4, 500),
            stateful_step_count=40,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
