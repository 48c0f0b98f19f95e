"""A ranked set of the engine and a plain one, which get the same changes and the same queries."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random

from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import COMPETITION, DENSE, ORDINAL, RankedSet
from tests.engine.plain import PlainSet, Row


def intern(roster: Roster, members: Iterable[bytes]) -> "array[int]":
    names = list(members)
    return roster.intern(b"".join(names), bytes(map(len, names)))


def by_word(rows: Sequence[Row], width: int) -> "list[array[int]]":
    """Return rows as columns, one array for each word."""
    return [array("q", (row[word] for row in rows)) for word in range(width)]


class Pair:
    """The ranked set of the engine and the plain one, over one roster with these members. Methods
    name a member by its index in `members`."""

    def __init__(
        self,
        members: Sequence[bytes],
        *,
        columns: int = 1,
        tie: bool = False,
        stamped: bool = False,
        dense: bool = False,
    ) -> None:
        self.roster = Roster(20_210_419)
        self.members = members
        self.ids = intern(self.roster, members)
        self.dense = dense
        self.native = RankedSet(self.roster, columns=columns, tie=tie, stamped=stamped, dense=dense)
        self.plain = PlainSet(columns=columns, tie=tie, stamped=stamped)

    @property
    def styles(self) -> tuple[int, ...]:
        return (ORDINAL, COMPETITION, DENSE) if self.dense else (ORDINAL, COMPETITION)

    def put(self, places: Sequence[int], rows: Sequence[Row]) -> None:
        ids = array("I", (self.ids[place] for place in places))
        self.native.put(ids, by_word(rows, self.plain.width))
        for place, row in zip(places, rows, strict=True):
            self.plain.put(self.members[place], row)

    def discard(self, places: Sequence[int]) -> None:
        ids = array("I", (self.ids[place] for place in places))
        removed = sum([self.plain.discard(self.members[place]) for place in places])
        assert self.native.discard(ids) == removed

    def compare(self) -> None:
        """Compare all entries and ranks with those of the sorted list."""
        self.native.check()
        order = self.plain.order()
        assert len(self.native) == len(order)
        ids, words = self.native.slice(0, len(order) + 1)
        assert [name.encode() for name in self.roster.names(ids)] == [name for _, name in order]
        rows = [self.plain.rows[name] for _, name in order]
        assert words == by_word(rows, self.plain.width)
        self.compare_members()

    def compare_members(self) -> None:
        rows = [self.plain.rows.get(member) for member in self.members]
        present, words = self.native.words(self.ids)
        assert present == bytearray(row is not None for row in rows)
        absent = (0,) * self.plain.width
        assert words == by_word([row or absent for row in rows], self.plain.width)
        for style in self.styles:
            ranks = self.plain.ranks(style)
            expected = array("q", (ranks.get(member, -1) for member in self.members))
            assert self.native.ranks(self.ids, style) == expected

    def compare_pages(self, random: Random) -> None:
        """Compare the entries and ranks in a few random ranges."""
        order = self.plain.order()
        for _ in range(4):
            start = random.randint(0, len(order))
            stop = start + random.randint(0, 300)
            ids, words = self.native.slice(start, stop)
            names = [name for _, name in islice(order, start, stop)]
            assert [name.encode() for name in self.roster.names(ids)] == names
            for style in self.styles:
                ranks = self.plain.ranks(style)
                listed = (self.roster.names(ids), [ranks[n] for n in names], list(map(list, words)))
                assert self.native.list_entries(start, stop, style) == listed

    def compare_bounds(self, random: Random, keys: Iterable[Sequence[int]]) -> None:
        """Compare the positions of keys of any length, with and without members; some of the
        members are not in the roster."""
        for key in keys:
            for right in (False, True):
                expected = self.plain.bound(key, None, right=right)
                assert self.native.bound(key, right=right) == expected
                if len(key) == self.plain.ordered:
                    member = random.choice([random.choice(self.members), b"m", b"zz\xff", b"a"])
                    expected = self.plain.bound(key, member, right=right)
                    assert self.native.bound(key, member, right=right) == expected
