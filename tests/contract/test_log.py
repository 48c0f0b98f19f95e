"""The guarantees of a log, for every implementation."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from laurels import errors
from laurels.stores.local.log.base import Log
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.log.sqlite import SqliteLog

MAKERS: dict[str, Callable[[Path], Log]] = {
    "memory": lambda _: MemoryLog(),
    "sqlite": lambda path: SqliteLog(path / "log.db"),
}


@pytest.fixture(params=MAKERS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made = MAKERS[request.param](tmp_path)
    yield made
    made.close()


def test_offsets_count_up_from_one(log: Log) -> None:
    assert log.offset == 0
    assert [log.append(body) for body in (b"a", b"", b"c" * 100_000)] == [1, 2, 3]
    assert log.offset == 3


def test_entries_are_read_after_an_offset_in_order(log: Log) -> None:
    bodies = [bytes([i]) * i for i in range(250)]
    for body in bodies:
        log.append(body)
    assert [body for _, body in log.read()] == bodies
    assert list(log.read(248)) == [(249, bodies[248]), (250, bodies[249])]
    assert list(log.read(250)) == []


def test_a_trimmed_log_reports_its_start_and_accepts_entries(log: Log) -> None:
    for body in (b"a", b"b", b"c"):
        log.append(body)
    log.trim(2)
    assert list(log.read(2)) == [(3, b"c")]
    with pytest.raises(errors.LogDamaged):
        list(log.read(1))
    log.trim(3)
    assert log.offset == 3
    assert list(log.read(2)) == [(3, b"c")]
    assert log.append(b"d") == 4


def test_notes_are_kept_and_replaced(log: Log) -> None:
    assert log.note("clock") is None
    log.set_note("clock", "system")
    log.set_note("clock", "event")
    assert log.note("clock") == "event"


def test_the_size_of_a_log_grows_with_its_entries(log: Log) -> None:
    before = log.nbytes()
    log.append(b"x" * 100_000)
    assert log.nbytes() >= before + 100_000


def test_the_write_ahead_file_stays_bounded(tmp_path: Path) -> None:
    """The write-ahead file stays below 68 MiB, even after many writes. A thread checkpoints the
    file; if the thread is late, a commit does so at 64 MiB. After a checkpoint, the next commit
    starts again at the beginning of the file."""
    log = SqliteLog(tmp_path / "log.db")
    body = bytes(1 << 20)
    largest = 0
    for _ in range(160):
        log.append(body)
        largest = max(largest, (tmp_path / "log.db-wal").stat().st_size)
    assert [offset for offset, _ in log.read()] == list(range(1, 161))
    log.close()
    assert largest < 68 << 20
