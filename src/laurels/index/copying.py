"""A copy of the memory index, taken in pieces while it goes on changing.

**Rows.** A copy is a row for each entry of a ranking and each cell of a tally: the structure, the
member, the words; where a structure has several rows of a member, the last one holds, and one
without words says that the member is not there. So a copy may begin with what is there now, in as
many pieces as it likes, and make good afterwards for what was written meanwhile: each write tells
the copy which members of which structures it touched, and the next *round* reads those again. As a
round is much faster than the writes it follows, what is left shrinks; when it is little, `finish`
takes it in one go, and that is the instant of the copy.

**Order.** A ranking is copied in standing order, going on behind the key of the last entry copied,
a tally in the order of its hash: entries that nobody touches are never passed over, whatever others
do. Others are read again.

**Structures** are numbered as they are met. What they are called is said per board, and again when
it changed; only what a board has in the end is read back. The ranking that a rolling window
prepares is left out: it is made from the live one. When a window turns, the live ranking is another
one and copied anew.

**Members** are named last, those that some row names, so members of no ranking are forgotten.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from laurels.engine.intake import pack
from laurels.engine.ranked_set import RankedSet
from laurels.engine.roster import Roster, mark
from laurels.engine.tally import Tally
from laurels.plan import RankingKey

from .base import Describe, Section
from .held import Held
from .remembered import Remembered

ROWS, NAMES, BOARD, DATA, IDS = b"R", b"N", b"B", b"D", b"I"
CHUNK = 4_096
"""Rows of a piece: about a millisecond."""
LITTLE = 2_048
"""What is left when a copy may be finished: rows, and boards."""
MOST_ROUNDS = 12
_BOARDS = 64

Structure = RankedSet | Tally


class Rows(Struct, frozen=True, array_like=True):
    """Rows of a structure, in columns; without columns the members are not in it."""

    structure: int
    ids: bytes
    columns: list[bytes]


class Names(Struct, frozen=True, array_like=True):
    """Members and the ids that rows know them by."""

    ids: bytes
    arena: bytes
    lengths: bytes


class Stored(Struct, frozen=True, array_like=True):
    """A structure of a board: what it is called, its number in rows, how many it holds."""

    key: RankingKey
    structure: int
    size: int


class Contents(Struct, frozen=True, array_like=True):
    """A board: what the fold says of it (None: it is gone), its structures, the running steps of
    its rolling windows, and when the oldest event id it remembers was accepted."""

    number: int
    described: bytes | None
    rankings: list[Stored] = []
    tallies: list[Stored] = []
    running: dict[str, int] = {}
    remembers_from_ms: int | None = None


class Data(Struct, frozen=True, array_like=True):
    """Member data of a board; None takes it away."""

    board: int
    items: list[tuple[bytes, bytes | None]]


class Ids(Struct, frozen=True, array_like=True):
    """Remembered event ids of a board, by when they were accepted, in that order."""

    board: int
    groups: list[tuple[int, list[bytes]]]


class Touched(Struct):
    """What of a board was written to since it was copied."""

    ids: set[int] = msgspec.field(default_factory=set)
    structures: set[Structure] = msgspec.field(default_factory=set)
    data: dict[bytes, None] = msgspec.field(default_factory=dict)


_encode = msgspec.msgpack.Encoder().encode


class Copying:
    """A copy under way. Every method is called under the lock that keeps writes out."""

    def __init__(
        self, held: Callable[[int], Held | None], boards: Sequence[int], roster: Roster
    ) -> None:
        self._held = held
        self._roster = roster
        self._flags = bytearray(len(roster))
        self._named_to = 0
        self._numbers: dict[Structure, int] = {}
        self._next_number = 0
        self._touched: dict[int, Touched] = {}
        self._known: set[int] = set()
        self._waiting = deque(boards)
        self._round: dict[int, Touched] = {}
        self._rounds = 1
        self._renewed = 0
        self._work: Iterator[list[Section]] | None = None

    # What is written meanwhile

    def touch(
        self, board: int, ids: Sequence[int] = (), structures: Sequence[Structure] = ()
    ) -> None:
        """Notes that members of structures, or only what a board is, may have changed."""
        if (touched := self._touched.get(board)) is None:
            touched = self._touched[board] = Touched()
        touched.ids.update(ids)
        touched.structures.update(structures)

    def touch_data(self, board: int, member: bytes) -> None:
        """Notes that the data of a member changed."""
        self._touched.setdefault(board, Touched()).data[member] = None

    def end(self) -> None:
        """Ends the copy, whether it was finished or given up."""
        for board in self._known:
            if (held := self._held(board)) is not None:
                held.remembered.unfollow()

    def renew(self, structure: Structure) -> None:
        """Notes that all of a structure may have changed: it is copied anew."""
        self._numbers.pop(structure, None)
        self._renewed += len(structure)

    # Pieces

    def step(self, describe: Describe) -> list[Section] | None:
        """The next piece, about `CHUNK` rows; None when `finish` has little left to do."""
        if self._work is None:
            if self._is_little():
                return None
            self._work = self._pieces(describe)
        piece = next(self._work, None)
        if piece is None:
            self._work = None
            return []
        return piece

    def finish(self, describe: Describe) -> list[Section]:
        """All that is left. What was taken is the index as it is now."""
        sections: list[Section] = []
        while self._work is not None or self._waiting or self._touched or self._unnamed():
            for piece in self._work or self._pieces(describe):
                sections += piece
            self._work = None
        return sections

    def _is_little(self) -> bool:
        if self._rounds > MOST_ROUNDS:
            return True
        if self._waiting or any(board not in self._known for board in self._touched):
            return False
        rows = self._renewed + sum(
            len(each.ids) * len(each.structures) + len(each.data) for each in self._touched.values()
        )
        unnamed = len(self._roster) - self._named_to
        return len(self._touched) < LITTLE and rows < LITTLE and unnamed < LITTLE

    def _unnamed(self) -> bool:
        return 1 in self._flags or self._named_to < len(self._flags)

    def _pieces(self, describe: Describe) -> Iterator[list[Section]]:
        """One round: the boards that wait or were touched, then the members named since."""
        self._rounds += 1
        self._renewed = 0
        self._round, self._touched = self._touched, {}
        self._waiting.extend(board for board in self._round if board not in self._known)
        again = [board for board in self._round if board in self._known]
        boards = [*self._waiting, *again]
        self._waiting.clear()
        piece: list[Section] = []
        rows = 0
        for board in boards:
            for section, weight in self._board(board, self._round.get(board), describe):
                piece.append(section)
                rows += weight
                if rows >= CHUNK:
                    yield piece
                    piece, rows = [], 0
        if piece:
            yield piece
        for name in self._names():
            yield [name]

    def _board(
        self, number: int, touched: Touched | None, describe: Describe
    ) -> Iterator[tuple[Section, int]]:
        """A board's sections and what each weighs: those of a new board, or of one touched."""
        if (held := self._held(number)) is None:
            yield (BOARD, _encode(Contents(number, None))), _BOARDS
            return
        first = number not in self._known
        self._known.add(number)
        for structure in held.structures():
            if structure not in self._numbers:
                yield from self._whole(structure)
            elif touched is not None and structure in touched.structures:
                yield from self._again(structure, touched.ids)
        if first:
            yield from _all_ids(number, held.remembered)
            yield from _some_data(number, held.data, list(held.data))
        elif touched is not None:
            yield from _some_data(number, held.data, list(touched.data))
        if (held := self._held(number)) is None:
            yield (BOARD, _encode(Contents(number, None))), _BOARDS
            return
        added = held.remembered.take_added()
        if added:
            yield (IDS, _encode(Ids(number, added))), len(added)
        yield (BOARD, _encode(self._contents(number, held, describe(number)))), _BOARDS

    def _whole(self, structure: Structure) -> Iterator[tuple[Section, int]]:
        """All rows of a structure."""
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

    def _again(self, structure: Structure, ids: set[int]) -> Iterator[tuple[Section, int]]:
        """The rows of members that were written to."""
        number = self._numbers[structure]
        rest = iter(ids)
        while chunk := array("I", islice(rest, CHUNK)):
            present, words = structure.words(chunk)
            gone = array("I", [chunk[i] for i, is_there in enumerate(present) if not is_there])
            there = [i for i, is_there in enumerate(present) if is_there]
            if gone:
                yield (ROWS, _encode(Rows(number, gone.tobytes(), []))), len(gone)
            if there:
                found = array("I", [chunk[i] for i in there])
                kept = [array("q", [column[i] for i in there]) for column in words]
                yield self._rows(number, found, kept), len(found)

    def _rows(self, number: int, ids: "array[int]", words: list["array[int]"]) -> Section:
        if len(self._flags) < len(self._roster):
            self._flags.extend(bytes(len(self._roster) - len(self._flags)))
        mark(self._flags, ids)
        return ROWS, _encode(Rows(number, ids.tobytes(), list(map(pack, words))))

    def _contents(self, number: int, held: Held, described: bytes | None) -> Contents:
        """What a board has now, as far as it is copied."""
        return Contents(
            number,
            described,
            [
                Stored(key, self._numbers[ranking], len(ranking))
                for key, ranking in _rankings(number, held)
                if ranking in self._numbers
            ],
            [
                Stored(key, self._numbers[tally], len(tally))
                for key, tally in _tallies(number, held)
                if tally in self._numbers
            ],
            {window: rolling.running for window, rolling in held.rolling.items()},
            held.remembered.oldest_ms,
        )

    def _names(self) -> Iterator[Section]:
        """Members that rows named since the last round."""
        self._named_to = len(self._flags)
        for start in range(0, len(self._flags), CHUNK):
            if 1 in self._flags[start : start + CHUNK]:
                ids, arena, lengths = self._roster.export(self._flags, start, start + CHUNK)
                yield NAMES, _encode(Names(ids.tobytes(), arena, lengths))


def _rankings(number: int, held: Held) -> Iterator[tuple[RankingKey, RankedSet]]:
    yield from held.rankings.items()
    for window, rolling in held.rolling.items():
        yield RankingKey(number, window, rolling.running), rolling.live


def _tallies(number: int, held: Held) -> Iterator[tuple[RankingKey, Tally]]:
    for window, rolling in held.rolling.items():
        for step in rolling.numbers():
            if step >= rolling.leaving and (tally := rolling.tally(step)) is not None:
                yield RankingKey(number, window, step), tally


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
