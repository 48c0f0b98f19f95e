"""The sections of a snapshot may be read in any order, or by several threads, with the same result
as one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, get_ident

import pytest

from laurels.errors import FormatTooNew, SnapshotDamaged, StorageFailed
from laurels.stores.local.snapshot.form import MAGIC, Section, write_sections
from laurels.stores.local.snapshot.reading import THREADS, Sections, side_by_side

SECTIONS = [(b"A", b"first"), (b"B", b""), (b"A", bytes(range(40))), (b"2", b"\x00" * 3)]
VERSION = range(len(MAGIC), len(MAGIC) + 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "it"
    with written.open("wb") as file:
        write_sections(file, SECTIONS)
    return written


def backwards(path: Path) -> list[Section]:
    """Read the sections in reverse order. Return them in their order in the file."""
    with closing(Sections(path)) as sections:
        bodies = [(place.kind, sections.body(place)) for place in sections.places[::-1]]
    return bodies[::-1]


def test_sections_are_read_in_any_order(path: Path) -> None:
    assert backwards(path) == SECTIONS
    with closing(Sections(path)) as sections:
        assert [place.length for place in sections.places] == [len(body) for _, body in SECTIONS]
        assert [p.begins[: p.length] for p in sections.places] == [b[:16] for _, b in SECTIONS]


def test_any_flipped_bit_is_detected(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            with pytest.raises((SnapshotDamaged, FormatTooNew)) as refused:
                backwards(path)
            assert place in VERSION or refused.type is SnapshotDamaged


def test_a_snapshot_truncated_anywhere_is_damaged(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(SnapshotDamaged, match="it ends before its end marker"):
            backwards(path)


def test_a_run_of_zeros_is_not_read_as_sections(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: VERSION.stop] + bytes(1 << 20) + whole[VERSION.stop :])
    with pytest.raises(SnapshotDamaged, match="not what was written"):
        Sections(path)


def test_a_missing_file_raises_storage_failed(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        Sections(tmp_path / "none")


def test_tasks_run_in_parallel_threads() -> None:
    started = Event()
    threads = set()

    def waits() -> Iterator[None]:
        threads.add(get_ident())
        assert started.wait(60)
        yield

    def starts() -> Iterator[None]:
        threads.add(get_ident())
        started.set()
        yield

    side_by_side([waits(), starts()])
    assert len(threads) == THREADS == 2
    side_by_side([])


@pytest.mark.parametrize("failing", range(5))
def test_an_error_in_one_task_ends_the_others(failing: int) -> None:
    failed = Event()

    def task(number: int) -> Iterator[None]:
        yield
        if number == failing:
            failed.set()
            raise ValueError(f"task {number}")
        if number > failing:
            assert failed.wait(60)
            while True:
                yield

    with pytest.raises(ValueError, match=f"task {failing}"):
        side_by_side([task(number) for number in range(5)])
