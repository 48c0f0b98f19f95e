"""The background work of stores in the random tests. It is done only when a test does it, so that
nothing depends on the speed of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from laurels.errors import Closed
from laurels.stores.intake.pacing import Paced
from laurels.stores.local.committing import LocalCommits
from laurels.stores.local.sealing_thread import SealingThread
from laurels.stores.redis.sealing_tasks import SealingTasks
from laurels.stores.redis.state import RedisState

ServerStore = LocalCommits | RedisState


class Background:
    """The stores of servers, whose event loops would do the work that falls due as time passes."""

    def __init__(self) -> None:
        self._stores: list[ServerStore] = []

    def start(self, store: ServerStore) -> None:
        """Begin to do the due work of a store, instead of a task of its event loop."""
        store.paced = True
        self._stores.append(store)

    def work(self, rng: Random) -> None:
        """Do a share of the due work of some stores."""
        for store in self._open_stores():
            if rng.random() < 0.5:
                store.pace(rng.choice([1, 3, 4096]))

    def emit_due(self) -> None:
        """Emit all payouts that are due. Stores without an event loop, and index servers, do this
        when the list of due payouts is read."""
        for store in self._open_stores():
            if isinstance(store, LocalCommits):
                store.emit_due()

    def _open_stores(self) -> list[ServerStore]:
        """Forget the stores that were closed, and return the others."""
        self._stores = [store for store in self._stores if is_open(store)]
        return self._stores


def is_open(store: ServerStore) -> bool:
    """Return whether a store was not closed."""
    try:
        store.ensure_usable()
    except Closed:
        return False
    return True


@contextmanager
def worked_by_hand() -> Iterator[Background]:
    """Within this context, nothing is done in the background. Periods are sealed only by the rule
    that seals."""
    background = Background()

    def start(store: ServerStore) -> None:
        background.start(store)

    with (
        patch.object(SealingThread, "start"),
        patch.object(SealingTasks, "start"),
        patch.object(Paced, "start", start),
    ):
        yield background
