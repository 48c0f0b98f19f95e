"""Fixtures that open a fresh deployment of every implementation, with a clock that only tests
move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

import laurels
from tests.calendar_by_scanning import utc_ms
from tests.contract.deployments import IMPLEMENTATIONS, LASTING, Deployment, Implementation
from tests.redis.writing import patient
from tests.repeats import Member, mark_repeats

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))


@pytest.fixture(autouse=True, scope="module")
def patient_calls() -> Iterator[None]:
    """Let calls to an index server take as long as they need on a busy machine."""
    with patient():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the items that `make test` leaves out, before `tests/conftest.py` selects the items to
    run."""
    if not config.getoption("all_stores"):
        here = Path(__file__).parent
        mark_repeats((item for item in items if item.path.parent == here), _member_of, share=0.25)


def _member_of(_name: str, value: object) -> Member | None:
    return Member(value.name, value.group) if isinstance(value, Implementation) else None


@pytest.fixture
def clock() -> laurels.ManualClock:
    """Return a clock that is set to 15:30 UTC on Friday, 20 November 2026."""
    return laurels.ManualClock(NOW_MS)


def _suited(request: pytest.FixtureRequest) -> Implementation:
    """Return the implementation of a test. A test that needs a board in one shard is skipped on the
    implementation that divides boards into shards. It still runs on the others, which include a
    cluster whose boards are not divided."""
    implementation: Implementation = request.param
    if implementation.divided and request.node.get_closest_marker("one_shard"):
        pytest.skip("an all-or-nothing batch of several members needs a board in one shard")
    return implementation


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    return _suited(request)


@pytest.fixture(params=LASTING, ids=lambda implementation: implementation.name)
def lasting(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    """Return a deployment that can be closed and opened again."""
    with Deployment(_suited(request), tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture(
    params=[each for each in LASTING if each.exclusive],
    ids=lambda implementation: implementation.name,
)
def exclusive(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    """Return a deployment in a folder that no other process may open at the same time."""
    with Deployment(_suited(request), tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def deployment(
    implementation: Implementation, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    with Deployment(implementation, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def lb(deployment: Deployment) -> laurels.Leaderboards:
    """Return the leaderboards of a fresh deployment."""
    return deployment.lb


@pytest.fixture
def opened_at(
    implementation: Implementation, tmp_path: Path
) -> Iterator[Callable[[int], laurels.Leaderboards]]:
    """Return a function that opens a fresh deployment whose clock shows a given time:
    `opened_at(now_ms)`."""
    with ExitStack() as stack:
        yield (
            lambda now_ms: (
                stack.enter_context(
                    Deployment(implementation, tmp_path, laurels.ManualClock(now_ms))
                ).lb
            )
        )


@pytest.fixture
def rooms(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    """Return a store with a board `b` that has three scopes: all events, by room, and by zone and
    room. The rooms are ranked, too."""
    scopes = [[], ["room"], ["zone", "room"]]
    lb.create(laurels.Board("b", scopes=scopes, rank_by="room", windows=["all", "day"]))
    return lb
