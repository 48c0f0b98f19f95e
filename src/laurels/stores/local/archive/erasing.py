"""Erases a member from the segments of an archive.

A segment with the member is written anew: a token takes the place of the member, the salt of the
entry is forgotten, and its hash is kept, so that the digest of the period stays the same. Periods
without the member are copied unchanged. Periods that are no longer in the catalogue are left out,
since they may have the member, too. Then the old segment is removed. Finding the member takes two
block reads for each ranking.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from laurels.core.digest import ErasedEntry, Salts, hashes_from
from laurels.core.entry_columns import EntryColumns
from laurels.model.labels import is_by

from .ranking import ArchivedRanking
from .segment import (
    ArchivedPeriod,
    KeptRanking,
    PeriodRecord,
    SegmentBytes,
    SegmentWriter,
    read_catalogue,
)


class Found(Struct, frozen=True):
    """A period of a segment that has a member: its record, and the position of the member in each
    scope in which it is ranked."""

    record: PeriodRecord
    positions: Mapping[str, int]


def find_member(segment: SegmentBytes, member: bytes) -> list[Found]:
    """Return the periods of a segment that have a member, including periods that are no longer in
    the catalogue. Rankings by a label are left out, since their entries are values of the label.
    Raises ArchiveDamaged."""
    found = []
    for record in read_catalogue(segment):
        period = ArchivedPeriod(segment, record)
        positions = {
            ranking.scope: position
            for ranking in period.rankings()
            if not is_by(ranking.scope)
            and (position := period.open_ranking(ranking).position(member)) >= 0
        }
        if positions:
            found.append(Found(record, positions))
    return found


def write_erased(
    writer: SegmentWriter,
    segment: SegmentBytes,
    wanted: Iterable[PeriodRecord],
    found: Iterable[Found],
    token: str,
) -> None:
    """Write the wanted periods of a segment, with a token in place of the member. Raises
    ArchiveDamaged."""
    affected = {each.record.key: each for each in found}
    for record in wanted:
        if (each := affected.get(record.key)) is None:
            writer.copy(segment, record)
        else:
            rankings = _rankings(ArchivedPeriod(segment, record), each.positions, token)
            writer.add_kept(record.key, record.hash_key, rankings)


def erased_in(period: ArchivedPeriod) -> Iterator[tuple[str, ErasedEntry]]:
    """Yield the entries of a period whose members were erased, each with its scope."""
    if period.record.erased:
        for ranking in period.rankings():
            yield from [(ranking.scope, each) for each in ranking.erased]


def _rankings(
    period: ArchivedPeriod, positions: Mapping[str, int], token: str
) -> Iterator[KeptRanking]:
    """Yield the rankings of a period, with a token in place of the member at these positions."""
    for record in period.rankings():
        ranking, salts, erased = period.open_ranking(record), record.salts(), record.erased
        if (position := positions.get(record.scope)) is not None:
            entry = ErasedEntry(position, _hash(salts, ranking, position), token)
            erased = sorted([*erased, entry], key=lambda each: each.position)
            salts = salts.without(position, record.total)
        chunks = _with_token(ranking, position, token)
        yield KeptRanking(ranking.frozen(record.scope, chunks), salts, erased)


def _hash(salts: Salts, ranking: ArchivedRanking, position: int) -> bytes:
    """Return the hash of the entry at a position, computed from its member, which must not be
    erased yet."""
    part = ranking.slice(position, position + 1)
    return hashes_from(salts, position, EntryColumns.of([part.members[0].encode()], part.words))


def _with_token(
    ranking: ArchivedRanking, position: int | None, token: str
) -> Iterator[EntryColumns]:
    """Yield the entries of a ranking, with a token in place of the member at a position."""
    start = 0
    for block in ranking.blocks():
        members = block.members
        if position is not None and start <= position < start + len(block):
            at = position - start
            members = [*members[:at], token.encode(), *members[at + 1 :]]
        yield EntryColumns.of(members, block.words)
        start += len(block)
