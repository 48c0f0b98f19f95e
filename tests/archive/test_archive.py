"""An archive has each period whole or not at all, and no damage becomes an answer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from laurels.errors import ArchiveDamaged, FormatTooNew, StorageFailed
from laurels.stores.local.archive import archive as archives
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import FolderSegments, MemorySegments, Segments
from laurels.stores.local.archive.ranking_form import FrozenRanking
from laurels.stores.local.archive.segment import PeriodKey, WrittenPeriod

from .standings import KEY, Row, frozen, random_secret, rows_of

ROWS = rows_of(700, 1)


@pytest.fixture(params=["folder", "memory"])
def segments(request: pytest.FixtureRequest, tmp_path: Path) -> Segments:
    return FolderSegments(tmp_path / "archive") if request.param == "folder" else MemorySegments()


def key(number: int, revision: int = 0) -> PeriodKey:
    return PeriodKey("uid", "day", number, revision)


def write(archive: Archive, *numbers: int, rows: list[Row] = ROWS) -> list[WrittenPeriod]:
    return archive.write([(key(number), [frozen(rows)]) for number in numbers])


def listed(archive: Archive, of: PeriodKey) -> list[str]:
    period = archive.open(of)
    assert period is not None
    assert period.computed_digest() == period.record.digest
    ranking = period.ranking("")
    assert ranking is not None
    return ranking.slice(0, 10_000).members


MEMBERS = [row.member.decode() for row in ROWS]


def test_what_was_written_is_there_after_the_archive_was_opened_again(segments: Segments) -> None:
    archive = Archive(segments, random_secret())
    [first, second] = write(archive, 1, 2)
    assert first.entries == second.entries == 700
    assert first.digest != second.digest, "each period has salts of its own"
    [third] = write(archive, 3)
    again = Archive(segments, random_secret(2))
    assert again.periods() == [key(1), key(2), key(3)]
    for number, written in [(1, first), (2, second), (3, third)]:
        assert listed(again, key(number)) == MEMBERS
        period = again.open(key(number))
        assert period is not None
        assert (period.record.entries, period.record.digest) == (written.entries, written.digest)
    assert again.open(key(4)) is None
    assert key(1) in again
    assert key(4) not in again


def test_a_period_without_rankings_is_kept(segments: Segments) -> None:
    [written] = Archive(segments, random_secret()).write([(KEY, [])])
    period = Archive(segments, random_secret()).open(KEY)
    assert period is not None
    assert period.ranking("") is None
    assert (period.record.entries, period.computed_digest()) == (0, written.digest)


def test_a_period_that_is_written_again_is_replaced(segments: Segments) -> None:
    archive = Archive(segments, random_secret())
    write(archive, 1, 2)
    other = rows_of(10, 9)
    write(archive, 1, rows=other)
    for opened in (archive, Archive(segments, random_secret())):
        assert listed(opened, key(1)) == [row.member.decode() for row in other]
        assert listed(opened, key(2)) == MEMBERS


def test_dropped_periods_are_gone_and_their_space_is_freed(segments: Segments) -> None:
    archive = Archive(segments, random_secret())
    write(archive, *range(1, 6))
    archive.drop([key(number) for number in range(1, 5)])
    assert archive.periods() == [key(5)]
    assert archive.open(key(1)) is None
    archive.drop([key(5), key(99)])
    write(archive, 6)
    assert len(segments.numbers()) == 1
    assert Archive(segments, random_secret()).periods() == [key(6)]


def test_a_large_segment_is_written_anew_once_most_of_it_is_dropped(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "SMALL_BYTES", 0)
    archive = Archive(segments, random_secret())
    write(archive, *range(10))
    digest = _digest(archive, 9)
    archive.drop([key(number) for number in range(9)])
    write(archive, 20)
    assert segments.numbers() == [2, 3]
    again = Archive(segments, random_secret())
    assert again.periods() == [key(9), key(20)]
    assert _digest(again, 9) == digest


def test_small_segments_are_joined_when_there_are_many(segments: Segments) -> None:
    archive = Archive(segments, random_secret())
    digests = {}
    for number in range(3 * archives.MANY_SMALL):
        [written] = write(archive, number, rows=rows_of(3, number + 1))
        digests[number] = written.digest
    assert len(segments.numbers()) < archives.MANY_SMALL
    for opened in (archive, Archive(segments, random_secret())):
        assert opened.periods() == [key(number) for number in digests]
        for number, digest in digests.items():
            assert _digest(opened, number) == digest
            assert listed(opened, key(number))


def test_a_period_stays_readable_while_its_segment_is_replaced(tmp_path: Path) -> None:
    segments = FolderSegments(tmp_path / "archive")
    archive = Archive(segments, random_secret())
    write(archive, 1)
    period = archive.open(key(1))
    assert period is not None
    write(archive, 1, rows=rows_of(3, 5))
    assert segments.numbers() == [2]
    ranking = period.ranking("")
    assert ranking is not None
    assert ranking.slice(0, 1_000).members == MEMBERS


def test_only_the_catalogue_is_read_when_an_archive_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    write(Archive(FolderSegments(folder), random_secret()), 1, 2)
    [path] = folder.iterdir()
    content = bytearray(path.read_bytes())
    content[200 : len(content) - 2_000] = bytes(len(content) - 2_200)
    path.write_bytes(content)
    archive = Archive(FolderSegments(folder), random_secret())
    assert archive.periods() == [key(1), key(2)]
    with pytest.raises(ArchiveDamaged, match="is not what was written"):
        listed(archive, key(1))


def test_each_flipped_or_missing_byte_is_an_error_or_nothing(tmp_path: Path) -> None:
    """Every answer from a damaged segment is right or the error of damage."""
    rows = rows_of(1_100, 3)
    folder = tmp_path / "archive"
    write(Archive(FolderSegments(folder), random_secret()), 1, rows=rows)
    [path] = folder.iterdir()
    whole = path.read_bytes()
    chance = random.Random(5)
    places = [*range(40), *range(len(whole) - 250, len(whole))]
    places += chance.sample(range(len(whole)), 150)
    refused = 0
    for at in places:
        path.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        )
        refused += _refuses(folder, rows)
    assert refused == len(places), "each byte is verified when all is read"
    for length in [*places, 0]:
        path.write_bytes(whole[:length])
        assert _refuses(folder, rows)
    path.write_bytes(whole)
    assert not _refuses(folder, rows)


def _refuses(folder: Path, rows: list[Row]) -> bool:
    """Return whether reading the archive raises an error or finds no period. If not, assert that
    everything read is right."""
    try:
        archive = Archive(FolderSegments(folder), random_secret())
        period = archive.open(key(1))
        if period is None:
            return True
        digest = period.computed_digest()
        ranking = period.ranking("")
        assert ranking is not None
        listed = ranking.slice(0, len(rows)).members
        found = [ranking.position(row.member) for row in rows]
    except (ArchiveDamaged, FormatTooNew):
        return True
    assert digest == period.record.digest
    assert listed == [row.member.decode() for row in rows]
    assert found == [*range(len(rows))]
    return False


def test_a_segment_of_a_later_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    write(Archive(FolderSegments(folder), random_secret()), 1)
    [path] = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:16] + (3).to_bytes(4, "little") + content[20:])
    with pytest.raises(FormatTooNew, match="format 3"):
        Archive(FolderSegments(folder), random_secret())


def test_a_damaged_segment_is_left_out_and_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    write(Archive(FolderSegments(folder), random_secret()), 1)
    [path] = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    archive = Archive(FolderSegments(folder), random_secret())
    assert archive.periods() == []
    write(archive, 2)
    assert path.exists()
    assert Archive(FolderSegments(folder), random_secret()).periods() == [key(2)]


def test_entries_that_cannot_be_read_leave_the_archive_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    archive = Archive(FolderSegments(folder), random_secret())
    write(archive, 1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def failing() -> Iterator[FrozenRanking]:
        yield frozen(ROWS)
        raise MemoryError

    with pytest.raises(MemoryError):
        archive.write([(key(2), failing())])
    with pytest.raises(ValueError, match="expected 9 entries, got 700"):
        archive.write([(key(2), [replace(frozen(ROWS), total=9)])])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert archive.periods() == [key(1)]


def test_a_disk_that_refuses_a_write_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"")
    with pytest.raises(StorageFailed, match="the archive could not be written"):
        write(Archive(FolderSegments(tmp_path / "archive"), random_secret()), 1)


def test_a_segment_is_whole_or_absent_after_a_kill(tmp_path: Path) -> None:
    """A process that writes one segment after another is killed at many moments."""
    for round in range(12):
        folder = tmp_path / f"archive{round}"
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.archive.endless_writer", str(folder)],
            stdout=subprocess.PIPE,
            env={**os.environ, "LAURELS_TEST_SIZE": str(50 + 400 * round)},
        )
        assert writer.stdout is not None
        for _ in range(1 + round):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        written = 1 + round + len(writer.stdout.read().splitlines())
        writer.wait()
        writer.stdout.close()
        archive = Archive(FolderSegments(folder), random_secret())
        numbers = [each.instance for each in archive.periods()]
        assert numbers == [*range(len(numbers))]
        assert len(numbers) in (written, written + 1)
        for each in archive.periods():
            assert listed(archive, each)
        assert not (folder / "sealed.unfinished").exists()
        archive.close()


def _digest(archive: Archive, number: int) -> bytes:
    period = archive.open(key(number))
    assert period is not None
    assert period.computed_digest() == period.record.digest
    return period.record.digest


def test_reads_are_right_while_segments_are_written_joined_and_dropped(tmp_path: Path) -> None:
    archive = Archive(FolderSegments(tmp_path / "archive"), random_secret())
    write(archive, 0)
    written = threading.Event()

    def write_many() -> None:
        for number in range(1, 4 * archives.MANY_SMALL):
            write(archive, number, rows=ROWS[:5])
            archive.drop([key(number - 3)] if number > 3 else [])
        written.set()

    writer = threading.Thread(target=write_many)
    writer.start()
    reads = 0
    while not (written.is_set() and reads):
        for number in (0, *[each.instance for each in archive.periods()[-2:]]):
            period = archive.open(key(number))
            if period is not None:
                ranking = period.ranking("")
                assert ranking is not None
                expected = MEMBERS if number == 0 else MEMBERS[:5]
                assert ranking.slice(0, 1_000).members == expected
                reads += 1
    writer.join()
    assert archive.periods()[0] == key(0)
