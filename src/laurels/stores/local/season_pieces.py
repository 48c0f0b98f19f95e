"""The sealed periods and payouts of boards of the local store, read and written for copies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from laurels.core.board_state import BoardState
from laurels.core.closing import WindowClosing
from laurels.core.season_pieces import (
    PayoutRows,
    SealedShare,
    payout_pieces,
    revisions_of,
    shares_of,
)
from laurels.errors import ArchiveDamaged
from laurels.errors.copies import CopyLost
from laurels.model.validation import quoted

from .archive.archive import Archive
from .archive.receiving import ReceivedPeriods
from .archive.segment import PeriodKey
from .payouts.table import PayoutTable
from .state import PAYOUTS_MADE

NEW_ARCHIVES = "new_archives"
"""The key of a note with the uids of boards that are being copied, if the archive had no periods of
them before."""


class SeasonStore(Protocol):
    """The parts of the store that copies use, apart from its log."""

    archive: Archive
    payouts: PayoutTable
    received: ReceivedPeriods

    def note(self, key: str) -> str | None: ...

    def set_note(self, key: str, value: str) -> None: ...


def period_keys(uid: str, closing: Mapping[str, WindowClosing]) -> Iterator[PeriodKey]:
    """Yield the keys of all revisions of the sealed periods of a board."""
    for window, instance, revision in revisions_of(closing):
        yield PeriodKey(uid, window, instance, revision)


def sealed_shares(archive: Archive, keys: Sequence[PeriodKey]) -> Iterator[SealedShare]:
    """Yield periods of the archive. Raises ArchiveDamaged if one is missing."""
    for key in keys:
        if (period := archive.open(key)) is None:
            raise ArchiveDamaged(
                f"the archive has no standings of the window {quoted(key.window)} from "
                f"{key.instance}, revision {key.revision}, which a copy of the board needs"
            )
        yield from shares_of(period.revision(), period.pieces())


def payout_rows(
    payouts: PayoutTable, uid: str, confirmed_ms: int | None = None
) -> Iterator[PayoutRows]:
    """Yield the payouts of a board. With `confirmed_ms`, yield only those that were confirmed at
    this instant or later."""
    payouts.publish_all()
    return payout_pieces(payouts.copied.of(uid, confirmed_ms))


def begin(store: SeasonStore, uid: str) -> None:
    """Prepare for a copy of a board. If the archive has no periods of the board, store this in a
    note, so that `give_up` may remove those of the copy."""
    if not store.archive.of_board(uid):
        _note(store, {*_noted(store), uid})


def receive(
    store: SeasonStore, number: int, uid: str, pieces: Sequence[SealedShare | PayoutRows]
) -> None:
    """Write sealed periods and payouts of an unfinished copy."""
    for piece in pieces:
        if isinstance(piece, SealedShare):
            store.received.add(number, uid, piece)
        else:
            store.payouts.copied.receive(number, piece.items)
            # the file must exist before the note that says so
            if not store.payouts.file.is_expected:
                store.set_note(PAYOUTS_MADE, "yes")
                store.payouts.file.is_expected = True


def complete(store: SeasonStore, state: BoardState) -> None:
    """Make the sealed periods and payouts of a copy durable, before the copy is finished. Raises
    CopyLost if a period is missing."""
    store.received.write(state.number)
    for key in period_keys(state.uid, state.closing):
        digest = store.archive.digest(key)
        sealed = state.closing[key.window].sealed[key.instance]
        if digest is None or (key.revision == sealed.revision and digest != sealed.digest):
            raise CopyLost(
                f"the sealed period of the window {quoted(key.window)} from {key.instance} is not "
                "whole"
            )
    store.payouts.flush()


def end(store: SeasonStore, number: int, uid: str) -> None:
    """Forget the data that are only needed until a copy is finished."""
    store.received.end(number)
    _note(store, _noted(store) - {uid})


def give_up(store: SeasonStore, number: int, uid: str) -> None:
    """Remove the periods of a copy that was given up, unless the archive had periods of this board
    before the copy."""
    if uid in _noted(store):
        store.archive.drop(store.archive.of_board(uid))
    end(store, number, uid)


def _noted(store: SeasonStore) -> set[str]:
    return {*(store.note(NEW_ARCHIVES) or "").split()}


def _note(store: SeasonStore, uids: set[str]) -> None:
    if uids != _noted(store):
        store.set_note(NEW_ARCHIVES, " ".join(sorted(uids)))
