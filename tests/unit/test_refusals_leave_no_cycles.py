"""The refused events of a batch leave no reference cycles, which only the garbage collector could
free."""

import gc

import pytest

import laurels
from laurels.errors import AllEventsRefused

REFUSED = [[f"m{i}", "x"] for i in range(1_000)]


def test_a_batch_of_refused_events_leaves_no_cycles() -> None:
    with laurels.open("memory:") as lb:
        lb.create(laurels.Board("b"))
        for _ in range(2):
            gc.collect()
            gc.disable()
            try:
                with pytest.warns(AllEventsRefused):
                    lb.submit_many("b", REFUSED)
                left = gc.collect()
            finally:
                gc.enable()
        assert left < len(REFUSED) / 10
