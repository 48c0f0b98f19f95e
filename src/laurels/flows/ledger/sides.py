"""Read and mend the entries of a board in its ledger and in its store, as of the same position."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import (
    LaurelsError,
    PeriodExpired,
    PeriodFuture,
    UnknownPeriod,
    UnknownScope,
    UnknownWindow,
)
from laurels.model.board import Board
from laurels.sql.dialects import Dialect
from laurels.sql.texts import RankingName, is_member

from .comparing import Key, value_of
from .locked import LockedRows, SinkPosition
from .reading import EntryReader
from .rounds import changed_since


class EntrySnapshot(Struct, frozen=True):
    """Entries of both sides as of `position`. `settled` are the keys of entries that can be
    compared, since their members have no changes after the position; `waiting` are the keys of
    entries whose members have such changes. A key in a period that the store no longer keeps is in
    neither."""

    position: SinkPosition
    settled: list[Key]
    waiting: list[Key]
    ledger: dict[Key, StoredEntry]
    store: dict[Key, StoredEntry]


class BoardSides:
    """A board in its ledger and in its store."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        dialect: Dialect,
        definition: Board,
        labels: dict[str, dict[str, str]],
        rows: LockedRows,
    ) -> None:
        self._lb = lb
        self._dialect = dialect
        self._name = definition.name
        self._rules = definition.rules()
        self._labels = labels
        self._rows = rows

    async def read(self, keys: Sequence[Key]) -> EntrySnapshot:
        """Read entries of both sides as of the ledger's position, at which its sink waits until
        `unlock` is called."""
        position = await asyncio.to_thread(self._rows.lock)
        members = list(dict.fromkeys(member for member, _ in keys))
        rows = await asyncio.to_thread(self._rows.rows, members)
        reader = EntryReader(self._dialect, self._rules, self._labels)
        ledger = {}
        for row in rows:
            entry = reader.entry(row)
            ledger[entry.member, (row[1], row[2], row[3])] = entry
        store, expired = await self._store_entries(keys)
        changed = (await changed_since(self._lb, self._name, position)).members
        kept = [key for key in keys if key not in expired]
        return EntrySnapshot(
            position,
            [key for key in kept if key[0] not in changed],
            [key for key in kept if key[0] in changed],
            ledger,
            store,
        )

    async def unlock(self) -> None:
        await asyncio.to_thread(self._rows.unlock)

    def differs(self, read: EntrySnapshot, key: Key) -> bool:
        """Return whether an entry differs between the ledger and the store."""
        return self._value(read.ledger.get(key)) != self._value(read.store.get(key))

    def _value(self, entry: StoredEntry | None) -> object:
        return None if entry is None else value_of(entry, self._dialect)

    async def mend_ledger(self, read: EntrySnapshot, differing: Sequence[Key]) -> None:
        """Write the entries of the store into the ledger, and delete from the ledger those that the
        store does not have."""
        absent = [key for key in differing if key not in read.store]
        if absent:
            await asyncio.to_thread(self._rows.delete, absent)
        for name, keys in _by_ranking([key for key in differing if key in read.store]).items():
            entries = [read.store[key] for key in keys]
            await asyncio.to_thread(self._rows.write, name, entries, read.position.generation)

    async def mend_store(self, read: EntrySnapshot, differing: Sequence[Key]) -> set[Key]:
        """Write the entries of the ledger into the store in one call, except those that have
        changed in the store since they were read; return the keys of those written. If the store
        refuses the call because no ranking can have one of the entries, the others are written
        without it."""
        rankings = [
            self._replacement(read, name, keys) for name, keys in _by_ranking(differing).items()
        ]
        try:
            done = await self._lb.mend(self._name, rankings)
        except LaurelsError as error:
            if error.status not in (400, 404):
                raise
            half = len(differing) // 2
            if not half:
                return set()
            first = await self.mend_store(read, differing[:half])
            return first | await self.mend_store(read, differing[half:])
        if done == len(differing):
            return set(differing)
        store, _ = await self._store_entries(differing)
        return {
            key
            for key in differing
            if self._value(store.get(key)) == self._value(read.ledger.get(key))
        }

    def _replacement(
        self, read: EntrySnapshot, name: RankingName, keys: Sequence[Key]
    ) -> RankingEntries:
        """Return the command that replaces the entries of a ranking in the store by those of the
        ledger, unless they have changed since they were read."""
        window, period, scope = name
        wanted = [read.ledger.get(key) or StoredEntry(key[0]) for key in keys]
        expected = [read.store.get(key) or StoredEntry(key[0]) for key in keys]
        labels = self._labels.get(scope, {})
        return RankingEntries(window, period or None, labels, wanted, expected)

    async def _store_entries(self, keys: Sequence[Key]) -> tuple[dict[Key, StoredEntry], set[Key]]:
        """Return the entries of the store, and the keys in periods that the store no longer
        keeps."""
        entries_by_key: dict[Key, StoredEntry] = {}
        expired: set[Key] = set()
        for name, ranking_keys in _by_ranking(keys).items():
            window, period, scope = name
            members = [member for member, _ in ranking_keys if is_member(member)]
            try:
                entries = await self._lb.entries(
                    self._name,
                    members,
                    window=window,
                    period=period or None,
                    labels=self._labels.get(scope, {}),
                )
            except PeriodExpired:
                expired.update(ranking_keys)
            except (UnknownWindow, UnknownPeriod, UnknownScope, PeriodFuture):
                continue  # no ranking of the store has this name
            else:
                entries_by_key |= {(e.member, name): e for e in entries if e.score is not None}
        return entries_by_key, expired


def _by_ranking(keys: Sequence[Key]) -> dict[RankingName, list[Key]]:
    by_ranking: dict[RankingName, list[Key]] = {}
    for key in keys:
        by_ranking.setdefault(key[1], []).append(key)
    return by_ranking
