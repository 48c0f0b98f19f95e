"""The format of a snapshot: consecutive sections, each with a checksum of its own.

    "laurels snapshot\n"  format (4 bytes)                        the head
    kind (1)  length (4)  CRC-32 of kind, length and body (4)  body   each section
    kind "E", a body with the number of sections before it           the end

All numbers are unsigned and little-endian. A file is complete if every checksum is right and the
end marker is the last section. So reading a file detects every truncation, every flipped bit and
every part that was never written.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from laurels.errors import FormatTooNew, SnapshotDamaged, StorageFailed

FORMAT = 2
"""The format of a snapshot with hidden members, closed periods or incomplete erasures. Versions
that know format 1 only would show hidden members, and let writes change closed periods."""
PLAIN = 1
"""The format of every other snapshot."""
MAGIC = b"laurels snapshot\n"
END = b"E"
_VERSION = struct.Struct("<I")
_HEAD = struct.Struct("<cI")
_CRC = struct.Struct("<I")
_COUNT = struct.Struct("<Q")
_BEGINS = 16

Section = tuple[bytes, bytes]
"""A section: its kind, which is one byte, and its body."""


def write_sections(
    file: BinaryIO, sections: Iterable[Section], format: Callable[[], int] = lambda: PLAIN
) -> int:
    """Write a whole snapshot. Return its size in bytes. `format` returns the format that the
    sections need; it is called after all of them are written."""
    written = file.write(MAGIC + _VERSION.pack(PLAIN))
    count = 0
    for kind, body in sections:
        written += _write(file, kind, body)
        count += 1
    written += _write(file, END, _COUNT.pack(count))
    if (needed := format()) != PLAIN:
        file.seek(len(MAGIC))
        file.write(_VERSION.pack(needed))
        file.seek(written)
    return written


def _write(file: BinaryIO, kind: bytes, body: bytes) -> int:
    head = _HEAD.pack(kind, len(body))
    return file.write(head + _CRC.pack(zlib.crc32(body, zlib.crc32(head)))) + file.write(body)


def read_sections(file: BinaryIO, name: str) -> Iterator[Section]:
    """Yield the verified sections of a snapshot, without the end marker. After the last section,
    the file is positioned after the end marker.

    Raises SnapshotDamaged if a byte is wrong or missing, FormatTooNew; the messages name the file
    `name`.
    """
    _ensure_format(_read_exactly(file, len(MAGIC) + _VERSION.size, name), name)
    count = 0
    while True:
        kind, body = _read_section(file, name)
        if kind == END:
            break
        yield kind, body
        count += 1
    _ensure_count(body, count, name)


def _ensure_format(head: bytes, name: str) -> None:
    if not head.startswith(MAGIC):
        raise SnapshotDamaged(f"{name} does not begin with the header of a snapshot")
    (version,) = _VERSION.unpack(head[len(MAGIC) :])
    if version < 1:
        raise SnapshotDamaged(f"expected {name} in a format from 1 to {FORMAT}, got {version}")
    if version > FORMAT:
        raise FormatTooNew(f"{name} is in format {version}, this version reads up to {FORMAT}")


def _ensure_count(body: bytes, count: int, name: str) -> None:
    if body != _COUNT.pack(count):
        raise SnapshotDamaged(f"{name} has {count} sections, but its end marker has another number")


def _read_section(file: BinaryIO, name: str) -> Section:
    head = _read_exactly(file, _HEAD.size, name)
    (crc,) = _CRC.unpack(_read_exactly(file, _CRC.size, name))
    kind, length = _HEAD.unpack(head)
    body = _read_exactly(file, length, name)
    _ensure_checksum(head, crc, body, name)
    return kind, body


def _ensure_checksum(head: bytes, crc: int, body: bytes, name: str) -> None:
    if zlib.crc32(body, zlib.crc32(head)) != crc:
        raise SnapshotDamaged(f"the content of a section of {name} is not what was written")


def _read_exactly(file: BinaryIO, length: int, name: str) -> bytes:
    read = file.read(length)
    if len(read) != length:
        raise _truncated(name)
    return read


def _truncated(name: str) -> SnapshotDamaged:
    return SnapshotDamaged(f"{name} ends before its end marker")


class FilePosition(NamedTuple):
    """Where a section is in a file, with the section's header and the beginning of its body. Only
    `read_at` verifies the header and the body."""

    at: int
    head: bytes
    begins: bytes

    @property
    def kind(self) -> bytes:
        return self.head[:1]

    @property
    def length(self) -> int:
        """The size of the body in bytes."""
        return int(_HEAD.unpack_from(self.head)[1])


def find_sections(file: int, name: str) -> list[FilePosition]:
    """Return the positions of the sections of a snapshot, without the end marker. `file` is the
    file descriptor from which the snapshot is read.

    The bodies of the sections are not read: the file is valid if `read_at` succeeds for each
    section. Raises the errors of `read_sections`.
    """
    at = len(MAGIC) + _VERSION.size
    _ensure_format(_read_exactly_at(file, at, 0, name), name)
    places: list[FilePosition] = []
    size = _HEAD.size + _CRC.size
    while True:
        raw = os.pread(file, size + _BEGINS, at)
        if len(raw) < size:
            raise _truncated(name)
        place = FilePosition(at, raw[:size], raw[size:])
        if place.length <= _BEGINS:
            read_at(
                file, place, name
            )  # without this check, a file of zeros would look like many sections
        if place.kind == END:
            break
        places.append(place)
        at += size + place.length
    _ensure_count(read_at(file, place, name), len(places), name)
    return places


def read_at(file: int, place: FilePosition, name: str) -> bytes:
    """Return the verified body of a section. Several threads may read concurrently. Raises
    SnapshotDamaged."""
    (crc,) = _CRC.unpack_from(place.head, _HEAD.size)
    body = _read_exactly_at(file, place.length, place.at + len(place.head), name)
    _ensure_checksum(place.head[: _HEAD.size], crc, body, name)
    return body


def _read_exactly_at(file: int, length: int, at: int, name: str) -> bytes:
    """Return `length` bytes from a position on. A length of 2 GiB or more takes several reads."""
    read = os.pread(file, length, at)
    while len(read) < length and (more := os.pread(file, length - len(read), at + len(read))):
        read += more
    if len(read) != length:
        raise _truncated(name)
    return read


def verify(path: Path) -> None:
    """Read and verify a whole snapshot. Raises the errors of `read_sections`, and StorageFailed."""
    try:
        with path.open("rb") as file:
            for _ in read_sections(file, str(path)):
                pass
            if file.read(1):
                raise SnapshotDamaged(f"{path} has data after its end marker")
    except OSError as error:
        raise StorageFailed(f"{path} could not be read ({error})") from error
