"""Snapshots of an open store: automatic snapshots, snapshots that fail because the disk is full,
and snapshots that are interrupted because the store is closed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import laurels
from laurels import errors
from laurels.core.stats import Kept
from tests.internals import local

TIMEOUT = 60
EVENTS = [(f"n{i}", i) for i in range(5_000)]


@pytest.fixture
def lb(tmp_path: Path) -> Iterator[laurels.Leaderboards]:
    with laurels.open(tmp_path) as opened:
        opened.create(laurels.Board("gifts", windows=["all", "day", "3h=rolling:3h/1h"]))
        for i in range(20):
            opened.submit("gifts", f"m{i}", i)
        yield opened


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("snapshot*"))


def assert_opens_again(folder: Path, offset: int | None) -> None:
    """Assert that the folder opens from the snapshot with this offset, and has all 20 members."""
    with laurels.open(folder) as again:
        assert again.stats().kept.snapshot_offset == offset
        assert again.top("gifts").total == 20
        again.check()


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_store_in_memory_has_no_snapshots() -> None:
    with laurels.open("memory:") as memory, pytest.raises(errors.NothingToBackUp):
        memory.snapshot()


def test_a_failed_snapshot_loses_nothing(
    lb: laurels.Leaderboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lb.snapshot()
    before = names(tmp_path)
    lb.submit("gifts", "m1", 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(errors.StorageFailed, match="No space left"):
            lb.snapshot()
    assert (lb.stats().kept.snapshot_offset, names(tmp_path)) == (21, before)
    lb.submit("gifts", "m1", 1)
    assert lb.snapshot() == 23
    lb.check()


def settled(lb: laurels.Leaderboards, condition: Callable[[Kept], bool]) -> Kept:
    """Wait until the statistics of automatic snapshots fulfil the condition. Return them."""
    pause = threading.Event()
    for _ in range(TIMEOUT * 1_000):
        if condition(kept := lb.stats().kept):
            return kept
        pause.wait(0.001)
    pytest.fail("the snapshot did not fulfil the condition")


def test_a_snapshot_is_taken_automatically_when_the_log_has_grown(
    lb: laurels.Leaderboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.local.snapshot.taking.MIN_LOG_BYTES", 30_000)
    lb.submit("gifts", "m1", 1)
    assert not local(lb)._snapshot_scheduler.is_due()
    lb.submit_many("gifts", EVENTS)
    kept = settled(lb, lambda kept: kept.snapshot_offset is not None)
    assert (kept.snapshot_offset, kept.failure) == (23, None)
    assert not local(lb)._snapshot_scheduler.is_due()
    expected = list(lb.export("gifts"))
    lb.close()
    with laurels.open(tmp_path) as again:
        assert again.stats().kept.snapshot_offset == 23
        assert list(again.export("gifts")) == expected
        again.check()


def test_a_failed_automatic_snapshot_is_retried_when_the_log_has_grown(
    lb: laurels.Leaderboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.local.snapshot.taking.MIN_LOG_BYTES", 30_000)
    tries: list[int] = []

    def refuse(descriptor: int) -> None:
        tries.append(descriptor)
        full()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        lb.submit_many("gifts", EVENTS)
        kept = settled(lb, lambda kept: kept.failure is not None)
        assert (kept.snapshot_offset, names(tmp_path)) == (None, [])
        assert "No space left" in (kept.failure or "")
        for _ in range(2):  # the second write waits for the work that follows the first one
            lb.submit("gifts", "m1", 1)
        local(lb)._snapshot_scheduler.wait()
        assert len(tries) == 1
        assert lb.stats().kept.failure == kept.failure
    lb.submit_many("gifts", EVENTS)
    kept = settled(lb, lambda kept: kept.failure is None)
    assert kept.snapshot_offset == 25
    lb.check()


class Gate:
    """A function that blocks its thread until the test releases it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, *_: object) -> None:
        self.reached.set()
        assert self.open.wait(TIMEOUT)


def closed_during_a_snapshot(lb: laurels.Leaderboards, gate: Gate) -> list[object]:
    """Close the store while a snapshot is blocked at the gate. Return the snapshot's offset or
    error code."""
    became: list[object] = []

    def snapshot() -> None:
        try:
            became.append(lb.snapshot())
        except errors.LaurelsError as error:
            became.append(error.code)

    taking = threading.Thread(target=snapshot)
    taking.start()
    assert gate.reached.wait(TIMEOUT)
    closing = threading.Thread(target=lb.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    assert local(lb)._unusable_reason is not None
    gate.open.set()
    for thread in (taking, closing):
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    return became


def test_closing_ends_a_snapshot_that_is_being_copied(
    lb: laurels.Leaderboards, tmp_path: Path
) -> None:
    gate = Gate()
    local(lb)._rest = gate
    assert closed_during_a_snapshot(lb, gate) == ["closed"]
    assert names(tmp_path) == []
    assert_opens_again(tmp_path, None)


def test_closing_waits_for_a_snapshot_that_is_being_flushed(
    lb: laurels.Leaderboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    fsync = os.fsync

    def held_up(descriptor: int) -> None:
        gate()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", held_up)
    assert closed_during_a_snapshot(lb, gate) in ([21], ["closed"])
    assert names(tmp_path) == ["snapshot-00000000000000000021.laurels"]
    assert_opens_again(tmp_path, 21)


def total(lb: laurels.Leaderboards) -> int:
    return sum(entry.score for entry in lb.export("gifts") if isinstance(entry.score, int))


def test_snapshots_during_writes_lose_nothing(
    lb: laurels.Leaderboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laurels.stores.local.index.copying.CHUNK", 16)
    monkeypatch.setattr("laurels.stores.local.index.copying.MAX_LEFT", 8)
    ended = threading.Event()
    counts = [0, 0, 0]

    begun = threading.Barrier(4, timeout=TIMEOUT)

    def write(thread: int) -> None:
        while not ended.is_set():
            lb.submit("gifts", f"m{counts[thread] % 20}", 1, id=f"{thread}-{counts[thread]}")
            counts[thread] += 1
            if counts[thread] == 1:
                begun.wait()

    before = total(lb)
    threads = [threading.Thread(target=write, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    taken = [lb.snapshot() for _ in range(6)]
    ended.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert taken == sorted(taken)
    assert 21 < taken[0] < taken[-1]
    lb.close()
    with laurels.open(tmp_path) as again:
        assert again.stats().kept.snapshot_offset == taken[-1]
        assert again.stats().kept.log_from == taken[-2] + 1
        assert total(again) == before + sum(counts)
        assert again.stats("gifts").remembered == sum(counts)
        again.check()
