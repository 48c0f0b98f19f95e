"""How a ranking is stored in a segment: its blocks, the pages of its member index, its directory.

A directory has the offsets of the blocks and the pages. It also has what a search needs of the
first entry of each block: its words and member, the first position with the same score, and the
number of different scores before that score. So finding a rank takes one block.

All positions in the file are counted from where the period begins, so that a period can be copied
into another segment as it is.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct as Format
from typing import Self

from msgspec import Struct

from laurels.core.digest import MAX_ENTRIES, ErasedEntry, PeriodDigest, Salts, hashes_from
from laurels.core.entry_columns import EntryColumns
from laurels.engine.sealing.columns import score_changes
from laurels.model.rules import RankStyle

from .blocks import BLOCK_ENTRIES, checked, pack_block
from .member_index import MemberIndex, Scratch
from .packing import Unpacker, damaged, pack_members, pack_numbers

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
    chunks: Iterable[EntryColumns]


class RankingDirectory(Struct, frozen=True):
    """The directory of a stored ranking. The lists have an item for each block or page. `blocks`
    and `pages` have one more item, the end of the last block or page."""

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
    from the start of the period. `scratch` opens a temporary file, which is closed at the end of
    this context. `pause` is called after each block and each page."""

    def __init__(
        self,
        ranking: FrozenRanking,
        key: bytes,
        write: Callable[[bytes], int],
        scratch: Scratch,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        if ranking.total > MAX_ENTRIES:
            raise ValueError(f"expected at most {MAX_ENTRIES:,} entries, got {ranking.total:,}")
        self._ranking = ranking
        self._write = write
        self._pause = pause
        self._index: MemberIndex | None = None
        if ranking.total > BLOCK_ENTRIES:
            self._index = MemberIndex(key, ranking.total, scratch)
        self._starts = array("q")
        self._firsts: list[array[int]] = []
        self._members: list[bytes] = []
        self._ties_from = array("q")
        self._scores_before = array("q")
        self._end = 0
        self._total = 0
        self._last: tuple[int, ...] | None = None
        self._tie_from, self._scores = 0, 0

    def run(
        self, salts: Salts, digest: PeriodDigest, erased: Sequence[ErasedEntry] = ()
    ) -> tuple[int, int]:
        """Write all entries, and add their hashes to the digest. For the entries in `erased`, these
        are the hashes from before they were erased. Return the offset and the length of the
        directory."""
        digest.begin(self._ranking.scope)
        for entries in _in_blocks(self._ranking.chunks):
            start = self._total
            self._add(entries)
            digest.add(hashes_from(salts, start, entries, erased))
            self._pause()
        return self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._index is not None:
            self._index.close()

    def _add(self, entries: EntryColumns) -> None:
        """Write a block of entries."""
        if not self._firsts:
            self._firsts = [array("q") for _ in entries.words]
        if self._index is not None:
            self._index.add(entries, len(self._starts))
        self._count_scores(entries.words[: self._ranking.columns])
        for firsts, column in zip(self._firsts, entries.words, strict=True):
            firsts.append(column[0])
        self._members.append(entries.members[: entries.lengths[0]])
        body = checked(pack_block(entries))
        start = self._write(body)
        self._starts.append(start)
        self._end = start + len(body)
        self._total += len(entries)

    def _count_scores(self, scores: Sequence["array[int]"]) -> None:
        """Record two numbers for a block: the first position with the score of its first entry, and
        the number of different scores before that score. Then count the scores in the block."""
        if tuple([column[0] for column in scores]) != self._last:
            self._scores += self._last is not None
            self._tie_from = self._total
        self._ties_from.append(self._tie_from)
        self._scores_before.append(self._scores)
        changes, last = score_changes(scores)
        if changes:
            self._scores += changes
            self._tie_from = self._total + last
        self._last = tuple([column[-1] for column in scores])

    def _finish(self) -> tuple[int, int]:
        """Write the pages and the directory."""
        if self._total != self._ranking.total:
            raise ValueError(f"expected {self._ranking.total} entries, got {self._total}")
        pages = array("q")
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

    def _directory(self, pages: "array[int]") -> bytes:
        ranking = self._ranking
        head = _HEAD.pack(
            STYLES.index(ranking.style),
            ranking.columns,
            ranking.ordered,
            self._total,
            BLOCK_ENTRIES,
            len(self._firsts),
            len(self._starts),
            len(pages),
        )
        of_blocks = [self._ties_from, self._scores_before, *self._firsts]
        columns = b"".join(map(pack_numbers, of_blocks))
        self._starts.append(self._end)
        starts = pack_numbers(self._starts) + pack_numbers(pages)
        members = pack_members(b"".join(self._members), bytes(map(len, self._members)))
        return head + starts + columns + members


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


def _in_blocks(chunks: Iterable[EntryColumns]) -> Iterator[EntryColumns]:
    """Yield the entries of chunks of any size in blocks."""
    pending: EntryColumns | None = None
    for chunk in chunks:
        pending = chunk if pending is None else pending.followed_by(chunk)
        whole = len(pending) - len(pending) % BLOCK_ENTRIES
        for at in range(0, whole, BLOCK_ENTRIES):
            yield pending.slice(at, at + BLOCK_ENTRIES)
        pending = pending.slice(whole, len(pending)) if whole < len(pending) else None
    if pending is not None:
        yield pending
