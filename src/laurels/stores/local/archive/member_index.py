"""The index of the members of an archived ranking: which block of entries has a member. Pure.

Members are distributed over pages by a keyed hash. A page has the hashes of its members, in order,
cut off after as many bits as tell them apart, and with each the number of the block that has the
member's entry. So a search reads one page, and one block unless the hash belongs to another
member; then it reads a block in vain. Only members that share all 63 bits of the hash take one
block each.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from struct import Struct as Format

from .packing import Unpacker, damaged, little, pack_numbers

PAGE_MEMBERS = 1_024
"""About how many members a page has."""
_HASH_BITS = 63
_SHORTEST = 12
_HEAD = Format("<IB")


def member_hashes(key: bytes, members: Iterable[bytes]) -> "array[int]":
    """Return a hash of 63 bits for each member."""
    digests = b"".join([sha256(key + member).digest() for member in members])
    hashes = array("Q")
    hashes.frombytes(digests)
    return array("Q", [number >> 1 for number in little(hashes)[::4]])


class MemberIndex:
    """Collects the members of a ranking, in the order of their blocks, and packs the pages."""

    def __init__(self, key: bytes, members: int) -> None:
        self._key = key
        self._pages = [(array("Q"), array("I")) for _ in range(pages_for(members))]

    def add(self, members: Iterable[bytes], block: int) -> None:
        """Add the members of a block."""
        pages = self._pages
        count = len(pages)
        for number in member_hashes(self._key, members):
            numbers, blocks = pages[number * count >> _HASH_BITS]
            numbers.append(number)
            blocks.append(block)

    def pages(self) -> Iterable[bytes]:
        """Yield the packed pages."""
        for page in self._pages:
            pairs = sorted(zip(*page, strict=True))
            yield _pack_page([number for number, _ in pairs], [block for _, block in pairs])


def pages_for(members: int) -> int:
    """Return how many pages the index of `members` members has."""
    return max(1, members // PAGE_MEMBERS)


def page_of(key: bytes, member: bytes, pages: int) -> tuple[int, int]:
    """Return the number of the page that has a member, and the member's hash."""
    number = member_hashes(key, [member])[0]
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


def _pack_page(hashes: Sequence[int], blocks: Sequence[int]) -> bytes:
    bits = _bits_apart(hashes)
    cut = [number >> (_HASH_BITS - bits) for number in hashes]
    return _HEAD.pack(len(cut), bits) + pack_numbers(cut) + pack_numbers(blocks)


def _bits_apart(hashes: Sequence[int]) -> int:
    """Return the number of leading bits by which these ascending hashes can still be told apart."""
    nearest = min([after ^ before for before, after in pairwise(hashes)], default=0)
    return min(_HASH_BITS, max(_SHORTEST, _HASH_BITS + 1 - nearest.bit_length()))
