"""The blocks of an archived ranking: consecutive entries, packed and checked. Pure."""

import zlib
from collections.abc import Sequence
from struct import Struct as Format

from msgspec import Struct

from laurels.core.entry_columns import EntryColumns
from laurels.errors import ArchiveDamaged

from .packing import Unpacker, damaged, pack_members, pack_numbers

BLOCK_ENTRIES = 512
"""How many entries a block has, except the last one of a ranking."""
_HEAD = Format("<HB")
_CRC = Format("<I")


class Block(Struct, frozen=True, gc=False):
    """Consecutive entries of a ranking: the members, and their words column by column."""

    members: list[bytes]
    words: list[Sequence[int]]

    def __len__(self) -> int:
        return len(self.members)

    def row(self, at: int, width: int) -> tuple[int, ...]:
        """Return the first `width` words of an entry."""
        return tuple([column[at] for column in self.words[:width]])


def pack_block(entries: EntryColumns) -> bytes:
    """Return the packed form of consecutive entries."""
    columns = b"".join(map(pack_numbers, entries.words))
    head = _HEAD.pack(len(entries), len(entries.words))
    return head + columns + pack_members(entries.members, entries.lengths)


def unpack_block(packed: bytes) -> Block:
    """Return the entries of a block. Raises ArchiveDamaged."""
    if len(packed) < _HEAD.size:
        raise damaged()
    count, width = _HEAD.unpack_from(packed)
    unpacker = Unpacker(packed, count, _HEAD.size)
    words: list[Sequence[int]] = [unpacker.numbers() for _ in range(width)]
    return Block(unpacker.members(), words)


def checked(body: bytes) -> bytes:
    """Return a body with its checksum behind it."""
    return body + _CRC.pack(zlib.crc32(body))


def verified(stored: bytes, name: str) -> bytes:
    """Return the body that `checked` stored. Raises ArchiveDamaged, which names the file, if the
    checksum is wrong."""
    body = stored[: -_CRC.size]
    if len(stored) < _CRC.size or stored[-_CRC.size :] != _CRC.pack(zlib.crc32(body)):
        raise ArchiveDamaged(f"a part of {name} is not what was written")
    return body
