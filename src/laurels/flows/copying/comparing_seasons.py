"""Compare the sealed periods and the payouts of a copied board with those of its source."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.closing import SealedPeriod
from laurels.core.contents import Origin
from laurels.core.payouts import PayoutRow
from laurels.core.sealed_contents import DigestOfPieces, SealedRanking, SealedRevision
from laurels.core.season_pieces import PayoutRows, SealedShare

PeriodName = tuple[str, int, int]
"""A revision of a sealed period: its window, instance and revision."""


class _Entries:
    """The content of a revision of a period: its digest and, for each ranking, the number of its
    entries and the sum of their hashes. These hashes are computed without salts."""

    def __init__(self) -> None:
        self.digest = DigestOfPieces()
        self.rankings: dict[str, tuple[int, int]] = {}
        self._scope = ""

    def add(self, share: SealedShare) -> None:
        for piece in share.pieces:
            if isinstance(piece, SealedRevision):
                continue
            self.digest.add(piece)
            if isinstance(piece, SealedRanking):
                self._scope = piece.scope
                self.rankings[piece.scope] = (0, 0)
                continue
            count, total = self.rankings[self._scope]
            rows = zip(range(count, count + piece.size), piece.names(), *piece.words(), strict=True)
            self.rankings[self._scope] = count + piece.size, total + sum(map(hash, rows))


class SeasonContents:
    """The sealed periods and the payouts of a board in one store."""

    def __init__(self) -> None:
        self.periods: dict[PeriodName, _Entries] = {}
        self.payouts: dict[str, tuple[bool, PayoutRow]] = {}

    def add(self, piece: SealedShare | PayoutRows) -> None:
        """Add the next piece."""
        if isinstance(piece, PayoutRows):
            self.payouts |= {each.row.id: (each.is_erased, each.row) for each in piece.items}
            return
        name = piece.window, piece.instance, piece.revision
        if not piece.number:
            self.periods[name] = _Entries()
        self.periods[name].add(piece)


class SeasonSide(Struct, frozen=True):
    """One of the two sides: its name, the state of its board, and its sealed periods and
    payouts."""

    name: str
    origin: Origin
    contents: SeasonContents


def season_differences(source: SeasonSide, target: SeasonSide) -> Iterator[str]:
    """Yield sentences about the differences."""
    for side in (source, target):
        yield from _damaged(side)
    own, copied = _seals(source.origin), _seals(target.origin)
    for name in sorted(own.keys() | copied.keys()):
        if own.get(name) != copied.get(name):
            yield f"the seal of {name[0]}, {name[1]} differs"
    periods, copies = source.contents.periods, target.contents.periods
    for period in sorted(periods.keys() | copies.keys()):
        text = f"the sealed period of {period[0]}, {period[1]}, revision {period[2]}"
        if period not in copies:
            yield f"{text}: only the source has it"
        elif period not in periods:
            yield f"{text}: only the copy has it"
        elif periods[period].rankings != copies[period].rankings:
            yield f"{text}: its entries differ"
    yield from _payout_differences(source.contents.payouts, target.contents.payouts)


def _damaged(side: SeasonSide) -> Iterable[str]:
    """Yield sentences about the periods whose entries do not have the digest of the seal."""
    for (window, instance, revision), entries in sorted(side.contents.periods.items()):
        closing = side.origin.closing.get(window)
        sealed = None if closing is None else closing.sealed.get(instance)
        if sealed is None or sealed.revision != revision:
            continue
        if entries.digest.digest() != sealed.digest:
            yield (
                f"the sealed period of {window}, {instance}: in the {side.name} its entries do not "
                "have the digest that they were sealed with"
            )


def _seals(origin: Origin) -> Mapping[tuple[str, int], SealedPeriod]:
    """Return the seals without the fields that may differ between the two sides: each side may have
    sealed a period itself, after the copy, and each has its own log."""
    return {
        (window, instance): replace(sealed, sealed_ms=0, digest=b"", archive_only=False, entry=0)
        for window, closing in origin.closing.items()
        for instance, sealed in closing.sealed.items()
    }


def _payout_differences(
    source: Mapping[str, tuple[bool, PayoutRow]], target: Mapping[str, tuple[bool, PayoutRow]]
) -> Iterable[str]:
    different = [id for id in source.keys() | target.keys() if source.get(id) != target.get(id)]
    if different:
        yield f"payouts: {len(different):,} differ, such as {min(different)}"
