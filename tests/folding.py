"""Compute the state of a store by folding its log again, so that tests can compare it."""

from __future__ import annotations

from laurels.core import record as records
from laurels.core.fold import Fold
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.recovery.verify import compare


def folded(log: MemoryLog, until: int, now_ms: int) -> Fold:
    """Return the fold of the log up to an offset, advanced to `now_ms`."""
    fold = Fold(MemoryIndex(99))
    follow(fold, log, until)
    fold.advance_clock(now_ms)
    fold.advance_all()
    return fold


def follow(fold: Fold, log: MemoryLog, until: int) -> None:
    for offset, body in log.read(fold.offset):
        if offset > until:
            return
        fold.entry = offset
        for record in records.decode(body):
            fold.apply(record)
        fold.offset = offset


def assert_same(fold: Fold, log: MemoryLog, now_ms: int) -> None:
    """Assert that a fold equals the result of folding its log again, and that its structures pass
    their checks."""
    fold.advance_clock(now_ms)
    fold.advance_all()
    fold.index.check()
    compare(fold, folded(log, fold.offset, fold.now_ms))
