"""A rolling window has the same content after a restart or a rebuild at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from msgspec.structs import replace

import laurels
from laurels.errors import PeriodExpired
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.conftest import Scaled
from tests.contract.deployments import Deployment
from tests.contract.reading import members
from tests.counts import some

BOARDS = (
    laurels.Board(
        "sum",
        columns=[laurels.Column("points", min=-900, max=900), laurels.Column("level", op="last")],
        windows=["all", "r=rolling:3h/1h,grace=2h", "long=rolling:50h/1h", "week"],
        dedupe="2h",
    ),
    laurels.Board(
        "best",
        columns=[laurels.Column("laps", op="best"), laurels.Column("s", op="best", order="asc")],
        windows=["r=rolling:8h/2h,grace=6h", "quick=rolling:5m/1m", "days=rolling:2d/1d"],
        tie_resolution="1s",
        dedupe="6h",
        rank="dense",
        tz="America/St_Johns",
    ),
)


@pytest.fixture
def unbroken(clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    """Return another deployment with the same clock, which is never closed."""
    with laurels.open("memory:", clock=clock) as other:
        yield other


def random_act(rng: Random, clock: laurels.ManualClock) -> Callable[[laurels.Leaderboards], object]:
    """Return a random operation, which can be done on several deployments."""
    now_ms = clock.now_ms()
    name = rng.choice(["sum", "best"])
    if rng.random() < 0.1:
        member = f"m{rng.randrange(40)}"
        return lambda lb: lb.remove(name, member)
    events = []
    for _ in range(rng.choice([1, 1, 3, 60])):
        ago_ms = rng.choice([0, 0, MINUTE, HOUR, 2 * HOUR, 5 * HOUR])
        values = (rng.randint(-3, 9), rng.randint(0, 3))
        events.append((f"m{rng.randrange(40)}", values, now_ms - ago_ms))
    return lambda lb: [comparable(each) for each in lb.submit_many(name, events, ranks=True)]


def comparable(receipt: laurels.Receipt) -> laurels.Receipt:
    """Return a receipt without the fields that differ between deployments: an offset may count the
    events of one board or of all boards, and a service quotes values in messages as JSON."""
    message = receipt.message and receipt.message.replace("'", '"')
    return replace(receipt, offset=0, message=message)


@pytest.mark.parametrize("seed", some(1, range(4)))
def test_a_restart_at_any_point_changes_nothing(
    lasting: Deployment,
    unbroken: laurels.Leaderboards,
    clock: laurels.ManualClock,
    seed: int,
    scaled: Scaled,
) -> None:
    rng = Random(seed)
    for board in BOARDS:
        lasting.lb.create(board)
        unbroken.create(board)
    for _ in range(scaled(25, 45)):
        clock.advance(rng.choice([0, 1, 20_000, MINUTE, 10 * MINUTE, HOUR, 3 * HOUR]))
        if rng.random() < 0.5:
            lasting.reopen()
        act = random_act(rng, clock)
        answer, expected = act(lasting.lb), act(unbroken)
        assert answer == expected
        if rng.random() < 0.5:
            lasting.reopen()
        if rng.random() < 0.3:
            assert everything(lasting.lb) == everything(unbroken)
        if rng.random() < 0.1:
            clock.advance(60 * HOUR)
    assert everything(lasting.lb) == everything(unbroken)
    assert any(everything(unbroken).values())
    lasting.lb.check()


def test_a_rebuild_at_any_point_changes_nothing(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    rng = Random(5)
    for board in BOARDS:
        lb.create(board)
    for i in range(scaled(16, 40)):
        clock.advance(rng.choice([1, 20_000, 10 * MINUTE, HOUR, 3 * HOUR]))
        random_act(rng, clock)(lb)
        if i % 4 == 0:
            before = everything(lb)
            report = lb.check()
            lb.rebuild()
            assert everything(lb) == before
            assert lb.check() == report
            assert report.boards == 2


def test_a_cursor_of_an_ended_step_is_refused_after_a_restart(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lasting.lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"]))
    lasting.lb.submit_many("b", [("ann", 2), ("bob", 1)])
    cursor = lasting.lb.top("b", limit=1).next
    assert members(lasting.reopen().top("b", after=cursor)) == ["bob"]
    clock.advance(HOUR)
    with pytest.raises(PeriodExpired):
        lasting.reopen().top("b", after=cursor)
