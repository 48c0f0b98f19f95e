"""A segment: an immutable file with the standings of some sealed periods.

    "laurels archive\\n"  format (4 bytes)                                 the head
    blocks, pages and directories of rankings, lists of scopes             each period
    the records of all periods                                             the catalogue
    position and length of the catalogue (8 each), CRC-32 of both (4), "laurels"   the foot

Everything but head and foot ends with a CRC-32 of its own, and is verified when it is read. Opening
a segment reads its foot and its catalogue.
"""

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from struct import Struct as Format
from typing import BinaryIO, Protocol, TypeVar

import msgspec
from msgspec import Struct

from laurels.core.closing import SealedPeriod
from laurels.core.digest import ErasedEntry, PeriodDigest, Salts, hashes_from
from laurels.core.entry_columns import EntryColumns
from laurels.core.sealed_contents import (
    SealedPart,
    SealedPiece,
    SealedRanking,
    SealedRevision,
    SealedRows,
    sealed_rows,
)
from laurels.errors import ArchiveDamaged, FormatTooNew
from laurels.model.labels import ALL

from .blocks import BLOCK_ENTRIES, checked, verified
from .member_index import Scratch
from .ranking import ArchivedRanking
from .ranking_form import FrozenRanking, RankingWriter, read_directory

FORMAT = 2
"""The format of a segment in which members were erased. Versions that know format 1 only would not
find the hashes of these entries."""
_WITHOUT_ERASED = 1
_MAGIC = b"laurels archive\n"
_END = b"laurels"
_VERSION = Format("<I")
_PLACE = Format("<QQ")
_CRC = Format("<I")
_FOOT = _PLACE.size + _CRC.size + len(_END)
LISTED = 16
"""The greatest number of rankings of a period that are listed in its record."""
OPENED = 64
"""The number of a period's rankings whose directories are kept in memory."""
_LISTED_TOGETHER = 128
_SECRETS_TOGETHER = 4_096
_COPIED = 1 << 20

T = TypeVar("T")


class PeriodKey(Struct, frozen=True, array_like=True, order=True, gc=False):
    """A revision of a period of a board's window. `uid` is the unique id of the board; `instance`
    is the start of the period in milliseconds, or the number of a step. The garbage collector does
    not visit dicts with these keys, which may have a hundred thousand of them."""

    uid: str
    window: str
    instance: int
    revision: int = 0


class WrittenPeriod(Struct, frozen=True):
    """A period that was written: the number of its entries in all scopes, and their digest."""

    entries: int
    digest: bytes


class Place(Struct, frozen=True, array_like=True, gc=False):
    """The place of stored bytes in a period, counted from the beginning of the period."""

    start: int
    length: int


class RankingRecord(Struct, frozen=True, array_like=True, gc=False):
    """A ranking of a period: its scope, its number of entries, its directory, and the secrets of
    its salts, each with the level and the number of its node in the tree of salts. `erased` are the
    entries whose members were erased, in ascending order of their positions."""

    scope: str
    total: int
    directory: Place
    secrets: list[tuple[int, int, bytes]]
    erased: list[ErasedEntry] = []

    def salts(self) -> Salts:
        return Salts({(level, number): secret for level, number, secret in self.secrets})


class PeriodRecord(Struct, frozen=True, array_like=True, gc=False):
    """A period in the catalogue. The whole period is in the part of the file given by `start` and
    `length`, with the checksum `crc`; `hash_key` is the key of its member indexes. The records of
    its rankings are in `rankings`. If the records are many or have erased entries, they are in
    lists in the file instead, and `lists` is the place of a table with the first scope and the
    place of each list. `erased` is the number of erased entries."""

    key: PeriodKey
    entries: int
    digest: bytes
    start: int
    length: int
    crc: int
    hash_key: bytes
    rankings: list[RankingRecord]
    lists: Place | None
    erased: int = 0


class KeptRanking(Struct, frozen=True):
    """A ranking to be written with salts that exist already, and its erased entries."""

    ranking: FrozenRanking
    salts: Salts
    erased: list[ErasedEntry] = []


# The collector visits the items of a list at each collection, those of such a tuple only once.
_catalogue = msgspec.msgpack.Decoder(tuple[msgspec.Raw, ...])
_record = msgspec.msgpack.Decoder(PeriodRecord)
_rankings = msgspec.msgpack.Decoder(list[RankingRecord])
_lists = msgspec.msgpack.Decoder(list[tuple[str, Place]])


class SegmentBytes(Protocol):
    """The bytes of a segment."""

    @property
    def name(self) -> str: ...

    @property
    def nbytes(self) -> int: ...

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes. Raises ArchiveDamaged if the segment ends before them."""


class SegmentWriter:
    """Writes periods to a file. `secret(n)` returns n random bytes, `scratch` opens a temporary
    file, and `pause` is called between pieces of the work."""

    def __init__(
        self,
        file: BinaryIO,
        secret: Callable[[int], bytes],
        scratch: Scratch,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = file
        self._pause = pause
        self._secret = secret
        self._scratch = scratch
        self._at = file.write(_MAGIC + _VERSION.pack(_WITHOUT_ERASED))
        self._start = self._crc = 0
        self._records = bytearray()
        self._periods = 0
        self._has_erased = False

    def add(self, key: PeriodKey, rankings: Iterable[FrozenRanking]) -> WrittenPeriod:
        """Write a period, whose rankings are in ascending order of their scopes."""
        hash_key = self._secret(8)
        salted = (KeptRanking(ranking, Salts.of(self._secret(16))) for ranking in rankings)
        return self.add_kept(key, hash_key, salted)

    def add_kept(
        self, key: PeriodKey, hash_key: bytes, rankings: Iterable[KeptRanking]
    ) -> WrittenPeriod:
        """Write a period with salts that exist already, and with erased entries. The secrets of a
        ranking with erased entries are many, so they are not kept in memory."""
        self._begin()
        digest = PeriodDigest()
        listed: list[RankingRecord] = []
        lists: list[tuple[str, Place]] = []
        entries = secrets = erased = 0
        for each in rankings:
            ranking = each.ranking
            with RankingWriter(
                ranking, hash_key, self._append, self._scratch, self._pause
            ) as writer:
                place = Place(*writer.run(each.salts, digest, each.erased))
            nodes = [(*node, secret) for node, secret in each.salts.secrets.items()]
            listed.append(RankingRecord(ranking.scope, ranking.total, place, nodes, each.erased))
            entries, erased = entries + ranking.total, erased + len(each.erased)
            secrets += len(nodes)
            if len(listed) == _LISTED_TOGETHER or secrets > _SECRETS_TOGETHER:
                lists.append(self._listed(listed))
                listed, secrets = [], 0
        if listed and (lists or erased or len(listed) > LISTED):
            lists.append(self._listed(listed))
        place_of_lists = None
        if lists:
            listed = []
            place_of_lists = self._stored(msgspec.msgpack.encode(lists))
        length = self._at - self._start
        self._note(
            PeriodRecord(
                key, entries, digest.digest(), self._start, length, self._crc, hash_key, listed,
                place_of_lists, erased,
            )
        )  # fmt: skip
        return WrittenPeriod(entries, digest.digest())

    def copy(self, segment: SegmentBytes, record: PeriodRecord) -> None:
        """Copy a period of another segment, verified."""
        self._begin()
        stop = record.start + record.length
        for at in range(record.start, stop, _COPIED):
            self._append(segment.read(at, min(_COPIED, stop - at)))
        if self._crc != record.crc:
            raise ArchiveDamaged(f"a period in {segment.name} is not what was written")
        self._note(msgspec.structs.replace(record, start=self._start))

    def finish(self) -> None:
        """Write the catalogue and the foot. If they need a newer format, write its number to the
        head."""
        catalogue = checked(_array_head(self._periods) + self._records)
        place = _PLACE.pack(self._at, len(catalogue))
        self._file.write(catalogue + place + _CRC.pack(zlib.crc32(place)) + _END)
        if self._has_erased:
            self._file.seek(len(_MAGIC))
            self._file.write(_VERSION.pack(FORMAT))

    def _note(self, record: PeriodRecord) -> None:
        """Add a period to the catalogue. Periods are kept encoded in one object, because there may
        be many thousands and the garbage collector has to visit every object."""
        self._records += msgspec.msgpack.encode(record)
        self._periods += 1
        self._has_erased = self._has_erased or record.erased > 0

    def _begin(self) -> None:
        self._start, self._crc = self._at, 0

    def _listed(self, rankings: list[RankingRecord]) -> tuple[str, Place]:
        return rankings[0].scope, self._stored(msgspec.msgpack.encode(rankings))

    def _stored(self, body: bytes) -> Place:
        stored = checked(body)
        return Place(self._append(stored), len(stored))

    def _append(self, stored: bytes) -> int:
        """Append bytes, and return where they begin, counted from the start of the period."""
        start = self._at - self._start
        self._crc = zlib.crc32(stored, self._crc)
        self._at += self._file.write(stored)
        return start


def _array_head(count: int) -> bytes:
    """Return the first bytes of an array of `count` items in MessagePack."""
    if count < 16:
        return bytes([0x90 | count])
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def read_catalogue(segment: SegmentBytes) -> Iterator[PeriodRecord]:
    """Yield the records of all periods of a segment, which are decoded one after another. Raises
    ArchiveDamaged, FormatTooNew."""
    head = segment.read(0, len(_MAGIC) + _VERSION.size)
    if not head.startswith(_MAGIC):
        raise ArchiveDamaged(f"{segment.name} does not begin with the header of a segment")
    (version,) = _VERSION.unpack(head[len(_MAGIC) :])
    if version > FORMAT:
        raise FormatTooNew(
            f"{segment.name} is in format {version}, this version reads up to {FORMAT}"
        )
    if segment.nbytes < len(head) + _FOOT or version < 1:
        raise ArchiveDamaged(f"{segment.name} is not a whole segment")
    foot = segment.read(segment.nbytes - _FOOT, _FOOT)
    place = foot[: _PLACE.size]
    if foot[_PLACE.size :] != _CRC.pack(zlib.crc32(place)) + _END:
        raise ArchiveDamaged(f"{segment.name} does not end with the foot of a segment")
    body = verified(segment.read(*_PLACE.unpack(place)), segment.name)
    for encoded in _decoded(_catalogue, body, segment.name):
        yield _decoded(_record, encoded, segment.name)


class ArchivedPeriod:
    """A sealed period in a segment. Each method may raise ArchiveDamaged."""

    def __init__(self, segment: SegmentBytes, record: PeriodRecord) -> None:
        self._segment = segment
        self.record = record
        self._lists: list[tuple[str, Place]] | None = None
        self._opened: dict[str, ArchivedRanking] = {}

    def ranking(self, scope: str) -> ArchivedRanking | None:
        """Return the ranking of a scope, None if nobody is ranked there. Reads its directory, and
        in a period of many scopes the list that has the scope."""
        found = self._opened.get(scope)
        if found is None:
            for record in self._listed_with(scope):
                if record.scope == scope:
                    found = self.open_ranking(record)
                    if len(self._opened) >= OPENED:
                        self._opened.clear()
                    self._opened[scope] = found
        return found

    def rankings(self, scope: str = ALL) -> Iterator[RankingRecord]:
        """Yield the records of the rankings, in the order of their scopes, from a scope on."""
        if self.record.lists is None:
            yield from [each for each in self.record.rankings if each.scope >= scope]
        lists = self._all_lists()
        for _, place in lists[max(0, self._list_of(scope)) :]:
            yield from [each for each in self._rankings(place) if each.scope >= scope]

    def pieces(self, scope: str = ALL, position: int = 0) -> Iterator[SealedRanking | SealedRows]:
        """Yield rankings, each followed by its entries, beginning with the entry at `position` in
        the ranking of `scope`. The digest of the period can be computed from all its pieces."""
        for record in self.rankings(scope):
            ranking = self.open_ranking(record)
            start = position if record.scope == scope else 0
            if not start:
                yield ranking.form(record.scope, record.secrets, record.erased)
            while start < record.total:
                part = ranking.slice(start, start + BLOCK_ENTRIES - start % BLOCK_ENTRIES)
                start += len(part.members)
                yield sealed_rows([member.encode() for member in part.members], part.words)

    def part(self, part: SealedPart) -> list[SealedPiece]:
        """Return the pieces of a part of the period."""
        pieces: list[SealedPiece] = []
        room = part.limit
        for piece in self.pieces(part.scope, part.position):
            size = piece.size if isinstance(piece, SealedRows) else 1
            if pieces and size > room and not isinstance(pieces[-1], SealedRanking):
                break  # a page must not end with a ranking: the next page would begin with it again
            pieces.append(piece)
            room -= size
        return [self.revision(), *pieces] if part.is_first else pieces

    def revision(self) -> SealedRevision:
        """Return the description of this revision. Its seal has only what the archive stores of it:
        the number of entries and the digest."""
        key, entries, digest = self.record.key, self.record.entries, self.record.digest
        seal = SealedPeriod(0, entries, digest, key.revision)
        return SealedRevision(key.uid, key.window, key.instance, key.revision, seal)

    def computed_digest(self) -> bytes:
        """Read all stored entries, and return the digest computed from them."""
        digest = PeriodDigest()
        for record in self.rankings():
            digest.begin(record.scope)
            salts, position = record.salts(), 0
            for block in self.open_ranking(record).blocks():
                entries = EntryColumns.of(block.members, block.words)
                digest.add(hashes_from(salts, position, entries, record.erased))
                position += len(block)
        return digest.digest()

    def open_ranking(self, record: RankingRecord) -> ArchivedRanking:
        """Return a ranking of the period. Reads its directory."""
        directory = read_directory(self._read(record.directory.start, record.directory.length))
        erased = [each.position for each in record.erased]
        return ArchivedRanking(directory, self.record.hash_key, self._read, erased)

    def _listed_with(self, scope: str) -> list[RankingRecord]:
        """Return a list of rankings that includes the ranking of a scope, if the period has one."""
        if self.record.lists is None:
            return self.record.rankings
        at = self._list_of(scope)
        return [] if at < 0 else self._rankings(self._all_lists()[at][1])

    def _list_of(self, scope: str) -> int:
        """Return the number of the list that has a scope, -1 if none can have it."""
        return bisect_right(self._all_lists(), scope, key=lambda each: each[0]) - 1

    def _all_lists(self) -> list[tuple[str, Place]]:
        if self._lists is None:
            place = self.record.lists
            self._lists = (
                []
                if place is None
                else _decoded(_lists, self._read(place.start, place.length), self._segment.name)
            )
        return self._lists

    def _rankings(self, place: Place) -> list[RankingRecord]:
        return _decoded(_rankings, self._read(place.start, place.length), self._segment.name)

    def _read(self, start: int, length: int) -> bytes:
        """Return the verified bytes at a position of the period."""
        stored = self._segment.read(self.record.start + start, length)
        return verified(stored, self._segment.name)


def _decoded(decoder: "msgspec.msgpack.Decoder[T]", body: bytes | msgspec.Raw, name: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ArchiveDamaged(f"a part of {name} is not what was written") from error
