"""Hot keys are found among many keys within ten seconds. If all keys are requested equally often,
none is hot."""

from __future__ import annotations

from itertools import accumulate
from random import Random

import pytest

from laurels.server.answers.hot_keys import LEAST, SECONDS, SHARE, HotKeys

KEYS = 100_000
QUERIES = 200_000


class Seconds:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counted(keys: list[int], clock: Seconds) -> HotKeys[str]:
    hot: HotKeys[str] = HotKeys(clock)
    for i, key in enumerate(keys):
        clock.now = SECONDS * i / (len(keys) + 1)
        hot.add(str(key))
    return hot


@pytest.mark.parametrize("exponent", [1.0, 1.2])
def test_hot_keys_of_zipf_traffic_are_found_within_one_window(exponent: float) -> None:
    weights = list(accumulate(1 / (rank + 1) ** exponent for rank in range(KEYS)))
    keys = Random(1).choices(range(KEYS), cum_weights=weights, k=QUERIES)
    _, hot = counted(keys, Seconds()).hot()
    shares = [1 / (rank + 1) ** exponent / weights[-1] for rank in range(KEYS)]
    ranks = {int(each.key) for each in hot}
    assert {rank for rank, share in enumerate(shares) if share > 1.2 * SHARE} <= ranks
    assert ranks <= {rank for rank, share in enumerate(shares) if share > 0.8 * SHARE}
    for each in hot:
        true = keys.count(int(each.key))
        assert true <= each.count <= 1.05 * true


def test_no_key_is_hot_in_uniform_traffic() -> None:
    random = Random(2)
    keys = [random.randrange(KEYS) for _ in range(QUERIES)]
    assert counted(keys, Seconds()).hot()[1] == []


def test_few_queries_make_no_key_hot() -> None:
    assert counted([1] * (LEAST - 1), Seconds()).hot()[1] == []
    assert len(counted([1] * LEAST, Seconds()).hot()[1]) == 1


def test_a_key_is_forgotten_after_two_windows() -> None:
    clock = Seconds()
    hot = counted([1] * LEAST, clock)
    clock.now = 1.5 * SECONDS
    seconds, keys = hot.hot()
    assert (seconds, [each.count for each in keys]) == (1.5 * SECONDS, [LEAST])
    hot.add("2")
    clock.now = 2 * SECONDS
    assert hot.hot() == (SECONDS, [])
    clock.now = 100 * SECONDS
    assert hot.hot()[1] == []
