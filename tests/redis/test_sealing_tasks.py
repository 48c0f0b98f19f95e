"""Sealing in the background: a ledger that does not answer delays only the sealing of its own
boards."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import PeriodsUnsealed
from laurels.sql.final_writing import FinalWriter
from laurels.stores.redis import sealing, sealing_tasks
from laurels.stores.redis.index.closing import PeriodClosing
from laurels.stores.redis.ledgers import Ledger
from laurels.stores.redis.remote import opened_as
from tests.internals import remote
from tests.redis.test_closing import HOUR, AnyClock, Open, clock, create, periods, scores

__all__ = ["clock"]

SECONDS = 30
"""How long a ledger in these tests does not answer, unless the test lets it answer before."""


class Hanging:
    """Makes calls to the ledgers with these names wait until `answers` is set."""

    def __init__(self, names: set[str]) -> None:
        self.answers = threading.Event()
        self.begun = threading.Event()
        self.waiting = 0
        self._names = names
        self._run = Ledger._run

    def run(self, ledger: Ledger, *arguments: Any) -> Any:
        if ledger.name in self._names:
            self.waiting += 1
            self.begun.set()
            self.answers.wait(SECONDS)
            self.waiting -= 1
        return self._run(ledger, *arguments)


@contextmanager
def hanging(*names: str) -> Iterator[Hanging]:
    """Let ledgers hang within a context."""
    ledgers = Hanging(set(names))

    def run(ledger: Ledger, *arguments: Any) -> Any:
        return ledgers.run(ledger, *arguments)

    with patch.object(Ledger, "_run", run):
        try:
            yield ledgers
        finally:
            ledgers.answers.set()


@pytest.fixture(autouse=True)
def second_ledger(tmp_path: Any) -> Iterator[None]:
    url = f"sqlite:////{tmp_path / 'second.db'}"
    with patch.dict(os.environ, {"LAURELS_LEDGER_SECOND": url}):
        yield


def finish(lb: laurels.Leaderboards) -> None:
    """Wait until the sealing in the background ends."""

    async def wait() -> None:
        tasks = remote(lb)._sealing_tasks._tasks
        await asyncio.gather(*tasks.values())

    remote(lb).run(wait())


def test_a_board_past_its_time_with_a_ledger_that_hangs_delays_no_other_board(
    opened: Open, clock: AnyClock
) -> None:
    lb = opened()
    create(lb, ends=clock.now_ms() + 2 * HOUR, retain="1h")
    lb.create(laurels.Board("other", windows=["all", "hour:keep=1"]))
    lb.submit("b", "ann", 3)
    lb.submit("other", "ann", 3)
    clock.advance(30 * HOUR)
    with hanging("main") as ledger:
        assert lb.submit("other", "cid", 1).score == 1
        remote(lb).work(100)
        assert ledger.begun.wait(SECONDS)
        assert lb.submit("other", "cid", 1).score == 2
        lb.create(laurels.Board("new"))
        assert [each.name for each in lb.boards()] == ["new", "other"]
        assert ledger.waiting == 1
        waiting = remote(lb).run(remote(lb).figures(None)).unsealed
        assert [name for name, _ in waiting] == ["b"]
    finish(lb)
    assert remote(lb).run(remote(lb).figures(None)).unsealed == []
    assert "b" not in remote(lb)._catalog.registry.gone
    lb.create(laurels.Board("b"))


def test_a_store_that_is_closed_while_it_takes_the_lease_does_not_keep_it(
    opened: Open, clock: AnyClock
) -> None:
    """The server has given the lease, and its answer has not arrived when the store is closed."""
    one, other = opened(), opened()
    create(one)
    one.submit("b", "ann", 3)
    clock.advance(30 * HOUR)
    taken, take = threading.Event(), PeriodClosing.take_lease

    async def taking(closing: PeriodClosing, *arguments: Any) -> bool:
        given = await take(closing, *arguments)
        if not taken.is_set():
            taken.set()
            await asyncio.Event().wait()
        return given

    with patch.object(PeriodClosing, "take_lease", taking):
        remote(one).work(100)
        assert taken.wait(SECONDS)
        one.close()
    other.boards()
    index, board = remote(other)._catalog.index, opened_as(remote(other).named("b"))
    assert remote(other).run(index.take_lease(board, "another process", 0))


def test_the_name_of_a_board_past_its_time_is_free_when_its_periods_are_sealed(
    opened: Open, clock: AnyClock
) -> None:
    lb = opened()
    create(lb, ends=clock.now_ms() + 2 * HOUR, retain="1h")
    lb.submit("b", "ann", 3)
    clock.advance(30 * HOUR)
    with (
        hanging("main") as ledger,
        patch.object(sealing_tasks, "VERB_SECONDS", 0.01),
    ):
        with pytest.raises(PeriodsUnsealed):
            lb.create(laurels.Board("b"))
        assert ledger.begun.wait(SECONDS)
    lb.create(laurels.Board("b"))


def test_a_board_past_its_time_that_another_process_has_removed_is_forgotten(
    opened: Open, clock: AnyClock
) -> None:
    one, other = opened(), opened()
    create(one, ends=clock.now_ms() + 2 * HOUR, retain="1h")
    one.submit("b", "ann", 3)
    other.submit("b", "ann", 3)
    clock.advance(30 * HOUR)
    with patch.object(sealing_tasks.SealingTasks, "start"):
        remote(other).work(100)
    one.seal()
    remote(other).work(100)
    finish(other)
    assert remote(other)._catalog.registry.gone == {}
    assert remote(other)._sealing_tasks._failed == {}


def test_a_ledger_that_hangs_delays_no_other_ledger(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    lb.create(laurels.Board("c", windows=["hour:archive=forever"], ledger="second"))
    lb.submit("b", "ann", 3)
    lb.submit("c", "ann", 3)
    clock.advance(3 * HOUR)
    with hanging("main") as ledger:
        remote(lb).work(100)
        while not lb.archived("c"):
            remote(lb).work(100)
        assert ledger.waiting == 1
        assert [name for name, _ in remote(lb)._sealing_tasks.waiting()] == ["b"]
    lb.seal()
    assert scores(lb) == {"ann": 3}


def test_a_process_writes_a_period_once_whoever_asks_for_it(opened: Open, clock: AnyClock) -> None:
    lb = opened()
    create(lb)
    lb.submit_many("b", [(f"m{i}", i) for i in range(50)])
    clock.advance(HOUR)
    begun, begin = [], FinalWriter.begin

    def counted(*arguments: Any) -> Any:
        begun.append(arguments)
        assert len(begun) < 100, "the writers remove what the others have begun"
        return begin(*arguments)

    async def seal_twice() -> tuple[int, int]:
        store = remote(lb)._sealing
        return await asyncio.gather(store.seal_board("b"), store.seal_board("b"))

    state = remote(lb)._catalog.boards.named("b")
    remote(lb).run(remote(lb)._sealing.close(state))
    with patch.object(FinalWriter, "begin", counted), patch.object(sealing, "ROWS", 1):
        assert sum(remote(lb).run(seal_twice())) == 1
    assert len(begun) == 1
    assert len(periods(lb, "seal")) == 1
