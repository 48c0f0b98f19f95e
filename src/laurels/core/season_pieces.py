"""The pieces of a copied board that have its sealed periods and its payouts. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from .closing import WindowClosing
from .payouts import PayoutRow
from .sealed_contents import (
    SealedPiece,
    SealedRanking,
    SealedRevision,
    SealedRows,
)

SHARE_ROWS = 4_096
"""The approximate number of entries in a share, where each ranking counts as one more entry."""
SHARE_BYTES = 1 << 20
"""The approximate number of bytes in a share."""
PAYOUTS_AT_ONCE = 1_000
"""The number of payouts in a piece."""


class SealedShare(Struct, frozen=True, array_like=True, tag="sealed"):
    """The next pieces of a revision of a sealed period. `number` is the number of shares of the
    revision before this one. The first share begins with the `SealedRevision`, and the last one
    has `is_last`. Writing a share again has no effect."""

    window: str
    instance: int
    revision: int
    number: int
    is_last: bool
    pieces: list[SealedPiece]

    @property
    def size(self) -> int:
        """The number of entries and rankings."""
        return sum(map(_size, self.pieces))

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return sum(map(_nbytes, self.pieces))


class CopiedPayout(Struct, frozen=True, array_like=True):
    """A payout, and its number in the store from which the board is copied. The number orders
    payouts that are due at the same time. `is_erased` is whether the payout's member was erased."""

    serial: int
    is_erased: bool
    row: PayoutRow


class PayoutRows(Struct, frozen=True, array_like=True, tag="payouts"):
    """Payouts of a board. They replace payouts with the same ids that were written before."""

    items: list[CopiedPayout]

    @property
    def size(self) -> int:
        """The number of payouts."""
        return len(self.items)

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return 300 * len(self.items)


SeasonPiece = SealedShare | PayoutRows


def shares_of(
    revision: SealedRevision, pieces: Iterable[SealedRanking | SealedRows]
) -> Iterator[SealedShare]:
    """Yield a revision of a sealed period in shares. At least one share is yielded."""
    place = (revision.window, revision.instance, revision.revision)
    pending: list[SealedPiece] = [revision]
    number = size = nbytes = 0
    for piece in pieces:
        if size and (size + _size(piece) > SHARE_ROWS or nbytes + _nbytes(piece) > SHARE_BYTES):
            yield SealedShare(*place, number, False, pending)
            pending, number, size, nbytes = [], number + 1, 0, 0
        pending.append(piece)
        size, nbytes = size + _size(piece), nbytes + _nbytes(piece)
    yield SealedShare(*place, number, True, pending)


def revisions_of(closing: Mapping[str, WindowClosing]) -> Iterator[tuple[str, int, int]]:
    """Yield all revisions of the sealed periods of a board: window, instance and revision."""
    for window in sorted(closing):
        for instance, sealed in sorted(closing[window].sealed.items()):
            for revision in range(sealed.revision + 1):
                yield window, instance, revision


def payout_pieces(payouts: Iterable[CopiedPayout]) -> Iterator[PayoutRows]:
    """Yield payouts in pieces."""
    items: list[CopiedPayout] = []
    for payout in payouts:
        items.append(payout)
        if len(items) == PAYOUTS_AT_ONCE:
            yield PayoutRows(items)
            items = []
    if items:
        yield PayoutRows(items)


def _size(piece: SealedPiece) -> int:
    return piece.size if isinstance(piece, SealedRows) else 1


def _nbytes(piece: SealedPiece) -> int:
    match piece:
        case SealedRows():
            return len(piece.members) + len(piece.lengths) + sum(map(len, piece.columns))
        case SealedRanking():
            return 100 + 30 * len(piece.secrets) + 80 * len(piece.erased)
    return 300
