"""The index of the members of an archived ranking: which block of entries has a member. Pure.

Members are distributed over pages by a keyed hash. A page has the hashes of its members, in order,
each with the number of the block that has the member's entry. The hashes are cut off after as many
bits as are needed to tell them apart. So a search reads one page and usually one block. If the hash
belongs to another member, that block is read in vain. Only if several members share all 63 bits of
the hash, a search may read one block for each of them.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from hashlib import sha256
from struct import Struct as Format
from typing import BinaryIO

from laurels.core.entry_columns import EntryColumns
from laurels.engine.sealing.hashing import member_hashes
from laurels.engine.sealing.pairs import PairPartitions, page_pairs, sort_pairs

from .packing import Unpacker, damaged, pack_numbers

Scratch = Callable[[], BinaryIO]
"""A function that opens an empty temporary file."""
PAGE_MEMBERS = 1_024
"""About how many members a page has."""
PAGES_TOGETHER = 16
"""The number of pages whose members are sorted together, in about 200 KB of memory."""
_ROOM = 341
"""The number of members of a partition that are kept in memory. With this number, each write to the
scratch file has nearly 4 KiB."""
_HASH_BITS = 63
_SHORTEST = 12
_HEAD = Format("<IB")


class MemberIndex:
    """Collects the members of a ranking, in the order of their blocks, and packs the pages.

    A partition is `PAGES_TOGETHER` consecutive pages. If there are several partitions, only the
    last members of each are in memory, and the others are in a scratch file. So the index of ten
    million members takes about 4 MB of memory. `close` closes the scratch file.
    """

    def __init__(self, key: bytes, members: int, scratch: Scratch) -> None:
        self._key = key
        self._count = pages_for(members)
        room = _ROOM if self._count > PAGES_TOGETHER else members + 1
        self._pairs = PairPartitions(self._count, PAGES_TOGETHER, room)
        self._pieces = [array("I") for _ in range(self._pairs.partitions)]
        self._scratch = scratch
        self._file: BinaryIO | None = None
        self._piece_bytes = 0
        self._written = 0

    def add(self, entries: EntryColumns, block: int) -> None:
        """Add the members of a block."""
        hashes = member_hashes(self._key, entries.members, entries.lengths)
        for partition, full in self._pairs.add(hashes, block):
            if self._file is None:
                self._file = self._scratch()
                self._piece_bytes = len(full)
            self._file.write(full)
            self._pieces[partition].append(self._written)
            self._written += 1

    def pages(self) -> Iterator[bytes]:
        """Yield the packed pages."""
        for partition in range(self._pairs.partitions):
            pairs = self._taken(partition)
            sort_pairs(pairs)
            first, start = PAGES_TOGETHER * partition, 0
            for page in range(first, min(first + PAGES_TOGETHER, self._count)):
                start, bits, hashes, blocks = page_pairs(pairs, start, self._count, page, _SHORTEST)
                packed = pack_numbers(hashes) + pack_numbers(blocks)
                yield _HEAD.pack(len(hashes), bits) + packed

    def close(self) -> None:
        """Close the scratch file."""
        if self._file is not None:
            self._file.close()

    def _taken(self, partition: int) -> bytearray:
        """Return all pairs of a partition, from the scratch file and from memory."""
        pairs = bytearray()
        for piece in self._pieces[partition]:
            assert self._file is not None
            self._file.seek(piece * self._piece_bytes)
            pairs += self._file.read(self._piece_bytes)
        return pairs + self._pairs.take(partition)


def pages_for(members: int) -> int:
    """Return how many pages the index of `members` members has."""
    return max(1, members // PAGE_MEMBERS)


def page_of(key: bytes, member: bytes, pages: int) -> tuple[int, int]:
    """Return the number of the page that has a member, and the member's hash."""
    number = int.from_bytes(sha256(key + member).digest()[:8], "little") >> 1
    return number * pages >> _HASH_BITS, number


def blocks_of(page: bytes, number: int) -> list[int]:
    """Return the numbers of the blocks that may have the member with a hash: none if it is not
    ranked, and nearly always one. Raises ArchiveDamaged."""
    count, bits = _HEAD.unpack_from(page)
    if bits > _HASH_BITS:
        raise damaged()
    unpacker = Unpacker(page, count, _HEAD.size)
    cut, blocks = unpacker.numbers(), unpacker.numbers()
    wanted = number >> (_HASH_BITS - bits)
    at = bisect_left(cut, wanted)
    found = []
    while at < count and cut[at] == wanted:
        found.append(blocks[at])
        at += 1
    return found
