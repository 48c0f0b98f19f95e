"""Erasing a member from an archive: the entries stay in their places, without its name, and every
digest stays the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laurels.errors import ArchiveDamaged, StorageFailed
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import FolderSegments, MemorySegments
from laurels.stores.local.archive.segment import ArchivedPeriod, PeriodKey

from .standings import Row, frozen, random_secret, rank_in, rows_of

TOKEN = "erased-0123"
SIZES = [1, 2, 3, 511, 512, 513, 1_600]


def key(number: int, revision: int = 0) -> PeriodKey:
    return PeriodKey("uid", "day", number, revision)


def opened(archive: Archive, of: PeriodKey) -> ArchivedPeriod:
    period = archive.open(of)
    assert period is not None
    assert period.computed_digest() == period.record.digest
    return period


@pytest.mark.parametrize("size", SIZES)
def test_the_places_and_the_digest_stay(size: int) -> None:
    rows = rows_of(size, size)
    archive = Archive(MemorySegments(), random_secret())
    [before] = archive.write([(key(1), [frozen(rows)])])
    places = sorted({0, size - 1, *random.Random(2).sample(range(size), min(3, size))})
    tokens = {place: f"{TOKEN}-{place}" for place in places}
    for place in places:
        member = rows[place].member
        assert archive.find(member) == [key(1)]
        assert archive.erase(member, tokens[place]) == 1
        assert archive.find(member) == []
        assert archive.erase(member, "another token") == 0
    period = opened(Archive(archive._segments, random_secret()), key(1))
    assert period.record.digest == before.digest
    assert (period.record.entries, period.record.erased) == (size, len(places))
    ranking = period.ranking("")
    assert ranking is not None
    expected = [tokens.get(place, row.member.decode()) for place, row in enumerate(rows)]
    part = ranking.slice(0, size)
    assert part.members == expected
    assert [*zip(*part.words, strict=True)] == [row.words for row in rows]
    for place, token in tokens.items():
        assert ranking.position(rows[place].member) == -1
        assert ranking.position(token.encode()) == place
        assert ranking.rank(token.encode(), "dense") == rank_in(rows, place, "dense")


def test_no_salt_of_an_erased_entry_can_be_derived() -> None:
    rows = rows_of(900, 3)
    archive = Archive(MemorySegments(), random_secret())
    archive.write([(key(1), [frozen(rows)])])
    [before] = opened(archive, key(1)).rankings()
    archive.erase(rows[700].member, TOKEN)
    [after] = opened(archive, key(1)).rankings()
    wanted = [*before.salts().slice(0, 900)]
    wanted[700] = None
    assert after.salts().slice(0, 900) == wanted
    assert before.secrets[0][2] not in [secret for _, _, secret in after.secrets]
    assert len(after.secrets) < 300, "only secrets that lead to entries are kept"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.data(),
)
def test_lists_go_on_where_they_were_among_equal_scores(
    scores: list[int], data: st.DataObject
) -> None:
    """A cursor names the entry after which a page begins. Entries with equal scores are in the
    order of members, and a token in the place of a member breaks this order."""
    rows = sorted(Row((score, 0), f"m{at:03}".encode()) for at, score in enumerate(scores))
    archive = Archive(MemorySegments(), random_secret())
    archive.write([(key(1), [frozen(rows)])])
    gone = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=4, unique=True))
    for place in gone:
        token = f"{data.draw(st.sampled_from(['a', 'm0', 'z']))}-{place}"
        archive.erase(rows[place].member, token)
    ranking = opened(archive, key(1)).ranking("")
    assert ranking is not None
    for place, member in enumerate(ranking.slice(0, len(rows)).members):
        assert ranking.bound(rows[place].words, member.encode(), right=True) == place + 1
        assert ranking.bound(rows[place].words, member.encode(), right=False) == place
    for place in gone:  # the cursor names an entry whose member was erased later
        around = ranking.bound(rows[place].words, rows[place].member, right=True)
        same = [at for at, row in enumerate(rows) if row.words == rows[place].words]
        assert same[0] <= around <= same[-1] + 1
        others = [at for at in same if at not in gone]
        assert [at for at in others if at < around] == [at for at in others if at < place]


def test_every_scope_revision_and_unwanted_copy_is_erased(tmp_path: Path) -> None:
    rows, member = [*rows_of(600, 4), Row((10**6, 0), b"zoe the person")], b"zoe the person"
    archive = Archive(FolderSegments(tmp_path), random_secret())
    scopes = ["", *[f"room={number:03}" for number in range(40)]]
    rankings = [
        frozen(rows if at % 2 == 0 else rows[:-1], scope) for at, scope in enumerate(scopes)
    ]
    first = archive.write([(key(1), [frozen(rows)]), (key(2), [frozen(rows[:-1])])])
    archive.write([(key(1, 1), rankings), (key(3), [frozen(rows)])])
    archive.write([(key(4), [frozen(rows)])])
    archive.drop([key(3), key(4)])
    assert archive.find(member) == [key(1), key(1, 1), key(3), key(4)]
    assert archive.erase(member, TOKEN) == 2
    again = Archive(FolderSegments(tmp_path), random_secret())
    assert again.find(member) == []
    assert again.periods() == [key(1), key(1, 1), key(2)]
    assert opened(again, key(1)).record.digest == first[0].digest
    assert opened(again, key(2)).record.erased == 0
    revised = opened(again, key(1, 1))
    assert revised.record.erased == 21
    assert not revised.record.rankings, (
        "the secrets of rankings with erased entries are not in memory"
    )
    for at, scope in enumerate(scopes):
        ranking = revised.ranking(scope)
        assert ranking is not None
        assert ranking.position(TOKEN.encode()) == (len(rows) - 1 if at % 2 == 0 else -1)


class _CutError(Exception):
    """Stands for the death of a process between two steps."""


class FailingSegments(FolderSegments):
    """Segments whose process dies, or whose disk is full, before a step is carried out."""

    def __init__(self, folder: Path, failing: Callable[[str], None]) -> None:
        super().__init__(folder)
        self._failing = failing

    def write(self, number: int, write: Callable[[BinaryIO], None]) -> None:
        self._failing("write")
        super().write(number, write)
        self._failing("written")

    def remove_durably(self, number: int) -> None:
        self._failing("remove")
        super().remove_durably(number)
        self._failing("removed")


@pytest.mark.parametrize("error", [_CutError(), StorageFailed("the disk is full")])
@pytest.mark.parametrize("stops", range(12))
def test_an_erasure_that_stops_anywhere_is_completed_by_the_next(
    tmp_path: Path, stops: int, error: Exception
) -> None:
    rows = [*rows_of(20, 5), Row((10**6, 0), b"zoe the person")]
    archive = Archive(FolderSegments(tmp_path), random_secret())
    digests = {}
    for number in range(3):
        [written] = archive.write([(key(number), [frozen(rows)])])
        digests[key(number)] = written.digest
    steps = iter(range(100))

    def failing(_: str) -> None:
        if next(steps) == stops:
            raise error

    dying = Archive(FailingSegments(tmp_path, failing), random_secret())
    with pytest.raises(type(error)):
        dying.erase(b"zoe the person", TOKEN)
    again = Archive(FolderSegments(tmp_path), random_secret())
    for of, digest in digests.items():
        assert opened(again, of).record.digest == digest
    again.erase(b"zoe the person", TOKEN)
    assert again.find(b"zoe the person") == []
    for archive in (again, Archive(FolderSegments(tmp_path), random_secret())):
        for of, digest in digests.items():
            period = opened(archive, of)
            assert (period.record.digest, period.record.erased) == (digest, 1)


def test_a_damaged_segment_is_named_after_all_others_were_erased(tmp_path: Path) -> None:
    rows = [*rows_of(20, 5), Row((10**6, 0), b"zoe the person")]
    archive = Archive(FolderSegments(tmp_path), random_secret())
    for number in range(3):
        archive.write([(key(number), [frozen(rows)])])
    damaged = sorted(tmp_path.iterdir())[1]
    content = bytearray(damaged.read_bytes())
    content[-30] ^= 1
    damaged.write_bytes(content)
    again = Archive(FolderSegments(tmp_path), random_secret())
    with pytest.raises(ArchiveDamaged, match=damaged.name):
        again.erase(b"zoe the person", TOKEN)
    assert opened(again, key(0)).record.erased == opened(again, key(2)).record.erased == 1
    damaged.unlink()
    assert again.erase(b"zoe the person", TOKEN) == 0
    assert again.find(b"zoe the person") == []
