"""Copies the memory index in pieces while it changes.

**Rows.** A copy has a row for each entry of a ranking and each cell of a tally: the structure, the
member, the words. If a structure has several rows of a member, the last row is valid; a row without
words means that the member is not in the structure. So the current state can be copied first, in
any number of pieces. Later changes follow as further rows. Each write reports the members and
structures that it touched, and the next *round* copies these again. Copying rows is much faster
than counting events, so each round leaves less to copy than the round before. When little is left,
`finish` reads the rest at once, and the copy then has the state of that instant.

**Order.** A ranking is copied in its own order, continuing after the key of the last entry copied;
a tally is copied in the order of its hash. So even if the structure changes, no untouched entry is
skipped; touched entries are copied again anyway.

**Structures** are numbered in the order in which they are copied. The list of a scope's structures,
with their names and numbers, is written after their rows. It is written again in each round that
copies the scope. Only structures in the last list are read back. The prepared ranking of a rolling
window is left out: it is derived from the live one. When a window rotates, another structure
becomes the live ranking, and is copied from its beginning.

**Members** are named at the end of a round, if a row refers to them. So members that are in no
structure are left out.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec
from msgspec import Struct

from laurels.core.index import Describe, Section
from laurels.core.ranking_key import RankingKey
from laurels.engine.batch.packing import pack
from laurels.engine.roster.roster import Roster, set_flags
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet

from .board_store import BoardStore, ScopeStore
from .remembered import Remembered
from .sections import (
    BOARD,
    DATA,
    IDS,
    NAMES,
    ROWS,
    Contents,
    Data,
    Ids,
    Names,
    Rows,
    Stored,
    Structure,
)
from .touched import TouchedIds

CHUNK = 4_096
"""The number of rows in a piece. If they are contiguous, reading them takes about a millisecond."""
SCATTERED = 8
"""How many contiguous rows are read in the time that it takes to look up one row by its member, or
the scopes of one board."""
MAX_LEFT = 2_048
"""The maximum number of rows, scopes or new members that may be left for `finish`."""
MAX_ROUNDS = 12
_BOARDS = 64
_DESCRIBED = 512
"""How many contiguous rows are read in the time that it takes to describe one scope."""


Unit = tuple[int, str]
"""A scope of a board: the unit of copying."""


class Touched(Struct):
    """The parts of a scope that writes have touched since it was copied: members, structures and,
    in the scope of all events, the members with new data."""

    ids: TouchedIds = msgspec.field(default_factory=TouchedIds)
    structures: set[Structure] = msgspec.field(default_factory=set)
    data: dict[bytes, None] = msgspec.field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode


class Copying:
    """A copy in progress. Every method is called under the lock that excludes writes."""

    def __init__(
        self,
        store: Callable[[int], BoardStore | None],
        followed: Callable[[int, str], ScopeStore | None],
        boards: Sequence[int],
        roster: Roster,
    ) -> None:
        self._store_of = store
        self._followed = followed
        self._roster = roster
        self._flags = bytearray(len(roster))
        self._named_count = 0
        self._numbers: dict[Structure, int] = {}
        self._next_number = 0
        self._touched: dict[Unit, Touched] = {}
        self._followed_units: set[Unit] = set()
        self._boards: Sequence[int] = boards
        """The boards whose scopes the first round copies; none later."""
        self._listing: dict[int, None] = {}
        self._round: dict[Unit, Touched] = {}
        self._rounds = 1
        self._rows_again = 0
        self._work: Iterator[list[Section]] | None = None

    # Methods that record writes during the copy

    def touch(
        self,
        board: int,
        scope: str,
        ids: Sequence[int] = (),
        structures: Sequence[Structure] = (),
    ) -> None:
        """Record that members of structures may have changed. Without members, record that a
        scope's list of structures may have changed."""
        if (touched := self._touched.get((board, scope))) is None:
            touched = self._touched[board, scope] = Touched()
        touched.ids.update(ids, len(self._roster))
        touched.structures.update(structures)

    def touch_data(self, board: int, member: bytes) -> None:
        """Record that the data of a member changed."""
        self._touched.setdefault((board, ""), Touched()).data[member] = None

    def end(self, limit: int) -> bool:
        """End the copy, whether or not it was finished, by a share of about `limit` steps. Return
        whether nothing is left."""
        for _ in range(limit):
            if not self._followed_units:
                break
            board, scope = self._followed_units.pop()
            if not scope and (store := self._store_of(board)) is not None:
                store.remembered.unfollow()
        for _ in range(limit):
            if not self._numbers:
                break
            self._numbers.popitem()
        return not self._followed_units and not self._numbers

    def list_again(self, board: int) -> None:
        """Record that a refresh may have changed which rankings are shown in the scopes of a
        board."""
        self._listing[board] = None

    def copy_again(self, structure: Structure) -> None:
        """Record that a whole structure may have changed. It is then copied again."""
        self._numbers.pop(structure, None)
        self._rows_again += len(structure)

    # Pieces

    def step(self, describe: Describe) -> list[Section] | None:
        """Return the next piece, of about `CHUNK` rows. Return None when so little is left that
        `finish` can be called."""
        if self._work is None:
            if self._is_nearly_done():
                return None
            self._work = self._pieces(describe)
        piece = next(self._work, None)
        if piece is None:
            self._work = None
            return []
        return piece

    def finish(self, describe: Describe) -> list[Section]:
        """Return everything that is left. The copy then has the current state of the index."""
        sections: list[Section] = []
        while (
            self._work is not None
            or self._boards
            or self._listing
            or self._touched
            or self._has_unnamed()
        ):
            for piece in self._work or self._pieces(describe):
                sections += piece
            self._work = None
        return sections

    def _is_nearly_done(self) -> bool:
        if self._rounds > MAX_ROUNDS:
            return True
        if self._listing or self._boards:
            return False
        if any(unit not in self._followed_units for unit in self._touched):
            return False
        rows = self._rows_again + sum(
            each.ids.least * len(each.structures) + len(each.data)
            for each in self._touched.values()
        )
        unnamed = len(self._roster) - self._named_count
        return len(self._touched) < MAX_LEFT and rows < MAX_LEFT and unnamed < MAX_LEFT

    def _has_unnamed(self) -> bool:
        return 1 in self._flags or self._named_count < len(self._flags)

    def _pieces(self, describe: Describe) -> Iterator[list[Section]]:
        """Yield the pieces of one round: the scopes that are new or touched, and then the names of
        the members to which rows refer for the first time."""
        self._rounds += 1
        self._rows_again = 0
        self._round, self._touched = self._touched, {}
        boards, self._boards = self._boards, ()
        listing, self._listing = self._listing, {}
        whole = ((board, "") for board in boards)
        scopes = self._scopes_of(chain(boards, listing))
        piece: list[Section] = []
        rows = 0
        for unit in chain(whole, scopes, self._round):
            if unit is None:
                rows += SCATTERED
                if rows >= CHUNK:
                    yield piece
                    piece, rows = [], 0
                continue
            for section, weight in self._unit(unit, self._round.get(unit), describe):
                piece.append(section)
                rows += weight
                if rows >= CHUNK:
                    yield piece
                    piece, rows = [], 0
        if piece:
            yield piece
        for name in self._names():
            yield [name]

    def _scopes_of(self, boards: Iterable[int]) -> Iterator[Unit | None]:
        """Yield the scopes that a round has to copy even if no write has touched them: scopes that
        no round has visited yet, and scopes that have not followed all refreshes of their board.
        Also yield None for each board, as the cost of looking for its scopes."""
        for board in boards:
            yield None
            place: tuple[str, str] | None = None
            while (store := self._store_of(board)) is not None:
                places = store.scopes.next(place, _BOARDS)
                if not places:
                    break
                place = places[-1]
                yield from [
                    (board, scope)
                    for _, scope in places
                    if (board, scope) not in self._followed_units
                    or store.parts[scope].refreshes != store.refreshes
                ]

    def _unit(
        self, unit: Unit, touched: Touched | None, describe: Describe
    ) -> Iterator[tuple[Section, int]]:
        """Yield the sections of a new or touched scope, each with its cost in rows, by which
        sections are grouped into pieces."""
        number, scope = unit
        first = unit not in self._followed_units
        part = self._part(unit)
        self._followed_units.add(unit)
        for structure in [] if part is None else part.structures():
            if structure not in self._numbers:
                yield from self._all_rows(structure)
            elif touched is not None and structure in touched.structures:
                yield from self._rows_of_members(structure, touched.ids)
        if not scope:
            yield from self._of_board(number, touched, first=first)
        yield self._contents(unit, describe(number)), _DESCRIBED

    def _of_board(
        self, number: int, touched: Touched | None, *, first: bool
    ) -> Iterator[tuple[Section, int]]:
        """Yield the sections of a board that belong to no scope: member data and remembered event
        ids."""
        if (store := self._store_of(number)) is None:
            return
        if first:
            yield from _all_ids(number, store.remembered)
            yield from _some_data(number, store.data, list(store.data))
        elif touched is not None:
            yield from _some_data(number, store.data, list(touched.data))
        if (store := self._store_of(number)) is None:
            return
        added = store.remembered.take_added()
        if added:
            yield (IDS, _encode(Ids(number, added))), len(added)

    def _part(self, unit: Unit) -> ScopeStore | None:
        return None if self._store_of(unit[0]) is None else self._followed(*unit)

    def _all_rows(self, structure: Structure) -> Iterator[tuple[Section, int]]:
        """Yield all rows of a structure."""
        self._numbers[structure] = number = self._next_number
        self._next_number += 1
        parts = _cells(structure) if isinstance(structure, Tally) else self._entries(structure)
        for ids, words in parts:
            if self._numbers.get(structure) != number:
                return
            yield self._rows(number, ids, words), len(ids)

    def _entries(self, ranking: RankedSet) -> Iterator[tuple["array[int]", list["array[int]"]]]:
        start = 0
        while start < len(ranking):
            ids, words = ranking.slice(start, start + CHUNK)
            last = self._roster.name(ids[-1]).encode()
            key = [column[-1] for column in words[: ranking.ordered]]
            yield ids, words
            start = ranking.bound(key, last, right=True)

    def _rows_of_members(
        self, structure: Structure, ids: TouchedIds
    ) -> Iterator[tuple[Section, int]]:
        """Yield the current rows of members in a structure."""
        number = self._numbers[structure]
        rest = iter(ids)
        while chunk := array("I", islice(rest, CHUNK // SCATTERED)):
            present, words = structure.words(chunk)
            if 0 in present:
                removed = array(
                    "I", [chunk[i] for i, is_there in enumerate(present) if not is_there]
                )
                places = [i for i, is_there in enumerate(present) if is_there]
                yield (ROWS, _encode(Rows(number, removed.tobytes(), []))), SCATTERED * len(removed)
                chunk = array("I", [chunk[i] for i in places])
                words = [array("q", [column[i] for i in places]) for column in words]
            if chunk:
                yield self._rows(number, chunk, words), SCATTERED * len(chunk)

    def _rows(self, number: int, ids: "array[int]", words: list["array[int]"]) -> Section:
        if len(self._flags) < len(self._roster):
            self._flags.extend(bytes(len(self._roster) - len(self._flags)))
        set_flags(self._flags, ids)
        return ROWS, _encode(Rows(number, ids.tobytes(), list(map(pack, words))))

    def _contents(self, unit: Unit, described: bytes | None) -> Section:
        """Return the section with the contents of a scope, without structures that are not copied
        yet."""
        number, scope = unit
        store, part = self._store_of(number), self._part(unit)
        if store is None or part is None:
            return BOARD, _encode(Contents(number, None, scope=scope))
        contents = Contents(
            number,
            described,
            [
                Stored(key, self._numbers[ranking], len(ranking))
                for key, ranking in _rankings(unit, part)
                if ranking in self._numbers
            ],
            [
                Stored(key, self._numbers[tally], len(tally))
                for key, tally in part.tallies(number, scope)
                if tally in self._numbers
            ],
            {window: rolling.running for window, rolling in part.rolling.items()},
            store.remembered.oldest_ms,
            scope,
        )
        return BOARD, _encode(contents)

    def _names(self) -> Iterator[Section]:
        """Yield the names of members that rows refer to and that no earlier round has copied."""
        self._named_count = len(self._flags)
        for start in range(0, len(self._flags), CHUNK):
            if 1 in self._flags[start : start + CHUNK]:
                ids, arena, lengths = self._roster.export(self._flags, start, start + CHUNK)
                yield NAMES, _encode(Names(ids.tobytes(), arena, lengths))


def _rankings(unit: Unit, part: ScopeStore) -> Iterator[tuple[RankingKey, RankedSet]]:
    number, scope = unit
    for name, ranking in part.rankings.items():
        yield RankingKey(number, *name, scope), ranking
    for window, rolling in part.rolling.items():
        yield RankingKey(number, window, rolling.running, scope), rolling.live


def _cells(tally: Tally) -> Iterator[tuple["array[int]", list["array[int]"]]]:
    place = 0
    while place < 2**32:
        ids, words, place = tally.scan(place, CHUNK)
        if ids:
            yield ids, words


def _all_ids(number: int, remembered: Remembered) -> Iterator[tuple[Section, int]]:
    groups = iter(remembered.follow())
    part: list[tuple[int, list[bytes]]] = []
    count = 0
    for group in groups:
        part.append(group)
        count += 1 + len(group[1])
        if count >= CHUNK:
            yield (IDS, _encode(Ids(number, part))), count
            part, count = [], 0
    if part:
        yield (IDS, _encode(Ids(number, part))), count


def _some_data(
    number: int, data: dict[bytes, bytes], members: list[bytes]
) -> Iterator[tuple[Section, int]]:
    for first in range(0, len(members), CHUNK):
        items = [(member, data.get(member)) for member in members[first : first + CHUNK]]
        yield (DATA, _encode(Data(number, items))), len(items)
