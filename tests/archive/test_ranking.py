"""An archived ranking gives the same answers as the sorted list of its entries."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laurels.model.rules import RankStyle
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.folder import MemorySegment, MemorySegments
from laurels.stores.local.archive.ranking import ArchivedRanking

from .standings import KEY, Row, archived, frozen, random_secret, rank_in, rows_of

STYLES = get_args(RankStyle)
SIZES = [1, 2, 511, 512, 513, 1_024, 3_000]
MEMBERS = st.text(min_size=1, max_size=20).map(str.encode).filter(lambda member: len(member) < 128)
WORDS = st.tuples(
    st.integers(-3, 3) | st.integers(-(2**53), 2**53),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**41),
)


def opened(rows: list[Row], **kinds: object) -> ArchivedRanking:
    ranking = archived(frozen(rows, **kinds)).ranking("")  # type: ignore[arg-type]
    assert ranking is not None
    return ranking


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("style", STYLES)
def test_members_have_their_positions_ranks_and_words(size: int, style: RankStyle) -> None:
    rows = rows_of(size, size, words=3)
    ranking = opened(rows, style=style)
    assert len(ranking) == size
    places = random.Random(1).sample(range(size), min(size, 60))
    members = [rows[place].member.decode() for place in places]
    located = ranking.locate(members, whole=True)
    assert [*located.positions] == places
    assert [*located.ranks] == [rank_in(rows, place, style) for place in places]
    assert [*zip(*located.words, strict=True)] == [rows[place].words for place in places]
    ordered = ranking.locate(members, whole=False).words
    assert [*zip(*ordered, strict=True)] == [rows[place].words[:2] for place in places]
    for place, member in zip(places, members, strict=True):
        assert ranking.position(member.encode()) == place
        assert ranking.rank(member.encode()) == rank_in(rows, place, style)
        assert ranking.rank(member.encode(), "ordinal") == place


@pytest.mark.parametrize("size", SIZES)
def test_members_that_are_not_ranked_are_not_found(size: int) -> None:
    ranking = opened(rows_of(size, 5))
    for member in ["m", "x00001", "m00001a", "nobody", "ä"]:
        assert ranking.position(member.encode()) == ranking.rank(member.encode()) == -1
        assert ranking.neighbourhood(member) is None
    located = ranking.locate(["nobody", "x"], whole=False)
    assert [*located.positions] == [*located.ranks] == [-1, -1]
    assert [[*column] for column in located.words] == [[0, 0], [0, 0]]


@pytest.mark.parametrize("style", STYLES)
def test_slices_have_the_entries_of_the_list(style: RankStyle) -> None:
    rows = rows_of(1_600, 7)
    ranking = opened(rows, style=style)
    for start, stop in [(0, 10), (505, 520), (0, 1_600), (1_590, 1_700), (1_600, 1_610), (-5, 3)]:
        part = ranking.slice(start, stop)
        begin = max(0, start)
        wanted = rows[begin:stop]
        assert part.start == min(begin, 1_600)
        assert part.members == [row.member.decode() for row in wanted]
        assert [*zip(*part.words, strict=True)] == [row.words for row in wanted]
        ranks = [rank_in(rows, begin + at, style) for at in range(len(wanted))]
        assert [*part.ranks] == ranks


def test_neighbourhoods_have_the_entries_beside_a_member() -> None:
    rows = rows_of(1_100, 3)
    ranking = opened(rows)
    for place in [0, 1, 511, 512, 1_099]:
        found = ranking.neighbourhood(rows[place].member.decode())
        assert found is not None
        assert (found.total, found.position) == (1_100, place)
        beside = rows[max(0, place - 1) : place + 2]
        assert found.part.members == [row.member.decode() for row in beside]


@given(st.dictionaries(MEMBERS, WORDS, min_size=1, max_size=60), st.data())
@settings(max_examples=200)
def test_bounds_are_those_of_the_sorted_list(
    entries: dict[bytes, tuple[int, ...]], data: st.DataObject
) -> None:
    rows = sorted(Row(words, member) for member, words in entries.items())
    ranking = opened(rows, columns=2, ordered=3)
    width = data.draw(st.integers(1, 3))
    words = data.draw(WORDS | st.sampled_from(rows).map(lambda row: row.words))[:width]
    prefixes = [row.words[:width] for row in rows]
    assert ranking.bound(words, right=False) == bisect_left(prefixes, words)
    assert ranking.bound(words, right=True) == bisect_right(prefixes, words)
    row = data.draw(st.sampled_from(rows))
    member = data.draw(MEMBERS | st.just(row.member))
    assert ranking.bound(row.words, member, right=False) == bisect_left(rows, (row.words, member))
    assert ranking.bound(row.words, member, right=True) == bisect_right(rows, (row.words, member))
    [*listed] = zip(*ranking.slice(0, 100).words, strict=True)
    assert listed == [row.words for row in rows]


def test_bounds_are_right_at_the_edges_of_blocks() -> None:
    rows = sorted(
        Row((score, 0), f"m{n:04}".encode()) for n in range(2_000) for score in [n // 700]
    )
    ranking = opened(rows)
    for score in range(-1, 4):
        for right in (False, True):
            prefixes = [row.words[:1] for row in rows]
            search = bisect_right if right else bisect_left
            assert ranking.bound((score,), right=right) == search(prefixes, (score,))
    for place in [0, 511, 512, 513, 1_023, 1_024, 1_999]:
        words, member = rows[place]
        assert ranking.bound(words, member, right=False) == place
        assert ranking.bound(words, member, right=True) == place + 1


def test_scopes_have_rankings_of_their_own() -> None:
    scopes = ["", *sorted(f"room=r{number}" for number in range(300))]
    lists = {scope: rows_of(1 + at % 7, at) for at, scope in enumerate(scopes)}
    period = archived(*[frozen(rows, scope) for scope, rows in lists.items()])
    assert [record.scope for record in period.rankings()] == scopes
    for scope, rows in lists.items():
        ranking = period.ranking(scope)
        assert ranking is not None
        assert ranking.slice(0, 9).members == [row.member.decode() for row in rows]
    for scope in ["room=", "room=r1x", "a", "zone=1"]:
        assert period.ranking(scope) is None
    assert period.record.entries == sum(map(len, lists.values()))


@pytest.mark.parametrize("size", [600, 30_000])
def test_a_member_is_found_in_three_reads(size: int) -> None:
    """The three reads are the directory, a page of the member index, and the block with the
    entry."""
    rows = rows_of(size, 11)
    segments = CountingSegments()
    archive = Archive(segments, random_secret())
    archive.write([(KEY, [frozen(rows)])])
    for place in random.Random(4).sample(range(size), 25):
        period = Archive(segments, random_secret()).open(KEY)
        assert period is not None
        segments.reads = 0
        ranking = period.ranking("")
        assert ranking is not None
        assert ranking.rank(rows[place].member) == place
        assert segments.reads == 3
        assert ranking.slice(place, place + 1).members
        assert segments.reads == 4


class CountingSegments(MemorySegments):
    """Segments that count how often they are read."""

    reads = 0

    def open(self, number: int) -> MemorySegment:
        segment = super().open(number)
        read = segment.read

        def counted(start: int, length: int) -> bytes:
            self.reads += 1
            return read(start, length)

        segment = MemorySegment(segment.name, read(0, segment.nbytes))
        segment.read = counted  # type: ignore[method-assign]
        return segment
