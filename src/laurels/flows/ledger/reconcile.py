"""Compare a ledger with the store whose changes it was made of, and mend one by the other.

Entries that seem to differ are read again on both sides before anything is said or written: the
rows while the sink waits at its position, then the entries of the store, then the changes of the
store after that position. A member with changes there is left for the next round, since the sink
will write it. What still differs is a difference. A store is mended where its entry is still the
one that was read; a ledger while its sink waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import (
    ChangesExpired,
    CursorDiverged,
    LaurelsError,
    PeriodExpired,
    PeriodFuture,
    UnknownPeriod,
    UnknownScope,
    UnknownWindow,
)
from laurels.errors.sinks import SinkBehind
from laurels.model.board import Board
from laurels.model.event import member_bytes

from .comparing import Comparing, Key, value_of
from .dialects import Dialect
from .locked import LedgerPlace, LockedRows
from .reading import EntryReader
from .rows import RankingName

Side = Literal["ledger", "store"]
AT_ONCE = 200
"""Entries that are checked together, while the sink waits."""
ROUNDS = 8
WAIT_SECONDS = 0.25
CHANGES = 10_000
SHOWN = 20
"""The most differences that are listed."""


class EntryDifference(Struct, frozen=True):
    """An entry in which the two sides differ; `ledger` or `store` is None without one."""

    member: str
    window: str
    period: str | None
    scope: str
    ledger: StoredEntry | None
    store: StoredEntry | None


class Reconciled(Struct, frozen=True):
    """The result: how many `entries` the store has, how many differed, how many of these were
    `mended`, and how many could not be judged, since their members have changes that the sink has
    not written yet. `differences` has the first ones."""

    board: str
    entries: int
    differing: int = 0
    mended: int = 0
    waiting: int = 0
    differences: tuple[EntryDifference, ...] = ()

    @property
    def remaining(self) -> int:
        """The number of differences that were not mended."""
        return self.differing - self.mended


class _Read(Struct, frozen=True):
    """Entries of both sides as of one position, without members that have changes after it."""

    place: LedgerPlace
    settled: list[Key]
    waiting: list[Key]
    ledger: dict[Key, StoredEntry]
    store: dict[Key, StoredEntry]


class Reconciling:
    """Compares a board with its ledger, and mends one side if it is told which."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        dialect: Dialect,
        prefix: str,
        mend: Side | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._lb = lb
        self._dialect = dialect
        self._prefix = prefix
        self._mend = mend
        self._sleep = sleep

    async def run(self, name: str) -> Reconciled:
        """Compare a board. Raises NoLedger, LedgerIncomplete, SinkBehind, ChangesNotKept."""
        definition = await self._lb.get(name)
        comparison = await Comparing(self._lb, self._dialect, self._prefix, name).run()
        rows = LockedRows(self._dialect, self._prefix, name, definition.rules())
        board = _Board(self._lb, self._dialect, definition, comparison.labels, rows)
        left = comparison.differing
        differing: dict[Key, EntryDifference] = {}
        mended: set[Key] = set()
        try:
            for round in range(ROUNDS):
                if round and left:
                    await self._sleep(WAIT_SECONDS)
                again: list[Key] = []
                for chunk in _chunks(left):
                    again += await self._check(board, chunk, differing, mended)
                left = again
                if not left:
                    break
        finally:
            await asyncio.to_thread(rows.close)
        return Reconciled(
            name,
            comparison.entries,
            len(differing),
            len(mended),
            len([key for key in left if key not in differing]),
            tuple(list(differing.values())[:SHOWN]),
        )

    async def _check(
        self,
        board: "_Board",
        keys: Sequence[Key],
        differing: dict[Key, EntryDifference],
        mended: set[Key],
    ) -> list[Key]:
        """Check entries again, and mend those that differ; return those to be checked later."""
        try:
            read = await board.read(keys)
            wrong = [key for key in read.settled if board.differs(read, key)]
            for key in read.settled:
                if key not in wrong and key not in mended:
                    differing.pop(key, None)
            for key in wrong:
                member, (window, period, scope) = key
                differing[key] = EntryDifference(
                    *(member, window, period or None, scope),
                    read.ledger.get(key),
                    read.store.get(key),
                )
            if self._mend == "ledger" and wrong:
                await board.mend_ledger(read, wrong)
                mended.update(wrong)
        finally:
            await board.unlock()
        if self._mend != "store" or not wrong:
            return read.waiting
        done = await board.mend_store(read, wrong)
        mended.update(done)
        return [*read.waiting, *[key for key in wrong if key not in done]]


class _Board:
    """A board on both sides."""

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

    async def read(self, keys: Sequence[Key]) -> _Read:
        """Read entries of both sides as of the ledger's position, at which its sink waits until
        `unlock`."""
        place = await asyncio.to_thread(self._rows.lock)
        members = list(dict.fromkeys(member for member, _ in keys))
        found = await asyncio.to_thread(self._rows.rows, members)
        reader = EntryReader(self._dialect, self._rules, self._labels)
        ledger = {}
        for row in found:
            entry = reader.entry(row)
            ledger[entry.member, (row[1], row[2], row[3])] = entry
        store, gone = await self._stored(keys)
        changed = await self._changed_since(place)
        kept = [key for key in keys if key not in gone]
        return _Read(
            place,
            [key for key in kept if key[0] not in changed],
            [key for key in kept if key[0] in changed],
            ledger,
            store,
        )

    async def unlock(self) -> None:
        await asyncio.to_thread(self._rows.unlock)

    def differs(self, read: _Read, key: Key) -> bool:
        """Return whether an entry differs."""
        return self._value(read.ledger.get(key)) != self._value(read.store.get(key))

    def _value(self, entry: StoredEntry | None) -> object:
        return None if entry is None else value_of(entry, self._dialect)

    async def mend_ledger(self, read: _Read, wrong: Sequence[Key]) -> None:
        """Write the entries of the store into the ledger."""
        gone = [key for key in wrong if key not in read.store]
        if gone:
            await asyncio.to_thread(self._rows.delete, gone)
        for name, keys in _by_ranking([key for key in wrong if key in read.store]).items():
            entries = [read.store[key] for key in keys]
            await asyncio.to_thread(self._rows.write, name, entries, read.place.generation)

    async def mend_store(self, read: _Read, wrong: Sequence[Key]) -> set[Key]:
        """Write the entries of the ledger into the store, where it still has those that were read;
        return those that were written."""
        done: set[Key] = set()
        for name, keys in _by_ranking(wrong).items():
            window, period, scope = name
            labels = self._labels.get(scope, {})
            for key in keys:
                wanted = read.ledger.get(key) or StoredEntry(key[0])
                expected = read.store.get(key) or StoredEntry(key[0])
                ranking = RankingEntries(window, period or None, labels, [wanted], [expected])
                try:
                    if await self._lb.mend(self._name, [ranking]):
                        done.add(key)
                except LaurelsError as error:
                    if error.status not in (400, 404):
                        raise  # else no ranking could have this entry
        return done

    async def _stored(self, keys: Sequence[Key]) -> tuple[dict[Key, StoredEntry], set[Key]]:
        """Return the entries that the store has, and the keys of periods that it no longer
        keeps."""
        found: dict[Key, StoredEntry] = {}
        gone: set[Key] = set()
        for name, of_ranking in _by_ranking(keys).items():
            window, period, scope = name
            members = [member for member, _ in of_ranking if _is_member(member)]
            try:
                entries = await self._lb.entries(
                    self._name,
                    members,
                    window=window,
                    period=period or None,
                    labels=self._labels.get(scope, {}),
                )
            except PeriodExpired:
                gone.update(of_ranking)
            except (UnknownWindow, UnknownPeriod, UnknownScope, PeriodFuture):
                continue  # no ranking of the store is named so
            else:
                found |= {(e.member, name): e for e in entries if e.score is not None}
        return found, gone

    async def _changed_since(self, place: LedgerPlace) -> set[str]:
        """Return the members with changes after the position of the ledger. Raises SinkBehind."""
        changed: set[str] = set()
        after, more = place.position, True
        try:
            while more:
                page = await self._lb.changes(self._name, after=after, limit=CHANGES)
                changed.update([c.member for c in page.changes if c.member is not None])
                after, more = page.cursor, page.more
        except (ChangesExpired, CursorDiverged) as error:
            raise SinkBehind(f"the sink {place.sink!r}: {error.what}") from error
        return changed


def _is_member(member: str) -> bool:
    """Return whether a board can have a member of that id."""
    try:
        return bool(member_bytes(member))
    except LaurelsError:
        return False


def _by_ranking(keys: Sequence[Key]) -> dict[RankingName, list[Key]]:
    found: dict[RankingName, list[Key]] = {}
    for key in keys:
        found.setdefault(key[1], []).append(key)
    return found


def _chunks(keys: Sequence[Key]) -> list[Sequence[Key]]:
    return [keys[first : first + AT_ONCE] for first in range(0, len(keys), AT_ONCE)]


def sentence(result: Reconciled) -> str:
    """Return the result in words."""
    parts = [f"{result.board}: {result.entries:,} entries, {result.differing:,} differ"]
    if result.differing:
        parts.append(f"{result.mended:,} mended")
    if result.waiting:
        parts.append(f"{result.waiting:,} could not be judged: the sink has not written them yet")
    return "; ".join(parts)
