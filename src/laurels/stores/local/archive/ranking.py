"""An archived ranking, which gives the same answers as a ranking in memory, from the blocks of a
segment.

Opening it reads its directory. Then the entries at a position and the number of entries before a
bound take one block read each, and a member's position and rank take two: a page of the member
index, and the block with the entry.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from laurels.core.digest import ErasedEntry
from laurels.core.entry_columns import EntryColumns
from laurels.core.index import Located, Neighbourhood, Slice
from laurels.core.sealed_contents import SealedRanking
from laurels.model.rules import RankStyle

from .blocks import Block, unpack_block
from .member_index import blocks_of, page_of
from .ranking_form import FrozenRanking, RankingDirectory

Read = Callable[[int, int], bytes]
"""Reads and verifies what is stored at a position of the period, with its length there."""
ORDINAL: RankStyle = "ordinal"


class ArchivedRanking:
    """One ranking of a sealed period. Positions and ranks start at 0. Each method may raise
    ArchiveDamaged."""

    def __init__(
        self, directory: RankingDirectory, key: bytes, read: Read, erased: Sequence[int] = ()
    ) -> None:
        self._directory = directory
        self._key = key
        self._read = read
        self._erased = erased
        """The positions of the entries whose members were erased, in ascending order. The tokens
        there are not in the order of the other members."""

    def __len__(self) -> int:
        return self._directory.total

    def form(
        self, scope: str, secrets: list[tuple[int, int, bytes]], erased: list[ErasedEntry]
    ) -> SealedRanking:
        """Return the description of the ranking of a scope, without its entries."""
        directory = self._directory
        kinds = directory.style, directory.columns, directory.ordered
        return SealedRanking(scope, *kinds, directory.total, secrets, erased)

    def frozen(self, scope: str, chunks: Iterable[EntryColumns]) -> FrozenRanking:
        """Return a ranking to be archived, with the number of entries and the rules of this one,
        and with the entries in `chunks`."""
        its = self._directory
        return FrozenRanking(scope, its.style, its.columns, its.ordered, its.total, chunks)

    def position(self, member: bytes) -> int:
        """Return the position of a member, -1 if it is not ranked. Reads a page and a block."""
        return -1 if (found := self._find(member)) is None else found[0]

    def rank(self, member: bytes, style: RankStyle | None = None) -> int:
        """Return the rank of a member, -1 if it is not ranked; by default in the style of the
        board when the period was closed. Reads a page and a block."""
        if (found := self._find(member)) is None:
            return -1
        position, number, block = found
        at = position - number * self._directory.block_entries
        return self._ranks(number, block, at, at + 1, style or self._directory.style)[0]

    def slice(self, start: int, stop: int) -> Slice:
        """Return the entries at positions start to stop (exclusive), as far as they exist. Reads
        the blocks that have them."""
        directory = self._directory
        start = min(max(0, start), directory.total)
        stop = min(stop, directory.total)
        members: list[str] = []
        ranks: list[int] = []
        words: list[list[int]] = [[] for _ in range(directory.width or directory.ordered)]
        position = start
        while position < stop:
            number, low = divmod(position, directory.block_entries)
            block = self._block(number)
            high = min(len(block), low + stop - position)
            members.extend([member.decode() for member in block.members[low:high]])
            ranks.extend(self._ranks(number, block, low, high, directory.style))
            for own, column in zip(words, block.words, strict=True):
                own.extend(column[low:high])
            position += high - low
        return Slice(start, members, ranks, words)

    def locate(self, members: Sequence[str], *, whole: bool) -> Located:
        """Return positions, ranks and words of members; with `whole` all words, otherwise those
        that decide the order. Reads a page and a block for each member."""
        directory = self._directory
        width = directory.width if whole else directory.ordered
        columns = [array("q", bytes(8 * len(members))) for _ in range(width)]
        positions, ranks = [-1] * len(members), [-1] * len(members)
        for i, member in enumerate(members):
            if (found := self._find(member.encode())) is None:
                continue
            position, number, block = found
            at = position - number * directory.block_entries
            positions[i] = position
            [ranks[i]] = self._ranks(number, block, at, at + 1, directory.style)
            for column, values in zip(columns, block.words, strict=False):
                column[i] = values[at]
        return Located(positions, ranks, columns)

    def neighbourhood(self, member: str) -> Neighbourhood | None:
        """Return a member with its neighbours, None if it is not ranked."""
        position = self.position(member.encode())
        if position < 0:
            return None
        part = self.slice(max(0, position - 1), position + 2)
        return Neighbourhood(len(self), position, part)

    def bound(self, words: Sequence[int], member: bytes | None = None, *, right: bool) -> int:
        """Return the number of entries that sort before the given leading words and member. With
        `right`, equal entries are counted, too. Reads a block."""
        directory = self._directory
        if self._erased and member is not None:
            return self._bound_among_erased(words, member, right=right)
        wanted = _Bound(tuple(words), member, right)
        number = wanted.entries_before(directory.words, directory.members) - 1
        if number < 0:
            return 0
        block = self._block(number)
        within = wanted.entries_before(block.words, block.members)
        return number * directory.block_entries + within

    def _bound_among_erased(self, words: Sequence[int], member: bytes, *, right: bool) -> int:
        """Return the result of `bound` for a ranking with erased members. Entries with equal words
        are sorted by member, but tokens of erased members are out of order. So if the member is in
        the ranking, its position is looked up. Otherwise its place is found by a binary search
        among the entries that are not erased."""
        low, high = self.bound(words, right=False), self.bound(words, right=True)
        position = self.position(member)
        if low <= position < high:
            return position + right
        tokens = self._erased[bisect_left(self._erased, low) : bisect_left(self._erased, high)]

        def member_at(other: int) -> bytes:
            number, at = divmod(_skipping(tokens, low + other), self._directory.block_entries)
            return self._block(number).members[at]

        others = range(high - low - len(tokens))
        before = bisect_left(others, member, key=member_at)
        return _skipping(tokens, low + before) if before < len(others) else high

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of all entries, in ranking order."""
        return map(self._block, range(len(self._directory.members)))

    def _find(self, member: bytes) -> tuple[int, int, Block] | None:
        """Return the position of a member, the number of its block, and the block; None if it is
        not ranked."""
        for number in self._candidates(member):
            block = self._block(number)
            if member in block.members:
                at = block.members.index(member)
                return number * self._directory.block_entries + at, number, block
        return None

    def _candidates(self, member: bytes) -> Sequence[int]:
        """Return the numbers of the blocks that may contain this member."""
        pages = self._directory.pages
        if not pages:
            return range(len(self._directory.members))
        page, hashed = page_of(self._key, member, len(pages) - 1)
        return blocks_of(self._stored(pages, page), hashed)

    def _ranks(
        self, number: int, block: Block, low: int, high: int, style: RankStyle
    ) -> Sequence[int]:
        """Return the ranks of the entries from `low` to `high` (exclusive) of a block."""
        start = number * self._directory.block_entries
        if style == ORDINAL:
            return range(start + low, start + high)
        tie_from = self._directory.ties_from[number]
        before = self._directory.scores_before[number]
        scores = list(zip(*block.words[: self._directory.columns], strict=True))
        ranks = []
        for at in range(high):
            if at and scores[at] != scores[at - 1]:
                tie_from, before = start + at, before + 1
            if at >= low:
                ranks.append(before if style == "dense" else tie_from)
        return ranks

    def _block(self, number: int) -> Block:
        return unpack_block(self._stored(self._directory.blocks, number))

    def _stored(self, starts: Sequence[int], number: int) -> bytes:
        """Return the verified body of a block or a page."""
        start, end = starts[number], starts[number + 1]
        return self._read(start, end - start)


def _skipping(tokens: Sequence[int], position: int) -> int:
    """Convert a position among the entries that are not tokens to the position of the same entry
    among all entries. `tokens` has the positions of tokens, in ascending order."""
    for token in tokens:
        if token > position:
            break
        position += 1
    return position


class _Bound(NamedTuple):
    """A place in the order of entries: after all entries that sort before these words and this
    member. With `right`, it is also after the entries that are equal to them."""

    words: tuple[int, ...]
    member: bytes | None
    right: bool

    def entries_before(self, words: Sequence[Sequence[int]], members: Sequence[bytes]) -> int:
        """Return how many of the given entries, which are in ranking order, are before this
        place."""
        columns = words[: len(self.words)]
        low, high = 0, len(members)
        while low < high:
            middle = (low + high) // 2
            own = tuple([column[middle] for column in columns])
            if own < self.words or (own == self.words and self._is_before(members[middle])):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_before(self, member: bytes) -> bool:
        """Return whether an entry with these words and some member is before this place."""
        if self.member is None or member == self.member:
            return self.right
        return member < self.member
