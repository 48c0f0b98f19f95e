"""Computes the digest of a sealed period once more, from the log.

A second fold applies the log up to the seal of the period, when the frozen rankings are as they
were written to the archive. It begins at the newest snapshot in which the period is not sealed yet,
or at the beginning of the log.
"""

from collections.abc import Iterable, Sequence

from laurels.core import record as records
from laurels.core.digest import PeriodDigest, Salts, hashes_from
from laurels.core.fold import Fold
from laurels.stores.local.archive.ranking_form import FrozenRanking
from laurels.stores.local.archive.segment import ArchivedPeriod
from laurels.stores.local.log.base import Log
from laurels.stores.local.snapshot.files import SnapshotFile
from laurels.stores.local.snapshot.taking import opened

from .recover import NewIndex

Sought = tuple[int, str, int]
"""A period: the number of the board, the window, the instance."""


def fold_until_sealed(
    log: Log, snapshots: Sequence[SnapshotFile], new_index: NewIndex, sought: Sought
) -> Fold | None:
    """Return a fold of the log up to the entry before the seal of a period; None if the log no
    longer reaches back so far. Raises LogDamaged, SnapshotDamaged."""
    fold = _beginning(log, snapshots, new_index, sought)
    if fold is None:
        return None
    for offset, body in log.read(fold.offset):
        fold.entry = offset
        for record in records.decode(body):
            if isinstance(record, records.Seal) and _sealed_by(record) == sought:
                return fold
            fold.apply(record)
        fold.offset = offset
    return None


def digest_of(rankings: Iterable[FrozenRanking], archived: ArchivedPeriod) -> bytes:
    """Return the digest of rankings, computed with the salts of an archived period. For entries of
    the period that were erased, the archived hashes are used."""
    kept = {record.scope: (record.salts(), record.erased) for record in archived.rankings()}
    digest = PeriodDigest()
    for ranking in rankings:
        digest.begin(ranking.scope)
        (salts, erased), position = kept.get(ranking.scope, (Salts({}), [])), 0
        for entries in ranking.chunks:
            digest.add(hashes_from(salts, position, entries, erased))
            position += len(entries)
    return digest.digest()


def _beginning(
    log: Log, snapshots: Sequence[SnapshotFile], new_index: NewIndex, sought: Sought
) -> Fold | None:
    """Return a fold in which a period is not sealed yet: the state of the newest snapshot before
    its seal. If there is no such snapshot, return an empty fold, or None if the beginning of the
    log was trimmed."""
    number, window, instance = sought
    for snapshot in snapshots:
        fold = opened(snapshot.path, new_index())
        state = fold.find_by_number(number)
        closing = None if state is None else state.closing.get(window)
        if closing is None or instance not in closing.sealed:
            return fold
    return Fold(new_index()) if log.first == 1 else None


def _sealed_by(record: records.Seal) -> Sought:
    return record.board, record.window, record.instance
