"""The functions of the engine for sealed rankings, compared with plain Python."""

from __future__ import annotations

from array import array
from hashlib import sha256 as hashlib_sha256
from itertools import pairwise
from random import Random
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laurels.engine.roster.roster import Roster
from laurels.engine.sealing.columns import byte_planes, score_changes
from laurels.engine.sealing.hashing import entry_hashes, member_hashes
from laurels.engine.sealing.pairs import PairPartitions, page_pairs, sort_pairs
from laurels.engine.sealing.sha256 import sha256
from laurels.engine.tree.exporting import export_entries
from laurels.engine.tree.ranked_set import ORDINAL, RankedSet

LONGS = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.lists(st.binary(min_size=1, max_size=255), max_size=30)
PAIR_BYTES = 12


@pytest.mark.parametrize("size", range(504))
def test_hashes_of_messages_of_each_size(size: int) -> None:
    message = Random(size).randbytes(size)
    assert sha256(message) == hashlib_sha256(message).digest()


def test_a_message_without_room_for_its_padding_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 503 bytes, got 504"):
        sha256(bytes(504))


@given(MEMBERS, st.integers(0, 28), st.randoms(use_true_random=False))
def test_hashes_of_entries(members: list[bytes], width: int, random: Random) -> None:
    columns = [array("q", [random.randrange(-(2**63), 2**63) for _ in members])] * width
    salts = [random.randbytes(16) for _ in members]
    wanted = [
        hashlib_sha256(salt + pack(f"<{width}q", *[column[i] for column in columns]) + member)
        for i, (salt, member) in enumerate(zip(salts, members, strict=True))
    ]
    lengths = bytes(map(len, members))
    hashes = entry_hashes(b"".join(salts), columns, b"".join(members), lengths)
    assert hashes == b"".join([each.digest() for each in wanted])
    with pytest.raises(ValueError, match="the lengths of the members add up"):
        entry_hashes(b"".join(salts), columns, b"".join(members) + b"x", lengths)
    with pytest.raises(ValueError, match="16 bytes of salt"):
        entry_hashes(b"".join(salts) + b"x", columns, b"".join(members), lengths)
    if width:
        columns = [array("q", [*columns[0], 1])] * width
        with pytest.raises(ValueError, match="columns of words of one length"):
            entry_hashes(b"".join(salts), columns, b"".join(members), lengths)


@given(MEMBERS, st.binary(max_size=64))
def test_hashes_of_members(members: list[bytes], key: bytes) -> None:
    wanted = [
        int.from_bytes(hashlib_sha256(key + member).digest()[:8], "little") >> 1
        for member in members
    ]
    assert [*member_hashes(key, b"".join(members), bytes(map(len, members)))] == wanted


@given(st.lists(LONGS, min_size=1) | st.lists(LONGS, min_size=1).map(sorted))
def test_planes_have_what_values_exceed_the_base_by(values: list[int]) -> None:
    ascends, width, base, planes = byte_planes(array("q", values))
    assert ascends == (values == sorted(values))
    assert base == (values[0] if ascends else min(values))
    steps = [after - before for before, after in pairwise(values)]
    stored = steps if ascends else [value - base for value in values]
    assert width == (max(stored, default=0).bit_length() + 7) // 8
    wanted = [bytes([each >> 8 * plane & 255 for each in stored]) for plane in range(width)]
    assert planes == b"".join(wanted)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1))), st.integers(0, 2))
def test_changes_of_scores(rows: list[tuple[int, int]], width: int) -> None:
    columns = [array("q", [row[word] for row in rows]) for word in range(width)]
    changed = [i for i in range(1, len(rows)) if rows[i][:width] != rows[i - 1][:width]]
    assert score_changes(columns) == (len(changed), changed[-1] if changed else 0)


@pytest.mark.parametrize("pages", [1, 2, 15, 16, 17, 100])
def test_pages_have_all_pairs_in_the_order_of_their_hashes(pages: int) -> None:
    random = Random(pages)
    partitions = PairPartitions(pages, 16, 5)
    assert partitions.partitions == -(-pages // 16)
    pieces: list[bytearray] = [bytearray() for _ in range(partitions.partitions)]
    pairs = [(random.randrange(2**63), block) for block in range(50) for _ in range(4)]
    pairs += [(2**63 - 1, 50), (0, 50), (0, 50)]
    for block in range(51):
        hashes = array("Q", [hashed for hashed, its in pairs if its == block])
        for partition, full in partitions.add(hashes, block):
            assert len(full) == 5 * PAIR_BYTES
            pieces[partition] += full
    for partition, piece in enumerate(pieces):
        piece.extend(partitions.take(partition))
        assert partitions.take(partition) == b""
        sort_pairs(piece)
        start = 0
        for page in range(16 * partition, min(pages, 16 * partition + 16)):
            start, bits, cut, blocks = page_pairs(piece, start, pages, page, 12)
            whole = sorted([pair for pair in pairs if pair[0] * pages >> 63 == page])
            assert [*cut] == [hashed >> (63 - bits) for hashed, _ in whole]
            assert [*blocks] == [block for _, block in whole]
            hashes_of_page = {hashed for hashed, _ in whole}
            assert 12 <= bits <= 63
            assert len({*cut}) == len(hashes_of_page)
        assert start == len(piece) // PAIR_BYTES
    assert sum(map(len, pieces)) == len(pairs) * PAIR_BYTES


def test_pairs_of_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one page"):
        PairPartitions(0, 1, 1)
    partitions = PairPartitions(1, 1, 1)
    with pytest.raises(ValueError, match="at most 63 bits"):
        partitions.add(array("Q", [2**63]), 0)
    with pytest.raises(TypeError, match="format 'Q'"):
        partitions.add(array("q", [1]), 0)
    with pytest.raises(IndexError, match="no partition has the number 1"):
        partitions.take(1)
    with pytest.raises(ValueError, match="whole pairs"):
        sort_pairs(bytearray(PAIR_BYTES + 1))


@pytest.mark.parametrize("count", [0, 1, 3, 5_000])
def test_entries_are_exported_as_they_are_listed(count: int) -> None:
    random, roster = Random(count), Roster(1)
    ranking = RankedSet(roster, columns=2, tie=True, stamped=False, dense=False)
    names = [f"{number}é" * random.randrange(1, 20) for number in range(count)]
    members = [name.encode() for name in names]
    ids = roster.intern(b"".join(members), bytes(map(len, members)))
    ranking.put(ids, [array("q", [random.randrange(-9, 9) for _ in ids]) for _ in range(3)])
    for start, stop in [(0, count), (0, 0), (1, 2), (-3, 4), (count - 1, count + 9), (7, 3)]:
        arena, lengths, words = export_entries(ranking, start, stop)
        first = max(0, start)
        listed, _, columns = ranking.list_entries(first, min(stop, first + 4_096), ORDINAL)
        assert arena == "".join(listed).encode()
        assert [*lengths] == [len(name.encode()) for name in listed]
        assert [[*column] for column in words] == columns
