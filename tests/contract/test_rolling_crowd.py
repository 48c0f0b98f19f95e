"""Rolling windows with thousands of members: many small writes together prepare the ranking of the
next step."""

from __future__ import annotations

from random import Random

import pytest

import laurels
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.conftest import Scaled
from tests.counts import some

Counted = list[tuple[int, str, int]]


def ranking(counted: Counted, running: int, *, best: bool) -> list[tuple[str, int]]:
    """Return the ranking that a window of four hours should show, computed from all events so far:
    (hour, member, value)."""
    own: dict[str, list[int]] = {}
    for hour, member, value in counted:
        if running - 3 <= hour <= running:
            own.setdefault(member, []).append(value)
    totals = {member: max(values) if best else sum(values) for member, values in own.items()}
    return sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))


@pytest.mark.parametrize(
    ("op", "read_between"),
    some(2, [("sum", True), ("best", False), ("sum", False), ("best", True)]),
)
def test_a_window_of_thousands_of_members_is_exact(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    op: str,
    read_between: bool,
    scaled: Scaled,
) -> None:
    rng = Random(11)
    windows = ["rolling:4h/1h,grace=1h"]
    lb.create({"name": "b", "columns": [{"op": op}], "windows": windows, "tie": "member"})
    counted: Counted = []

    def assert_exact() -> None:
        exported = [(entry.member, entry.score) for entry in lb.export("b")]
        assert exported == ranking(counted, clock.now_ms() // HOUR, best=op == "best")

    for _ in range(scaled(4, 8)):
        for size in (1_500, 1, 1, 600, 1, 1):
            now_ms = clock.now_ms()
            late = [MINUTE * rng.choice([0, 0, 0, 33]) for _ in range(size)]
            events = [(f"m{rng.randrange(3_000)}", rng.randint(-9, 99), now_ms - ms) for ms in late]
            assert lb.submit_many("b", events).refused == 0
            counted += [(at_ms // HOUR, member, value) for member, value, at_ms in events]
            if read_between:
                assert_exact()
        clock.advance(rng.choice([1, 1, 1, 2]) * HOUR + 1)
        assert_exact()
    lb.check()
