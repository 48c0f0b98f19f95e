"""The archive of a store: the standings of its sealed periods.

Only the catalogue is in memory; it says where each period is. A segment has one period, or several
that were written together. When there are many small segments, they are joined. When most of a
segment is no longer wanted, it is rewritten. All bytes are verified when they are read, so damage
is an error and never a wrong answer.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import BinaryIO

import msgspec
from msgspec import Struct

from laurels.core.pending_erasure import ErasedPeriods
from laurels.errors import ArchiveDamaged, StorageFailed

from .erasing import find_member, write_erased
from .folder import Segments
from .ranking_form import FrozenRanking
from .segment import (
    ArchivedPeriod,
    KeptRanking,
    PeriodKey,
    PeriodRecord,
    SegmentWriter,
    WrittenPeriod,
    read_catalogue,
)

SMALL_BYTES = 4 << 20
"""A segment of at most this size is joined with others."""
MANY_SMALL = 32
"""The number of small segments from which they are joined."""
OPENED = 64
"""The number of periods that are kept open."""
LISTED = 500
"""How many periods of the catalogue are visited between two pauses."""
_log = logging.getLogger("laurels")


class _Entry(Struct, frozen=True, gc=False):
    """A period of the catalogue: the number of its segment, the length of its part of the segment,
    and its record. The record stays encoded, which takes less memory and no time of the garbage
    collector."""

    segment: int
    length: int
    encoded: bytes

    @property
    def record(self) -> PeriodRecord:
        return _records.decode(self.encoded)


_records = msgspec.msgpack.Decoder(PeriodRecord)
"""Decodes what `read_catalogue` has checked."""


class Archive:
    """Sealed periods in segments. Threads may read while one writes. `secret(n)` returns n random
    bytes. Opening an archive reads the catalogue of each segment. A segment whose catalogue is
    damaged is left out, and its file is kept. Raises FormatTooNew, StorageFailed."""

    def __init__(self, segments: Segments, secret: Callable[[int], bytes]) -> None:
        self._segments = segments
        self._secret = secret
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._periods: dict[PeriodKey, _Entry] = {}
        self._sizes: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        """By segment, the number of bytes that belong to periods of the catalogue."""
        self._opened: OrderedDict[PeriodKey, ArchivedPeriod] = OrderedDict()
        self._newest = 0
        self.erasures = 0
        """The number of erasures since the archive was opened."""
        for number in segments.numbers():
            self._newest = number
            try:
                self._load(number)
            except ArchiveDamaged as error:
                _log.warning("a segment of the archive is left out: %s", error)

    def write(
        self,
        periods: Iterable[tuple[PeriodKey, Iterable[FrozenRanking]]],
        pause: Callable[[], None] = lambda: None,
    ) -> list[WrittenPeriod]:
        """Write periods into one segment, which is durable when this returns. The rankings of a
        period are in ascending order of their scopes, without empty ones. A period that is in the
        archive already is replaced. `pause` is called between pieces of the work, which take one to
        three milliseconds each."""
        written: list[WrittenPeriod] = []

        def write(writer: SegmentWriter) -> None:
            written.extend([writer.add(key, rankings) for key, rankings in periods])

        with self._writing:
            self._add(write, pause)
            self._tidy(pause)
        return written

    def write_kept(
        self, periods: Iterable[tuple[PeriodKey, Iterable[KeptRanking]]]
    ) -> list[WrittenPeriod]:
        """Copy periods of another archive into one segment of this archive, and keep their salts;
        see `write`. Raises ValueError if a ranking has another number of entries than its
        `KeptRanking` says."""
        written: list[WrittenPeriod] = []

        def write(writer: SegmentWriter) -> None:
            for key, rankings in periods:
                written.append(writer.add_kept(key, self._secret(8), rankings))

        with self._writing:
            self._add(write, lambda: None)
            self._tidy(lambda: None)
        return written

    def spool(self) -> BinaryIO:
        """Return an empty file for periods that are not complete yet. It is removed when it is
        closed, or when the process ends. Raises StorageFailed."""
        return self._segments.spool()

    def open(self, key: PeriodKey) -> ArchivedPeriod | None:
        """Return a period, None if it is not in the archive. Its segment is opened without the
        lock, since the disk may hang. If the period is moved to another segment meanwhile, that
        segment is opened instead."""
        while True:
            with self._lock:
                if (period := self._opened.get(key)) is not None:
                    self._opened.move_to_end(key)
                    return period
                if (entry := self._periods.get(key)) is None:
                    return None
            try:
                period = ArchivedPeriod(self._segments.open(entry.segment), entry.record)
            except StorageFailed:
                if self._periods.get(key) is entry:
                    raise
                continue
            with self._lock:
                if self._periods.get(key) is entry:
                    self._opened[key] = period
                    if len(self._opened) > OPENED:
                        self._opened.popitem(last=False)
                    return period

    def periods(self) -> list[PeriodKey]:
        """Return the keys of all periods, sorted."""
        with self._lock:
            return sorted(self._periods)

    def __contains__(self, key: PeriodKey) -> bool:
        return key in self._periods

    def drop(self, keys: Iterable[PeriodKey]) -> None:
        """Remove periods from the catalogue. Their space is freed by a later write, once most of
        their segment is no longer wanted."""
        with self._writing, self._lock:
            for key in keys:
                self._forget(key)
                self._opened.pop(key, None)

    def of_board(self, uid: str) -> list[PeriodKey]:
        """Return the keys of all periods of a board, sorted. O(periods)."""
        return [key for key in self.periods() if key.uid == uid]

    def digest(self, key: PeriodKey) -> bytes | None:
        """Return the digest of a period in the catalogue, None if the period is not in the
        archive."""
        entry = self._periods.get(key)
        return None if entry is None else entry.record.digest

    def find(self, member: bytes) -> list[PeriodKey]:
        """Return the periods that have a member, including periods that are no longer in the
        catalogue but still in a segment. O(rankings). Raises ArchiveDamaged if a segment cannot be
        read."""
        with self._writing:
            return [
                each.record.key
                for number in self._segments.numbers()
                for each in find_member(self._segments.open(number), member)
            ]

    def erase(
        self,
        member: bytes,
        token: str,
        pause: Callable[[], None] = lambda: None,
        erased_from: ErasedPeriods = lambda *_: True,
    ) -> int:
        """Replace a member by a token in the periods for which `erased_from` returns true, by
        default in all. Return the number of periods that had the member. For each segment with the
        member a new segment is written; the old one is removed once the new one is durable. A call
        that fails, or whose process dies, is completed by the next one; periods that earlier calls
        have rewritten are not counted again. `pause` is called between pieces of the work.

        Raises StorageFailed. If segments are damaged, the member is erased from all others; then
        ArchiveDamaged is raised, which names the first damaged segment.
        """
        erased, damaged = 0, None
        self.erasures += 1
        with self._writing:
            for number in self._segments.numbers():
                try:
                    erased += self._erase_from(number, member, token, pause, erased_from)
                except ArchiveDamaged as error:
                    damaged = damaged or error
        if damaged is not None:
            raise damaged
        return erased

    def _erase_from(
        self,
        number: int,
        member: bytes,
        token: str,
        pause: Callable[[], None],
        erased_from: ErasedPeriods,
    ) -> int:
        """Erase a member from a segment; return the number of its periods that had it."""
        segment = self._segments.open(number)
        wanted = [entry.record for entry in self._periods.values() if entry.segment == number]
        kept = {
            record.key
            for record in wanted
            if not erased_from(record.key.uid, record.key.window, record.key.instance)
        }
        found = [each for each in find_member(segment, member) if each.record.key not in kept]
        if not found:
            return 0
        if wanted:
            self._add(lambda writer: write_erased(writer, segment, wanted, found, token), pause)
        self._segments.remove_durably(number)
        with self._lock:
            self._sizes.pop(number, None)
            self._wanted.pop(number, None)
        keys = {record.key for record in wanted}
        return sum([each.record.key in keys for each in found])

    def close(self) -> None:
        """Wait until nothing is written any more, and close the files that are open."""
        with self._writing, self._lock:
            self._opened.clear()

    def _load(self, number: int, pause: Callable[[], None] = lambda: None) -> None:
        """Add the periods of a segment to the catalogue."""
        segment = self._segments.open(number)
        entries: dict[PeriodKey, _Entry] = {}
        for record in read_catalogue(segment):
            encoded = msgspec.msgpack.encode(record)
            entries[record.key] = _Entry(number, record.length, encoded)
            pause()
        with self._lock:
            self._sizes[number] = segment.nbytes
            self._wanted[number] = 0
        items = iter(entries.items())
        while part := list(islice(items, LISTED)):
            with self._lock:
                for key, entry in part:
                    self._forget(key)
                    self._periods[key] = entry
                    self._wanted[number] += max(1, entry.length)
                    self._opened.pop(key, None)
            pause()

    def _forget(self, key: PeriodKey) -> None:
        """Remove a period from the catalogue, if it is there."""
        if (entry := self._periods.pop(key, None)) is not None:
            self._wanted[entry.segment] -= max(1, entry.length)

    def _add(self, write: Callable[[SegmentWriter], None], pause: Callable[[], None]) -> None:
        """Write a new segment, and add its periods to the catalogue."""
        self._newest += 1
        number = self._newest

        def write_file(file: BinaryIO) -> None:
            writer = SegmentWriter(file, self._secret, self._segments.scratch, pause)
            write(writer)
            writer.finish()

        self._segments.write(number, write_file)
        self._load(number, pause)

    def _tidy(self, pause: Callable[[], None]) -> None:
        """Join small segments if there are many. Rewrite each segment that consists mostly of
        unwanted periods. If that fails, the segments stay as they are."""
        try:
            self._join_some(pause)
        except (ArchiveDamaged, StorageFailed) as error:
            _log.warning("segments of the archive could not be joined: %s", error)

    def _join_some(self, pause: Callable[[], None]) -> None:
        self._remove([number for number, nbytes in self._wanted.items() if not nbytes], pause)
        waste = {number for number, size in self._sizes.items() if 2 * self._wanted[number] < size}
        small = {number for number, size in self._sizes.items() if size <= SMALL_BYTES}
        for number in waste - small:
            self._join([number], pause)
        if len(small) >= MANY_SMALL:
            self._join(small, pause)

    def _join(self, numbers: Collection[int], pause: Callable[[], None]) -> None:
        """Copy the wanted periods of segments into a new one, and remove these segments."""
        if any(self._wanted[number] for number in numbers):
            self._add(lambda writer: self._copy(writer, numbers, pause), pause)
        self._remove(numbers, pause)

    def _copy(
        self, writer: SegmentWriter, numbers: Iterable[int], pause: Callable[[], None]
    ) -> None:
        """Copy the wanted periods of segments."""
        for number in sorted(numbers):
            segment = self._segments.open(number)
            for record in read_catalogue(segment):
                entry = self._periods.get(record.key)
                if entry is not None and entry.segment == number:
                    writer.copy(segment, record)
                pause()

    def _remove(self, numbers: Iterable[int], pause: Callable[[], None]) -> None:
        for number in [*numbers]:
            self._segments.remove(number)
            with self._lock:
                del self._sizes[number], self._wanted[number]
            pause()
