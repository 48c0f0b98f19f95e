"""Random episodes on an index server whose clock leaps, whose ledger fails, and whose processes
restart: nothing closes twice or early, and every counted event is in exactly one sealed period."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.sinks import TargetUnavailable
from laurels.stores.redis.ledgers import Ledger
from tests.counts import some
from tests.internals import remote
from tests.redis.test_closing import HOUR, AnyClock, Open, clock, create, recorded

__all__ = ["clock"]

MINUTE = 60_000
GRACE = 5 * MINUTE
STEPS = 60


class Episode:
    """Two processes, and the events that were counted in each hour."""

    def __init__(self, opened: Open, clock: AnyClock, rng: Random) -> None:
        self._open = opened
        self.clock = clock
        self.rng = rng
        self.stores = [opened(), opened()]
        self.counted: dict[int, Counter[str]] = {}
        self.ledger_works = True
        create(self.stores[0], "all", "hour:keep=1,archive=forever", scopes=[[], ["room"]])

    @property
    def lb(self) -> laurels.Leaderboards:
        return self.rng.choice(self.stores)

    def submit(self) -> None:
        """Submit an event of the current time, or of an earlier time, which may be late for its
        hour."""
        member, lb = f"m{self.rng.randrange(5)}", self.lb
        at_ms = remote(lb)._catalog.now()
        at_ms -= self.rng.choice([0, 0, 1, GRACE, HOUR // 2, 3 * HOUR])
        receipt = lb.submit("b", member, 1, at=at_ms, labels={"room": "1"})
        if receipt.status == "applied" and "hour" not in receipt.refused_windows:
            self.counted.setdefault(at_ms // HOUR * HOUR, Counter())[member] += 1

    def leap(self) -> None:
        """Let the clock leap by up to ten hours, forwards or backwards."""
        leaps = [1, GRACE, HOUR, HOUR + GRACE, 10 * HOUR + 1, -HOUR, -10 * HOUR]
        self.clock.set(self.clock.now_ms() + self.rng.choice(leaps))

    def work(self) -> None:
        remote(self.lb).work(1_000)

    def seal(self) -> None:
        try:
            self.lb.seal()
        except LedgerUnavailable:
            assert not self.ledger_works

    def fail(self) -> None:
        """Let the ledger fail, or work again."""
        self.ledger_works = not self.ledger_works

    def restart(self) -> None:
        i = self.rng.randrange(len(self.stores))
        self.stores[i].close()
        self.stores[i] = self._open()

    def read(self) -> None:
        for period in self.lb.periods("b", "hour")[1:]:
            if period.state != "sealed" or self.ledger_works:
                page = self.lb.top("b", window="hour", period=period.label)
                expected = self.counted.get(period.start_ms or 0, Counter())
                assert {entry.member: entry.score for entry in page} == expected

    def run(self, ledger: Ledger, *arguments: Any) -> Any:
        if not self.ledger_works:
            raise TargetUnavailable("it is down")
        return RUN(ledger, *arguments)


RUN = Ledger._run
ACTIONS = (
    *([Episode.submit] * 8),
    *([Episode.leap] * 3),
    *([Episode.work] * 3),
    *([Episode.seal] * 2),
    Episode.fail,
    Episode.restart,
    Episode.read,
)


@pytest.mark.parametrize("seed", some(3, range(40)))
def test_each_event_is_in_one_sealed_period(opened: Open, clock: AnyClock, seed: int) -> None:
    rng = Random(seed)
    episode = Episode(opened, clock, rng)

    def run(ledger: Ledger, *arguments: Any) -> Any:
        return episode.run(ledger, *arguments)

    with patch.object(Ledger, "_run", run):
        for _ in range(STEPS):
            rng.choice(ACTIONS)(episode)
        episode.ledger_works = True
        clock.set(max(remote(each)._catalog.now() for each in episode.stores) + 20 * HOUR)
        lb = episode.lb
        lb.seal()
    closes, seals = recorded(lb, "close"), recorded(lb, "seal")
    hour = lb.get("b").rules().windows["hour"]
    spans = [hour.period(each.data["period"]) for each in closes]
    starts = [span.start_ms for span in spans]
    assert starts == sorted({*starts}) == sorted(episode.counted)
    assert sorted(hour.period(each.data["period"]).start_ms for each in seals) == starts
    for close, span in zip(closes, spans, strict=True):
        assert close.at_ms > span.end_ms + GRACE
        page = lb.top("b", window="hour", period=span.label)
        assert {entry.member: entry.score for entry in page} == episode.counted[span.start_ms]
        assert lb.verify("b", window="hour", period=span.label).verified
    lb.check()
