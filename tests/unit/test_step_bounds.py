"""The bounds of a member's total in one step. If every step keeps to them, the total of a window
stays within the range of the column when steps leave."""

from collections import defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laurels.model.score import LIMIT, step_bounds


@pytest.mark.parametrize(
    ("low", "high", "steps", "bounds"),
    [
        (-LIMIT, LIMIT, 168, (-(LIMIT // 168), LIMIT // 168)),
        (-10, 10, 3, (-3, 3)),
        (-11, 29, 4, (-2, 7)),
        (-1, 1, 2, (0, 0)),
        (0, 100, 7, (0, 100)),
        (0, LIMIT, 7, (0, LIMIT // 7)),
        (5, 100, 7, (5, 100)),
        (-100, 0, 7, (-100, 0)),
        (-LIMIT, 0, 7, (-(LIMIT // 7), 0)),
        (-100, -5, 7, (-100, -5)),
        (0, 0, 2, (0, 0)),
    ],
)
def test_a_step_is_bounded_by_its_share_of_the_range(
    low: int, high: int, steps: int, bounds: tuple[int, int]
) -> None:
    assert step_bounds(low, high, steps) == bounds


SIDE = st.integers(0, 60) | st.integers(LIMIT - 60, LIMIT)
RANGES = st.tuples(SIDE, SIDE).flatmap(
    lambda ends: st.sampled_from(
        [(-ends[0], ends[1]), (min(ends), max(ends)), (-max(ends), -min(ends))]
    )
)
WRITES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(-40, 40), st.booleans()),
    max_size=60,
)
"""Strategy for writes. A write has the number of steps that pass before it, the number of steps by
which its event is late, and the value that it adds. The value is in units or, if the last field is
true, in fortieths of the range."""


def totals_as_steps_leave(
    low: int, high: int, steps: int, writes: list[tuple[int, int, int, bool]], bounded: bool
) -> list[int]:
    """Return the totals of a window after each accepted write and after each end of a step, while
    the window has events. A write is refused if it takes the total out of the range. With
    `bounded`, it is also refused if it takes the total of its step out of `step_bounds`."""
    first, last = step_bounds(low, high, steps) if bounded else (-(2**99), 2**99)
    tally: dict[int, int] = defaultdict(int)
    seen: list[int] = []
    running = 0
    for passed, late, units, share in [*writes, (steps, 0, 0, False)]:
        for _ in range(passed):
            running += 1
            tally.pop(running - steps, None)
            if tally:
                seen.append(sum(tally.values()))
        number = running - late % steps
        value = units * max(-low, high) // 40 if share else units
        total = sum(tally.values()) + value
        if first <= tally.get(number, 0) + value <= last and low <= total <= high:
            tally[number] += value
            seen.append(total)
    return seen


@given(RANGES, st.integers(2, 7), WRITES)
@example((-10, 10), 3, [(0, 0, -3, False), (1, 0, 3, False), (1, 0, 3, False)])
@example((0, 10), 3, [(0, 0, 3, False), (1, 0, 7, False), (1, 1, -7, False)])
def test_an_expiring_step_keeps_totals_in_range(
    ends: tuple[int, int], steps: int, writes: list[tuple[int, int, int, bool]]
) -> None:
    low, high = ends
    seen = totals_as_steps_leave(low, high, steps, writes, bounded=True)
    assert all(low <= total <= high for total in seen)


@pytest.mark.parametrize(
    ("ends", "writes"),
    [
        ((-10, 10), [(0, 0, 10, False), (1, 0, -20, False)]),
        ((-10, 10), [(0, 0, -10, False), (1, 0, 20, False)]),
        ((0, 10), [(0, 0, 5, False), (1, 0, -5, False)]),
        ((5, 10), [(0, 0, 6, False), (1, 0, -1, False)]),
        ((-10, 0), [(0, 0, -5, False), (1, 0, 5, False)]),
    ],
)
def test_without_step_bounds_an_expiring_step_leaves_totals_out_of_range(
    ends: tuple[int, int], writes: list[tuple[int, int, int, bool]]
) -> None:
    low, high = ends
    for bounded in (True, False):
        seen = totals_as_steps_leave(low, high, 2, writes, bounded)
        assert all(low <= total <= high for total in seen) == bounded


@given(RANGES, st.integers(2, 10_000))
def test_the_bounds_of_all_steps_together_use_the_range_fully(
    ends: tuple[int, int], steps: int
) -> None:
    low, high = ends
    first, last = step_bounds(low, high, steps)
    assert low <= first
    assert last <= high
    if low <= 0 <= high:
        assert first <= 0 <= last
        assert first * steps >= -LIMIT
        assert last * steps <= LIMIT
    if low < 0 < high:
        assert low <= first * steps
        assert last * steps <= high
        assert (first - 1) * steps < low
        assert (last + 1) * steps > high
