"""Compressed columns of integers and member ids, as the blocks of an archive store them. Pure.

Integers are stored as byte planes: first the lowest bytes of all values, then the next ones, as
many as the greatest value needs. Ids of equal length are stored by columns of their bytes. Planes
are deflated where that makes them shorter, so ids that have something in common and scores that are
close to each other take little space, and random bytes take no more than before.
"""

import sys
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct as Format

from laurels.core.entry_columns import as_longs
from laurels.engine.sealing.columns import byte_planes
from laurels.errors import ArchiveDamaged

_HEAD = Format("<BBq")
_STORED = Format("<I")
_DEFLATED = 1 << 31
_WORTH_DEFLATING = 48
_LEVEL, _WINDOW, _MEMORY = 6, -12, 5
_OFFSETS, _DELTAS = 0, 1


def pack_numbers(values: Sequence[int]) -> bytes:
    """Return integers of 64 bits in a compressed form. Ascending values are stored as the
    differences of successive values, other values as their differences from the least value."""
    if not values:
        return _HEAD.pack(_OFFSETS, 0, 0)
    ascends, width, base, planes = byte_planes(as_longs(values))
    size = len(values) - ascends
    packed = b"".join([_pack(planes[size * at : size * (at + 1)]) for at in range(width)])
    return _HEAD.pack(_DELTAS if ascends else _OFFSETS, width, base) + packed


def pack_members(members: bytes, lengths: bytes) -> bytes:
    """Return ids in a compressed form. `members` has the joined ids, and `lengths` a byte for each
    id, its length in bytes."""
    if len({*lengths}) == 1:
        length = lengths[0]
        planes = b"".join([members[at::length] for at in range(length)])
        return bytes([length]) + _pack(planes)
    return b"\0" + _pack(lengths) + _pack(members)


class Unpacker:
    """Unpacks the results of `pack_numbers` and `pack_members`, one after another."""

    def __init__(self, packed: bytes, count: int, at: int = 0) -> None:
        self._packed = packed
        self._count = count
        self._at = at

    def next_count(self, count: int) -> "Unpacker":
        """Set the number of values in each of the next columns, and return this object."""
        self._count = count
        return self

    def numbers(self) -> "array[int]":
        """Return the next integers. Raises ArchiveDamaged."""
        kind, width, base = self._take(_HEAD)
        if width > 8 or kind > _DELTAS:
            raise damaged()
        size = self._count - (kind == _DELTAS) if self._count else 0
        raw = bytearray(8 * size)
        for plane in range(width):
            raw[plane::8] = self._unpack(size)
        steps = array("Q")
        steps.frombytes(raw)
        steps = little(steps)
        try:
            if kind == _DELTAS:
                return array("q", accumulate(steps, initial=base))
            return array("q", [base + step for step in steps])
        except OverflowError as error:
            raise damaged() from error

    def members(self) -> list[bytes]:
        """Return the next ids. Raises ArchiveDamaged."""
        (length,) = self._bytes(1)
        if not length:
            lengths = self._unpack(self._count)
            joined = self._unpack(sum(lengths))
            ends = accumulate(lengths)
            return [joined[end - size : end] for size, end in zip(lengths, ends, strict=True)]
        planes = self._unpack(length * self._count)
        rows = bytearray(len(planes))
        for at in range(length):
            rows[at::length] = planes[at * self._count : (at + 1) * self._count]
        joined = bytes(rows)
        return [joined[at : at + length] for at in range(0, len(joined), length)]

    def _take(self, form: Format) -> tuple[int, ...]:
        return form.unpack(self._bytes(form.size))

    def _bytes(self, size: int) -> bytes:
        taken = self._packed[self._at : self._at + size]
        if len(taken) != size:
            raise damaged()
        self._at += size
        return taken

    def _unpack(self, size: int) -> bytes:
        """Return the next planes, which have `size` bytes."""
        (stored,) = self._take(_STORED)
        body = self._bytes(stored & ~_DEFLATED)
        if stored & _DEFLATED:
            inflater = zlib.decompressobj(_WINDOW)
            try:
                body = inflater.decompress(body, size + 1)
            except zlib.error as error:
                raise damaged() from error
        if len(body) != size:
            raise damaged()
        return body


def damaged() -> ArchiveDamaged:
    """Return the error for damaged content."""
    return ArchiveDamaged("a block of an archive is not what was written")


def _pack(plane: bytes) -> bytes:
    if len(plane) >= _WORTH_DEFLATING:
        deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_FILTERED)
        deflated = deflater.compress(plane) + deflater.flush()
        if len(deflated) < len(plane):
            return _STORED.pack(_DEFLATED | len(deflated)) + deflated
    return _STORED.pack(len(plane)) + plane


def little(numbers: "array[int]") -> "array[int]":
    """Return numbers that were read from little-endian bytes, or that are to be written so."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
