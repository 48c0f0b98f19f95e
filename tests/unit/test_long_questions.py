"""A question for many entries must not hold an event loop."""

import inspect

import pytest

from laurels.api.aio import _SIZED, AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards

SIZES = {"limit", "radius", "members"}
VERBS = [
    name
    for name, verb in vars(AsyncLeaderboards).items()
    if callable(verb) and not name.startswith("_") and hasattr(Leaderboards, name)
]


@pytest.mark.parametrize("name", VERBS)
def test_a_question_that_says_how_much_it_asks_for_is_measured(name: str) -> None:
    verb = getattr(Leaderboards, name)
    says = not SIZES.isdisjoint(inspect.signature(verb).parameters)
    assert (verb in _SIZED) == says
