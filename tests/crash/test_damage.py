"""A log that is damaged, or whose format is too new, is refused with an error that names its file.
No content is guessed, and every loss is reported."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laurels
from laurels import errors
from laurels.core import record
from laurels.stores.local.log.sqlite import SqliteLog
from tests.internals import local


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with laurels.open(str(tmp_path)) as lb:
        lb.create(laurels.Board("gifts"))
        for i in range(5):
            lb.submit("gifts", f"m{i}", i)
    return tmp_path


@contextmanager
def _editing(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        yield connection
        connection.commit()


def test_a_flipped_bit_in_an_entry_is_found(folder: Path) -> None:
    with _editing(folder) as log:
        body = bytearray(log.execute("SELECT body FROM log WHERE offset = 3").fetchone()[0])
        body[-3] ^= 1
        log.execute("UPDATE log SET body = ? WHERE offset = 3", (bytes(body),))
    with pytest.raises(errors.LogDamaged, match="entry 3"):
        laurels.open(str(folder))


def test_a_missing_entry_is_found(folder: Path) -> None:
    with _editing(folder) as log:
        log.execute("DELETE FROM log WHERE offset = 4")
    with pytest.raises(errors.LogDamaged, match="entry 4"):
        laurels.open(str(folder))


def test_a_file_that_is_not_a_log_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(errors.LogDamaged):
        laurels.open(str(tmp_path))
    assert (tmp_path / "log.db").read_bytes().startswith(b"not a database")


def test_a_newer_file_format_is_refused(folder: Path) -> None:
    with _editing(folder) as log:
        log.execute("UPDATE note SET value = '2' WHERE key = 'format'")
    with pytest.raises(errors.FormatTooNew, match="format 2"):
        laurels.open(str(folder))


def test_a_newer_entry_format_is_refused(folder: Path) -> None:
    with closing(SqliteLog(folder / "log.db")) as log:
        log.append(msgspec.msgpack.encode([7, [["comet", 1, 2]]]))
    with pytest.raises(errors.FormatTooNew, match="format 7"):
        laurels.open(str(folder))


def test_after_a_refused_open_the_folder_is_free(folder: Path) -> None:
    with _editing(folder) as log:
        log.execute("UPDATE note SET value = '2' WHERE key = 'format'")
    for _ in range(2):
        with pytest.raises(errors.FormatTooNew):
            laurels.open(str(folder))


def test_a_full_disk_refuses_the_write_and_counts_nothing(folder: Path) -> None:
    with laurels.open(str(folder)) as lb:
        before = list(lb.export("gifts")), lb.stats("gifts").offset
        log = local(lb)._log
        assert isinstance(log, SqliteLog)
        pages = log._writer.execute("PRAGMA page_count").fetchone()[0]
        log._writer.execute(f"PRAGMA max_page_count = {pages}")
        events = [(f"n{i}", i) for i in range(50_000)]
        with pytest.raises(errors.StorageFailed) as failed:
            lb.submit_many("gifts", events)
        assert failed.value.retryable
        assert (list(lb.export("gifts")), lb.stats("gifts").offset) == before
        log._writer.execute("PRAGMA max_page_count = 1073741823")
        assert lb.submit_many("gifts", events).applied == len(events)
        lb.check()


def test_a_commit_that_fails_after_logging_closes_the_store_and_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lb = laurels.open(str(folder))
    append = SqliteLog.append

    def broken_off(log: SqliteLog, body: bytes) -> int:
        append(log, body)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(SqliteLog, "append", broken_off)
        with pytest.raises(errors.Closed, match="aborted"):
            lb.submit("gifts", "late", 9)
    for use in (lambda: lb.top("gifts"), lambda: lb.submit("gifts", "m1", 1)):
        with pytest.raises(errors.Closed, match="aborted"):
            use()
    lb.close()
    with laurels.open(str(folder)) as again:
        assert again.top("gifts", limit=1).entries[0].member == "late"
        again.check()


class Broken:
    """A clock that returns whatever a test sets as `value`."""

    def __init__(self) -> None:
        self.value: Any = 1_795_219_200_000

    def now_ms(self) -> int:
        return self.value  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [1_795_219_200_001.5, 1_795_219_200_000_000_000, -(10**15), None])
def test_an_invalid_clock_is_refused_before_the_log_is_written(folder: Path, value: Any) -> None:
    clock = Broken()
    with laurels.open(str(folder), clock=clock) as lb:
        right, clock.value = clock.value, value
        for use in (lambda: lb.submit("gifts", "m1", 1), lambda: lb.top("gifts")) * 5:
            with pytest.raises(errors.InvalidClock):
                use()
        clock.value = right
        assert len(lb.top("gifts").entries) == 5
        clock.value = value
    with pytest.raises(errors.InvalidClock):
        laurels.open(str(folder), clock=clock)
    with laurels.open(str(folder)) as again:
        assert again.check().entries == 5


def test_a_write_that_cannot_be_logged_fails_no_other_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_one = record.encode_one

    def refuse_cid(entry: record.Record) -> msgspec.Raw:
        if isinstance(entry, record.Events) and b"cid" in entry.members:
            raise TypeError("this record cannot be encoded")
        return encode_one(entry)

    monkeypatch.setattr(record, "encode_one", refuse_cid)

    async def main() -> list[object]:
        async with laurels.open_async(folder) as lb:
            writes = [lb.submit("gifts", member, 1) for member in ("ann", "bob", "cid", "dee")]
            return list(await asyncio.gather(*writes, return_exceptions=True))

    answers = asyncio.run(main())
    assert [type(answer) for answer in answers] == [
        laurels.Receipt,
        laurels.Receipt,
        TypeError,
        laurels.Receipt,
    ]
    with laurels.open(folder) as again:
        assert again.check().entries == 8
