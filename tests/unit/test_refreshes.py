"""A refresh that is computed in shares, between random operations, equals a refresh that is
computed from the log alone."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from tests.counts import some
from tests.traffic import Traffic

from laurels.core import record as records
from laurels.core import refreshes
from laurels.core.lifecycle import NEVER, Refreshed
from laurels.model.windows.rolling import Rolling
from laurels.timeline.instants import MAX_MS, MIN_MS

# The traffic is random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

HOUR = 3_600_000


@pytest.mark.parametrize("seed", some(2, range(8)))
def test_builds_during_random_traffic_match_the_log(seed: int) -> None:
    with patch.object(refreshes, "UNBUILT_CELLS", [0, 20][seed % 2]):
        traffic = Traffic(seed)
        for _ in range(25):
            traffic.happen(12)
            for _ in range(traffic.rng.choice([0, 1, 5, 40])):
                traffic.service.pace(traffic.rng.choice([1, 3, 20]))
            traffic.service.check()
        written = [record for _, body in traffic.log.read(0) for record in records.decode(body)]
        assert sum(isinstance(record, records.Refresh) for record in written) > 5
        traffic.service.rebuild()
        traffic.service.check()


def test_a_refresh_is_due_at_multiples_of_its_interval_while_pending() -> None:
    window = Rolling("w", 5, HOUR, 0, "UTC", 0, 2 * HOUR)
    assert NEVER.due_ms(window) == MAX_MS
    assert Refreshed(waiting=True).due_ms(window) == MIN_MS
    for now_ms, due_ms in ((0, 2), (1, 2), (2 * HOUR - 1, 2), (2 * HOUR, 4), (-1, 0)):
        assert Refreshed(1, now_ms, waiting=True).due_ms(window) == due_ms * HOUR
    assert Refreshed(1, 7).due_ms(window) == MAX_MS
