"""Read the sealed periods and the payouts of a ledger as pieces of a copied board."""

from collections.abc import Iterator, Mapping

from laurels.core.closing import SealedPeriod
from laurels.core.season_pieces import CopiedPayout, SeasonPiece, payout_pieces, shares_of
from laurels.model.rules import Rules

from .reading import LedgerReader

Sealed = Mapping[str, Mapping[int, SealedPeriod]]
"""The seals of a board, by window and instance."""


class SeasonCounts:
    """The numbers of sealed periods, with all revisions, and of payouts that were read."""

    def __init__(self) -> None:
        self.periods = 0
        self.payouts = 0


def sealed_of(ledger: LedgerReader, uid: str, rules: Rules) -> Sealed:
    """Return the seals of a board. The ledger's table `scores` has neither the rankings of rolling
    windows nor rankings by a label, so only the archive answers queries about sealed periods."""
    sealed: dict[str, dict[int, SealedPeriod]] = {}
    for period in ledger.sealed(uid):
        revision = period.revision
        if period.is_current and revision.window in rules.windows:
            seal = revision.seal
            sealed.setdefault(revision.window, {})[revision.instance] = SealedPeriod(
                *(seal.sealed_ms, seal.entries, seal.digest, revision.revision),
                *(seal.hide_zero, seal.hidden, seal.prizes),
                archive_only=True,
            )
    return sealed


def season_pieces(
    ledger: LedgerReader, uid: str, rules: Rules, counts: SeasonCounts
) -> Iterator[SeasonPiece]:
    """Yield the sealed periods of a board with all revisions, and its payouts in the order in which
    they were made."""
    for period in ledger.sealed(uid):
        if period.revision.window in rules.windows:
            counts.periods += 1
            yield from shares_of(period.revision, ledger.sealed_pieces(period))
    payouts = sorted(ledger.payouts(uid), key=lambda row: (row.made_ms, row.position, row.id))
    counts.payouts = len(payouts)
    yield from payout_pieces(
        CopiedPayout(number, False, row) for number, row in enumerate(payouts, start=1)
    )
