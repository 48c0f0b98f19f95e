"""`settle` on an index server while other clients write, so that its requests may see different
states."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

import laurels
from tests.conftest import Scaled
from tests.contract.deployments import IMPLEMENTATIONS, Deployment

SPLIT = {
    "list": [
        {"name": "gold", "ranks": [1, 12], "amount": "1.00", "scale": 2},
        {"name": "half", "percent": 100, "amount": "0.01", "scale": 2},
    ],
    "ties": "split",
}
STORES = [each for each in IMPLEMENTATIONS if each.name in ("redis", "cluster-shards")]


@pytest.mark.parametrize("implementation", STORES, ids=lambda each: each.name)
def test_settle_answers_while_the_ranking_changes(
    implementation: Any, tmp_path: Any, scaled: Scaled
) -> None:
    clock = laurels.ManualClock(1_795_000_000_000)
    with Deployment(implementation, tmp_path, clock) as deployment:
        window = {"type": "day", "prizes": SPLIT}
        columns = [laurels.Column(op="last")]
        deployment.lb.create(
            laurels.Board("b", ledger="main", tie="member", columns=columns, windows=[window])
        )
        deployment.lb.submit_many("b", [(f"m{i}", i % 3) for i in range(12)])
        done = Event()
        writer = Thread(target=_write, args=(deployment, done))
        writer.start()
        try:
            for _ in range(scaled(60, 2_000)):
                settlement = deployment.lb.settle("b", limit=5)
                for award in settlement.awards:
                    assert award.amount is not None
                    assert Decimal(award.amount) > 0
        finally:
            done.set()
            writer.join()


def _write(deployment: Deployment, done: Event) -> None:
    """Change, add and remove members until `done` is set."""
    random = Random("settle")
    with deployment.open_beside() as lb:
        while not done.is_set():
            member = f"m{random.randrange(12)}"
            lb.submit("b", member, random.randrange(3))
            lb.remove("b", member)
