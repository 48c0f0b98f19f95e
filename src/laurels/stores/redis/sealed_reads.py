"""Answers read requests about sealed periods from the ledger of a board."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from laurels.core.archived import ErasedPlace, VerifiedPeriod
from laurels.core.archived_requests import PeriodPlace, place_of
from laurels.core.board_state import BoardState
from laurels.core.closing import ensure_sealed
from laurels.core.named_windows import readable, window_named
from laurels.core.requests import ReadRequest, ReadResult
from laurels.core.sealed_contents import (
    DigestOfPieces,
    SealedPart,
    SealedPiece,
    SealedRanking,
    SealedRows,
    sealed_rows,
)
from laurels.core.standing import FIRST
from laurels.errors import ArchiveDamaged
from laurels.model.labels import labels_of
from laurels.model.validation import quoted
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.final_reading import CHUNK, FinalReader
from laurels.timeline.instants import MIN_MS

from .ledgers import Ledger, Ledgers
from .sealed_index import SealedIndex


async def read_sealed(
    ledger: Ledger,
    state: BoardState,
    requests: Sequence[ReadRequest],
    revisions: Mapping[PeriodPlace, int],
) -> list[ReadResult]:
    """Answer requests about sealed periods. The hidden members and the scores of 0 that a ranking
    left out at its closing are not in the ledger, so requests need not leave them out. Raises
    ArchiveDamaged, LedgerUnavailable."""
    plain = [replace(request, zeros=None, hidden=None) for request in requests]

    def read(connection: Any) -> list[ReadResult]:
        reader = ledger.reader(connection)
        index = SealedIndex(reader, state.uid, state.rules, revisions)
        return [_answer(reader, index, request) for request in plain]

    return await ledger.read(read)


def _answer(reader: FinalReader, index: SealedIndex, request: ReadRequest) -> ReadResult:
    if request.sealed is None:
        return index.find(request)
    period = index.period(*place_of(request))
    return ReadResult(0, [], [], None, None, sealed=_part(reader, period, request.sealed))


def _part(reader: FinalReader, period: FinalPeriod, part: SealedPart) -> list[SealedPiece]:
    """Return the pieces of a period that `part` requests, at most about `part.limit` entries.
    O(scopes) and these entries."""
    pieces: list[SealedPiece] = [period.revision] if part.is_first else []
    room = part.limit
    for ranking in reader.rankings(period):
        scope, start = ranking.form.scope, 0
        if scope < part.scope:
            continue
        if scope == part.scope:
            start = part.position
        if not start:
            if room <= 1 and pieces and isinstance(pieces[-1], SealedRows):
                # a page must not end with a ranking without rows: the next page would have it again
                break
            pieces.append(ranking.form)
            room -= 1
        while start < len(ranking) and (room > 0 or isinstance(pieces[-1], SealedRanking)):
            found = ranking.slice(start, start + max(1, min(room, CHUNK)))
            rows = sealed_rows([member.encode() for member in found.members], found.words)
            pieces.append(rows)
            room, start = room - rows.size, start + rows.size
        if room <= 0:
            break
    return pieces


async def verify_sealed(
    ledgers: Ledgers, state: BoardState, window: str | None, period: str | None, now_ms: int
) -> VerifiedPeriod:
    """Compute the digest of a sealed period from the ledger. Raises NotSealed, PeriodExpired,
    ArchiveDamaged, LedgerUnavailable."""
    chosen = window_named(state.rules, window)
    floor_ms = state.floors.get(chosen.name, MIN_MS)
    named = readable(chosen, floor_ms, now_ms, period, state.closing.get(chosen.name))
    instance = chosen.instance_of(named)
    sealed = ensure_sealed(state, chosen, instance)
    ledger = ledgers.named(state.board.ledger)

    erased: list[ErasedPlace] = []

    def compute(connection: Any) -> bytes:
        erased.clear()
        reader = ledger.reader(connection)
        stored = reader.period(state.uid, chosen.name, instance, sealed.revision)
        if stored is None:
            raise ArchiveDamaged(
                f"the ledger has no standings of the period {named.label} of the window "
                f"{quoted(chosen.name)}"
            )
        digest = DigestOfPieces()
        for piece in reader.pieces(stored):
            digest.add(piece)
            if isinstance(piece, SealedRanking):
                erased.extend(erased_places(piece))
        return digest.digest()

    digest, computed = sealed.digest.hex(), (await ledger.compute(compute)).hex()
    return VerifiedPeriod(
        chosen.name,
        named.label,
        sealed.revision,
        sealed.entries,
        digest,
        computed,
        None,
        computed == digest,
        erased,
    )


def erased_places(ranking: SealedRanking) -> list[ErasedPlace]:
    """Return the places in a ranking at which members were erased."""
    labels = labels_of(ranking.scope)
    return [ErasedPlace(each.token, each.position + FIRST, labels) for each in ranking.erased]
