"""Find the entries that differ between a ledger and a store.

Both are read once. The members are divided into buckets by a hash of their ids; for each bucket the
entries are counted, and their hashes added up. If buckets differ, both sides are read again, and
the entries of these buckets are compared one by one, in groups that fit in memory. Both sides
change meanwhile, so each difference is checked again before it is reported.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import blake2b

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change
from laurels.core.changes.beginning import is_last
from laurels.core.mending import StoredEntry
from laurels.sql.dialects import Dialect
from laurels.sql.texts import BUCKETS, RankingName, bucket_of, scope_text

from .reading import EntryReader, LedgerBoard, LedgerReader

PAGE = 10_000
MAX_ENTRIES = 200_000
"""The maximum number of entries of one side that are in memory at a time."""
_MASK = (1 << 63) - 1

Key = tuple[str, RankingName]
"""The key of an entry: its member and its ranking."""
Value = tuple[object, ...]
"""The compared values of an entry: the numbers of its score, and its times."""


class LedgerComparison(Struct, frozen=True):
    """The entries that seem to differ, the number of entries in the store, and the labels of each
    scope."""

    differing: list[Key]
    entries: int
    labels: dict[str, dict[str, str]]


def value_of(entry: StoredEntry, dialect: Dialect) -> Value | None:
    """Return the values of an entry that are compared, as a ledger stores them; None for an entry
    without a score."""
    if entry.score is None:
        return None
    parts = entry.score if isinstance(entry.score, tuple) else (entry.score,)
    return (*map(dialect.after_round_trip, parts), entry.reached_ms, entry.last_ms)


class _BucketSums:
    """The number of entries in each bucket, and the sum of their hashes."""

    def __init__(self) -> None:
        self.counts = array("q", [0]) * BUCKETS
        self.hashes = array("q", [0]) * BUCKETS

    def add(self, key: Key, value: Value) -> None:
        bucket = bucket_of(key[0])
        digest = blake2b(repr((key, *map(str, value))).encode(), digest_size=8).digest()
        self.counts[bucket] += 1
        self.hashes[bucket] = (self.hashes[bucket] + int.from_bytes(digest, "big")) & _MASK


class LedgerComparer:
    """Compares a board of a store with its ledger."""

    def __init__(self, lb: AsyncLeaderboards, dialect: Dialect, prefix: str, board: str) -> None:
        self._lb = lb
        self._dialect = dialect
        self._prefix = prefix
        self._board = board
        self._labels: dict[str, dict[str, str]] = {}

    async def run(self) -> LedgerComparison:
        """Compare all entries of both sides, and return those that seem to differ."""
        store, ledger = _BucketSums(), _BucketSums()
        async for key, value in self._store_entries():
            store.add(key, value)
        async for key, value in self._ledger_entries():
            ledger.add(key, value)
        differing_buckets = [
            bucket
            for bucket in range(BUCKETS)
            if store.counts[bucket] != ledger.counts[bucket]
            or store.hashes[bucket] != ledger.hashes[bucket]
        ]
        differing: list[Key] = []
        for group in _groups(differing_buckets, ledger.counts, store.counts):
            differing += await self._compare(group)
        return LedgerComparison(differing, sum(store.counts), self._labels)

    async def _compare(self, buckets: set[int]) -> list[Key]:
        """Return the keys of the entries in these buckets that differ."""
        unmatched: dict[Key, Value] = {}
        async for key, value in self._ledger_entries():
            if bucket_of(key[0]) in buckets:
                unmatched[key] = value
        differing: list[Key] = []
        async for key, value in self._store_entries():
            if bucket_of(key[0]) in buckets and unmatched.pop(key, None) != value:
                differing.append(key)
        return [*differing, *unmatched]

    async def _store_entries(self) -> AsyncIterator[tuple[Key, Value]]:
        page = await self._lb.changes(self._board, limit=PAGE, initial=True)
        while True:
            for change in page.changes:
                if change.kind == "initial":
                    yield self._entry_of_change(change)
            if is_last(page):
                return
            page = await self._lb.changes(self._board, after=page.cursor, limit=PAGE)

    def _entry_of_change(self, change: Change) -> tuple[Key, Value]:
        (ranking,) = change.rankings
        assert change.member is not None
        entry = StoredEntry(change.member, ranking.score, ranking.reached_ms, ranking.last_ms)
        value = value_of(entry, self._dialect)
        assert value is not None
        scope = scope_text(ranking.labels)
        if scope:
            self._labels[scope] = ranking.labels or {}
        return (change.member, (ranking.window, ranking.period or "", scope)), value

    async def _ledger_entries(self) -> AsyncIterator[tuple[Key, Value]]:
        reader = LedgerReader(self._dialect, self._prefix)
        await asyncio.to_thread(reader.open)
        try:
            board = await asyncio.to_thread(reader.board, self._board)
            entries = await asyncio.to_thread(reader.reader, board)
            pages = _pages(reader, board, entries)
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                for (window, period, scope), entry in page:
                    labels = entries.labels(scope)
                    if labels:
                        self._labels[scope] = labels
                    value = value_of(entry, self._dialect)
                    if value is not None:
                        yield (entry.member, (window, period, scope)), value
        finally:
            await asyncio.to_thread(reader.close)


def _pages(
    reader: LedgerReader, board: LedgerBoard, entries: EntryReader
) -> Iterator[list[tuple[RankingName, StoredEntry]]]:
    for rows in reader.rows(board):
        yield [((row[1], row[2], row[3]), entries.entry(row)) for row in rows]


def _groups(buckets: Sequence[int], *counts: Sequence[int]) -> Iterator[set[int]]:
    """Divide buckets into groups whose entries fit in memory."""
    group: set[int] = set()
    size = 0
    for bucket in buckets:
        more = max(count[bucket] for count in counts)
        if group and size + more > MAX_ENTRIES:
            yield group
            group, size = set(), 0
        group.add(bucket)
        size += more
    if group:
        yield group
