"""If a copy from or to an index server or a service is killed at any moment, the target has the
whole board with its archive and payouts, or no board. The next copy completes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import UnknownBoard
from laurels.flows.copying.copying import copy_board
from tests.conftest import Scaled
from tests.internals import copies_of
from tests.redis.servers import Server
from tests.serving import Served

from .seasons import SEASONS, START_MS, play_seasons, seasons
from .test_kills import copy_until_killed

PAIRS = [("folder", "index"), ("index", "http"), ("http", "index"), ("index", "index")]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@contextmanager
def place(
    kind: str, name: str, folder: Path, server: Server, clock: laurels.Clock
) -> Iterator[str]:
    """Provide boards of a kind, and return their URL."""
    if kind == "http":
        served = Served(folder / name, clock)
        try:
            yield served.url
        finally:
            served.close()
    elif kind == "index":
        yield f"{server.url}?prefix={name}:"
    else:
        yield str(folder / name)


@pytest.mark.parametrize("pair", PAIRS, ids="-to-".join)
def test_a_killed_copy_is_absent_or_whole_and_the_next_one_is_whole(
    pair: tuple[str, str], tmp_path: Path, server: Server, scaled: Scaled
) -> None:
    random, clock = Random("-".join(pair)), laurels.ManualClock(START_MS)
    server.call("FLUSHALL")
    ledger = f"sqlite:////{tmp_path}/ledger.db"
    with (
        patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": ledger}),
        place(pair[0], "source", tmp_path, server, clock) as source,
    ):
        with opened(source, clock) as lb:
            play_seasons(lb, clock)
            expected = seasons(lb, SEASONS.name)
        for run in range(scaled(1, 40)):
            with place(pair[1], f"target{run}", tmp_path, server, clock) as target:
                for _ in range(random.randint(1, 3)):
                    lines, seconds = random.choice([1, 2, 3, 4, 99]), random.random() / 5
                    done = copy_until_killed(source, target, clock.now_ms(), lines, seconds)
                    with opened(target, clock) as lb:
                        try:
                            found = seasons(lb, SEASONS.name)
                        except UnknownBoard:
                            assert not done
                            assert lb.due_payouts().payouts == []
                        else:
                            assert found == expected
                with opened(source, clock) as own, opened(target, clock) as lb:
                    again = copy_board(copies_of(own), copies_of(lb), SEASONS.name)
                    assert again.compared.differences == []
                    assert seasons(lb, SEASONS.name) == expected
                    lb.check()


def opened(url: str, clock: laurels.Clock) -> laurels.Leaderboards:
    """Open boards. Those of a service have the clock of the service."""
    return laurels.open(url, clock=None if url.startswith("http") else clock)
