"""The bytes of a snapshot: sections behind each other, each with a checksum of its own.

    "laurels snapshot\\n"  format (4 bytes)                        the head
    kind (1)  length (4)  CRC-32 of kind, length and body (4)  body   each section
    kind "E", a body with the number of sections before it           the end

All numbers are unsigned and little-endian. A file is whole when every checksum is right and the end
is where it says: whatever was cut off, turned round or never written is found by reading it.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from laurels.errors import FormatTooNew, SnapshotDamaged, StorageFailed

FORMAT = 1
MAGIC = b"laurels snapshot\n"
END = b"E"
_VERSION = struct.Struct("<I")
_HEAD = struct.Struct("<cI")
_CRC = struct.Struct("<I")
_COUNT = struct.Struct("<Q")

Section = tuple[bytes, bytes]
"""A kind, one byte, and a body."""


def write_sections(file: BinaryIO, sections: Iterable[Section]) -> int:
    """Writes a whole snapshot; the bytes it took."""
    written = file.write(MAGIC + _VERSION.pack(FORMAT))
    count = 0
    for kind, body in sections:
        written += _write(file, kind, body)
        count += 1
    return written + _write(file, END, _COUNT.pack(count))


def _write(file: BinaryIO, kind: bytes, body: bytes) -> int:
    head = _HEAD.pack(kind, len(body))
    return file.write(head + _CRC.pack(zlib.crc32(body, zlib.crc32(head)))) + file.write(body)


def read_sections(file: BinaryIO, called: str) -> Iterator[Section]:
    """The sections of a snapshot but its end, each verified; the file is left behind the end.

    Raises SnapshotDamaged where a byte is wrong or missing, FormatTooNew, in both `called` so.
    """
    head = _exactly(file, len(MAGIC) + _VERSION.size, called)
    if not head.startswith(MAGIC):
        raise SnapshotDamaged(f"{called} does not begin as a snapshot does")
    (version,) = _VERSION.unpack(head[len(MAGIC) :])
    if version < 1:
        raise SnapshotDamaged(f"{called} is in format {version}, which there never was")
    if version > FORMAT:
        raise FormatTooNew(f"{called} is in format {version}, this version reads up to {FORMAT}")
    count = 0
    while True:
        kind, body = _read(file, called)
        if kind == END:
            break
        yield kind, body
        count += 1
    if body != _COUNT.pack(count):
        raise SnapshotDamaged(f"{called} has {count} sections, which is not what its end says")


def _read(file: BinaryIO, called: str) -> Section:
    head = _exactly(file, _HEAD.size, called)
    (crc,) = _CRC.unpack(_exactly(file, _CRC.size, called))
    kind, length = _HEAD.unpack(head)
    body = _exactly(file, length, called)
    if zlib.crc32(body, zlib.crc32(head)) != crc:
        raise SnapshotDamaged(f"a section of {called} is not what was written")
    return kind, body


def _exactly(file: BinaryIO, length: int, called: str) -> bytes:
    read = file.read(length)
    if len(read) != length:
        raise SnapshotDamaged(f"{called} ends before its end")
    return read


def verify(path: Path) -> None:
    """Reads a snapshot through; raises as `read_sections`, and StorageFailed."""
    try:
        with path.open("rb") as file:
            for _ in read_sections(file, str(path)):
                pass
            if file.read(1):
                raise SnapshotDamaged(f"{path} goes on after its end")
    except OSError as error:
        raise StorageFailed(f"{path} could not be read ({error})") from error
