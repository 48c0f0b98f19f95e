"""Reads and writes the sealed periods of boards in their ledgers, for copies of the boards.

A received period is in the ledger as a whole or not at all, since its row there becomes complete in
the last transaction. If the ledger already has the period, with the same digest, it is not written
again. So a copy that begins again does not write complete periods twice.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

from laurels.core.closing import SealedPeriod
from laurels.core.contents import Origin
from laurels.core.sealed_contents import (
    DigestOfPieces,
    SealedPiece,
    SealedRanking,
    SealedRevision,
    SealedRows,
)
from laurels.core.season_pieces import SealedShare, revisions_of, shares_of
from laurels.errors import ArchiveDamaged
from laurels.errors.copies import CopyLost, CopyRefused, InvalidCopy
from laurels.errors.index_server import LedgerRequired
from laurels.model.board import Board
from laurels.model.validation import quoted
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.final_writing import PeriodWriter

from .ledgers import Ledger, Ledgers

T = TypeVar("T")
Transact = Callable[[Ledger, Callable[[Any], T]], T]


class SeasonCopies:
    """The sealed periods of boards that are copied. The methods block. Each raises
    LedgerUnavailable and UnknownLedger."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers
        self._lock = Lock()
        self._received: dict[int, _Received] = {}

    def shares(self, origin: Origin) -> Iterator[SealedShare]:
        """Yield the sealed periods of a board. Raises ArchiveDamaged if one of them is missing in
        the ledger."""
        places = list(revisions_of(origin.closing))
        if not places:
            return
        ledger = self._ledger(origin)
        with ledger.connected() as connection:
            reader = ledger.reader(connection)
            for place in places:
                if (period := reader.period(origin.uid, *place)) is None:
                    raise ArchiveDamaged(
                        f"the ledger has no standings of the window {quoted(place[0])} from "
                        f"{place[1]}, revision {place[2]}, which a copy of the board needs"
                    )
                yield from shares_of(period.revision, reader.pieces(period))

    def receive(self, number: int, origin: Origin, share: SealedShare) -> None:
        """Write the next share of a period of the unfinished copy with this number. Raises
        CopyLost if a share before it is missing, InvalidCopy, CopyRefused."""
        with self._lock:
            if (received := self._received.get(number)) is None:
                received = self._received[number] = _Received(self._ledger(origin), origin)
            received.add(share)

    def ensure_complete(self, origin: Origin) -> None:
        """Raise CopyLost if the ledger lacks a sealed period of a copy that is about to be
        finished."""
        places = list(revisions_of(origin.closing))
        if not places:
            return
        ledger = self._ledger(origin)
        with ledger.connected() as connection:
            reader = ledger.reader(connection)
            stored = {
                (each.revision.window, each.revision.instance, each.revision.revision): each
                for each in reader.periods(origin.uid)
            }
        for window, instance, revision in places:
            sealed = origin.closing[window].sealed[instance]
            period = stored.get((window, instance, revision))
            if period is None or (
                revision == sealed.revision and period.revision.seal.digest != sealed.digest
            ):
                raise CopyLost(
                    f"the sealed period of the window {quoted(window)} from {instance} is not whole"
                )

    def end(self, number: int) -> None:
        """Forget a copy that was finished or given up."""
        with self._lock:
            self._received.pop(number, None)

    def _ledger(self, origin: Origin) -> Ledger:
        name = Board.from_json(origin.definition).ledger
        if not name:
            raise LedgerRequired("the board has sealed periods, which need a ledger")
        return self._ledgers.named(name)


class _Received:
    """The period that an unfinished copy receives. `_next` is the number of the next share. If the
    ledger already has the period, `_stored` is that period, and `_writer` is None."""

    def __init__(self, ledger: Ledger, origin: Origin) -> None:
        self._ledger = ledger
        self._origin = origin
        board = Board.from_json(origin.definition)
        self._name, self._rules = board.name, board.rules()
        self._place: tuple[str, int, int] | None = None
        self._revision: SealedRevision | None = None
        self._writer: PeriodWriter | None = None
        self._stored: FinalPeriod | None = None
        self._digest = DigestOfPieces()
        self._next = 0

    def add(self, share: SealedShare) -> None:
        place = share.window, share.instance, share.revision
        pieces: Sequence[SealedPiece] = share.pieces
        if not share.number:
            if not isinstance(pieces[0] if pieces else None, SealedRevision):
                raise InvalidCopy("expected a sealed period that begins with its revision")
            revision, pieces = pieces[0], pieces[1:]
            assert isinstance(revision, SealedRevision)
            self._begin(place, revision)
        if place != self._place or share.number > self._next:
            raise CopyLost("shares of a sealed period are missing before this one")
        if share.number < self._next:
            return  # the share was sent before
        self._next += 1
        added = [each for each in pieces if not isinstance(each, SealedRevision)]
        if self._writer is not None:
            self._add(added, share)
        elif self._stored is not None:
            self._erase(self._stored, added)

    def _begin(self, place: tuple[str, int, int], revision: SealedRevision) -> None:
        """Begin to write a period, unless the ledger has it."""
        newest = self._origin.closing[place[0]].sealed.get(place[1])
        if revision.uid != self._origin.uid or newest is None:
            raise InvalidCopy("expected sealed periods of the board that is copied")
        self._place, self._next, self._digest = place, 0, DigestOfPieces()
        self._revision = revision.described_by(newest)
        with self._ledger.connected() as connection:
            writer = self._ledger.locked_writer(connection)
            reader = self._ledger.reader(connection)
            stored = reader.period(revision.uid, *place)
            self._stored = None
            if stored is not None and stored.revision.seal.digest == revision.seal.digest:
                self._writer, self._stored = None, stored
                writer.note_hidden(stored, self._revision.seal)
                return
            if stored is not None:
                raise CopyRefused(
                    f"the ledger has other standings of the window {quoted(place[0])} from "
                    f"{place[1]}, revision {place[2]}, of the same board"
                )
            self._writer = writer.begin(
                self._revision, self._name, self._origin.definition, self._rules
            )

    def _erase(self, stored: FinalPeriod, pieces: Sequence[SealedRanking | SealedRows]) -> None:
        """Erase from a period in the ledger the members that were erased from this period in the
        source."""
        erased = [each for each in pieces if isinstance(each, SealedRanking) and each.erased]
        if erased:
            with self._ledger.connected() as connection:
                writer = self._ledger.locked_writer(connection)
                for ranking in erased:
                    writer.put_tokens(stored, ranking)

    def _add(self, pieces: Sequence[SealedRanking | SealedRows], share: SealedShare) -> None:
        """Write pieces. After the last pieces of a period, make the period visible."""
        assert self._writer is not None
        assert self._revision is not None
        for piece in pieces:
            self._digest.add(piece)
        seal: SealedPeriod = self._revision.seal
        if share.is_last and (self._digest.entries, self._digest.digest()) != (
            seal.entries,
            seal.digest,
        ):
            raise InvalidCopy(
                f"the standings of the window {share.window!r} from {share.instance}, revision "
                f"{share.revision}, do not have the digest that they were sealed with"
            )
        with self._ledger.connected() as connection:
            self._ledger.locked_writer(connection)
            writer = self._writer.on(connection)
            writer.hold()
            writer.add(pieces)
            if share.is_last:
                writer.complete()
