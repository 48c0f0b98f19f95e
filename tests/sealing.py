"""Control over when periods are sealed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from laurels.stores.local.sealing_thread import SealingThread
from laurels.stores.redis.sealing_tasks import SealingTasks


@contextmanager
def sealed_by_calls() -> Iterator[None]:
    """In this context, stores of this process seal periods only when they are called to."""
    with patch.object(SealingThread, "start"), patch.object(SealingTasks, "start"):
        yield
