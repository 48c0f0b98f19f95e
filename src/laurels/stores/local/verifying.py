"""Verifies sealed periods: computes their digests once more, from the archive and from the log."""

from contextlib import nullcontext

from laurels.core.archived import ErasedPlace, VerifiedPeriod
from laurels.core.closing import ensure_sealed
from laurels.core.named_windows import readable, window_named
from laurels.core.standing import FIRST
from laurels.model.labels import labels_of
from laurels.stores.local.recovery.sealed_period import digest_of, fold_until_sealed
from laurels.timeline.instants import MIN_MS

from .archive.erasing import erased_in
from .archive.segment import ArchivedPeriod, PeriodKey
from .frozen import FrozenRankings, frozen_period
from .sealing import LocalSealing


class LocalVerifying(LocalSealing):
    """The part of the store of one process that verifies sealed periods."""

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Compute the digest of a sealed period from the archive. If the period was not corrected
        and the log still reaches back to it, also compute the digest from a second fold of the log.
        Reads and writes continue.

        Raises NotSealed, PeriodExpired, ArchiveDamaged, LogDamaged.
        """
        with self.reading():
            state = self._advanced(board)
            chosen = window_named(state.rules, window)
            floor_ms, now_ms = state.floors.get(chosen.name, MIN_MS), self._fold.time_of(state)
            named = readable(chosen, floor_ms, now_ms, period, state.closing.get(chosen.name))
            instance = chosen.instance_of(named)
            sealed = ensure_sealed(state, chosen, instance)
            key = PeriodKey(state.uid, chosen.name, instance, sealed.revision)
            archived = self._opened(key)
            number = state.number
        digest, in_archive = sealed.digest.hex(), archived.computed_digest().hex()
        in_log = None if sealed.revision else self._digest_in_log(number, key, archived)
        return VerifiedPeriod(
            chosen.name,
            named.label,
            sealed.revision,
            sealed.entries,
            digest,
            in_archive,
            in_log,
            in_archive == digest and in_log in (None, digest),
            [
                ErasedPlace(each.token, each.position + FIRST, labels_of(scope))
                for scope, each in erased_in(archived)
            ],
        )

    def _digest_in_log(self, number: int, key: PeriodKey, archived: ArchivedPeriod) -> str | None:
        """Return the digest of a period, computed from a second fold of the log; None if the log no
        longer reaches back to the period."""
        with self._snapshot_scheduler.exclusive():
            sought = (number, key.window, key.instance)
            fold = fold_until_sealed(self._log, self._snapshots(), self._new_index, sought)
        if fold is None:
            return None
        frozen = frozen_period(fold.by_number(number), key.window, key.instance)
        rankings = FrozenRankings(lambda: fold, nullcontext).of(frozen)
        return digest_of(rankings, archived).hex()
