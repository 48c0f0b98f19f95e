"""How a ranking is stored in a segment: its blocks, the pages of its member index, its directory.

A directory has the offsets of the blocks and the pages. It also has what a search needs of the
first entry of each block: its words and member, the first position with the same score, and how
many other scores are before it. So finding a rank takes one block.

All positions in the file are counted from where the period begins, so that a period can be copied
into another segment as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from struct import Struct as Format

from msgspec import Struct

from laurels.core.digest import MAX_ENTRIES, ErasedEntry, PeriodDigest, Salts, hashes_from
from laurels.model.rules import RankStyle

from .blocks import BLOCK_ENTRIES, checked, pack_block
from .member_index import MemberIndex
from .packing import Unpacker, damaged, pack_members, pack_numbers

Chunk = tuple[Sequence[str], Sequence[Sequence[int]]]
"""Consecutive entries: members, and words column by column."""
STYLES: tuple[RankStyle, ...] = ("ordinal", "competition", "dense")
_HEAD = Format("<BBBQIIII")


class FrozenRanking(Struct, frozen=True):
    """A ranking that does not change any more, to be archived.

    The first `columns` words of an entry are its score, which decides who shares a rank in the
    `style`; the first `ordered` words decide the order, and then the member. `chunks` yields all
    entries in ranking order, with all their words. `total` is the number of entries.
    """

    scope: str
    style: RankStyle
    columns: int
    ordered: int
    total: int
    chunks: Iterable[Chunk]


class RankingDirectory(Struct, frozen=True):
    """The directory of a stored ranking. The lists have an item for each block, and `blocks` and
    `pages` one more: where the last one ends."""

    style: RankStyle
    columns: int
    ordered: int
    total: int
    block_entries: int
    width: int
    blocks: Sequence[int]
    pages: Sequence[int]
    words: list[Sequence[int]]
    members: list[bytes]
    ties_from: Sequence[int]
    scores_before: Sequence[int]


class RankingWriter:
    """Writes one ranking. `write` appends bytes to the segment and returns their offset, counted
    from the start of the period. `pause` is called after each block and each page."""

    def __init__(
        self,
        ranking: FrozenRanking,
        key: bytes,
        write: Callable[[bytes], int],
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        if ranking.total > MAX_ENTRIES:
            raise ValueError(f"expected at most {MAX_ENTRIES:,} entries, got {ranking.total:,}")
        self._ranking = ranking
        self._write = write
        self._pause = pause
        self._index = MemberIndex(key, ranking.total) if ranking.total > BLOCK_ENTRIES else None
        self._starts: list[int] = []
        self._firsts: list[tuple[int, ...]] = []
        self._members: list[bytes] = []
        self._ties_from: list[int] = []
        self._scores_before: list[int] = []
        self._end = 0
        self._width = 0
        self._total = 0
        self._last: tuple[int, ...] | None = None
        self._tie_from, self._scores = 0, 0

    def run(
        self, salts: Salts, digest: PeriodDigest, erased: Sequence[ErasedEntry] = ()
    ) -> tuple[int, int]:
        """Write all entries, and add their hashes to the digest; those of `erased` entries are kept
        as they were. Return the offset and the length of the directory."""
        digest.begin(self._ranking.scope)
        for members, words in _in_blocks(self._ranking.chunks):
            start = self._total
            self._add(members, words)
            digest.add(hashes_from(salts, start, words, members, erased))
            self._pause()
        return self._finish()

    def _add(self, members: list[bytes], words: list[Sequence[int]]) -> None:
        """Write a block of entries."""
        self._width = len(words)
        if self._index is not None:
            self._index.add(members, len(self._starts))
        self._count_scores(words)
        self._firsts.append(tuple([column[0] for column in words]))
        self._members.append(members[0])
        body = checked(pack_block(members, words))
        start = self._write(body)
        self._starts.append(start)
        self._end = start + len(body)
        self._total += len(members)

    def _count_scores(self, words: list[Sequence[int]]) -> None:
        """Record where the score of the block's first entry begins, and count the scores of the
        block."""
        scores = list(zip(*words[: self._ranking.columns], strict=True))
        if scores[0] != self._last:
            self._scores += self._last is not None
            self._tie_from = self._total
        self._ties_from.append(self._tie_from)
        self._scores_before.append(self._scores)
        for at, (before, after) in enumerate(pairwise(scores), self._total + 1):
            if before != after:
                self._scores += 1
                self._tie_from = at
        self._last = scores[-1]

    def _finish(self) -> tuple[int, int]:
        """Write the pages and the directory."""
        if self._total != self._ranking.total:
            raise ValueError(f"expected {self._ranking.total} entries, got {self._total}")
        pages = []
        if self._index is not None:
            for page in self._index.pages():
                body = checked(page)
                start = self._write(body)
                pages.append(start)
                end = start + len(body)
                self._pause()
            pages.append(end)
        directory = checked(self._directory(pages))
        return self._write(directory), len(directory)

    def _directory(self, pages: list[int]) -> bytes:
        ranking = self._ranking
        head = _HEAD.pack(
            STYLES.index(ranking.style),
            ranking.columns,
            ranking.ordered,
            self._total,
            BLOCK_ENTRIES,
            self._width,
            len(self._starts),
            len(pages),
        )
        of_blocks = [
            self._ties_from,
            self._scores_before,
            *map(list, zip(*self._firsts, strict=True)),
        ]
        columns = b"".join(map(pack_numbers, of_blocks))
        starts = pack_numbers([*self._starts, self._end]) + pack_numbers(pages)
        return head + starts + columns + pack_members(self._members)


def read_directory(body: bytes) -> RankingDirectory:
    """Return the directory that a writer stored. Raises ArchiveDamaged."""
    if len(body) < _HEAD.size:
        raise damaged()
    style, columns, ordered, total, entries, width, count, pages = _HEAD.unpack_from(body)
    unpacker = Unpacker(body, count + 1, _HEAD.size)
    blocks = unpacker.numbers()
    page_starts = unpacker.next_count(pages).numbers()
    unpacker.next_count(count)
    ties_from, scores_before = unpacker.numbers(), unpacker.numbers()
    words: list[Sequence[int]] = [unpacker.numbers() for _ in range(width)]
    return RankingDirectory(
        STYLES[style],
        columns,
        ordered,
        total,
        entries,
        width,
        blocks,
        page_starts,
        words,
        unpacker.members(),
        ties_from,
        scores_before,
    )


def _in_blocks(chunks: Iterable[Chunk]) -> Iterator[tuple[list[bytes], list[Sequence[int]]]]:
    """Yield the entries of chunks of any size in blocks."""
    members: list[bytes] = []
    words: list[list[int]] = []
    for names, columns in chunks:
        if not names:
            continue
        members.extend([name.encode() for name in names])
        if not words:
            words = [[] for _ in columns]
        for own, column in zip(words, columns, strict=True):
            own.extend(column)
        whole = len(members) - len(members) % BLOCK_ENTRIES
        for at in range(0, whole, BLOCK_ENTRIES):
            stop = at + BLOCK_ENTRIES
            yield members[at:stop], [column[at:stop] for column in words]
        del members[:whole]
        for column in words:
            del column[:whole]
    if members:
        yield members, [*words]
