"""Makes the payouts of sealed periods from their archived standings."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from laurels.core.close_schedule import prizes_in
from laurels.core.payouts import Added, correction
from laurels.core.period_awards import SealedPlace, SealedStandings
from laurels.core.requests import find_in
from laurels.model.prizes import Prizes
from laurels.model.rules import Rules
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.reads import ArchivedIndex
from laurels.stores.local.archive.segment import ArchivedPeriod
from laurels.stores.local.seal_draft import SealDraft

from .table import PayoutTable

STAGED = 100
"""The number of payouts that are written at once. This takes one to three milliseconds."""
Pause = Callable[[], None]
"""A function that is called between pieces of the work, to let other threads run."""


def archived_standings(
    archived: ArchivedPeriod,
    board: str,
    rules: Rules,
    prizes: Prizes | None,
    label: str,
    final_ms: int,
) -> SealedStandings:
    """Return a revision of a period that is in the archive; see `SealedStandings`."""
    key = archived.record.key
    index = ArchivedIndex(rules, {(key.window, key.instance): archived}, _no_data)
    scopes = [ranking.scope for ranking in archived.rankings()]
    place = SealedPlace(key.uid, key.window, key.instance, key.revision)
    read = partial(find_in, index)
    return SealedStandings(place, read, scopes, board, rules, prizes, label, final_ms)


def _no_data(_: int, members: Sequence[str]) -> list[bytes | None]:
    """Return no data: awards do not depend on the data of members."""
    return [None] * len(members)


def stage_drafts(
    table: PayoutTable, archive: Archive, drafts: Sequence[SealDraft], pause: Pause
) -> None:
    """Write the payouts of the periods that are about to be sealed."""
    for draft in drafts:
        pause()
        prizes = prizes_in(draft.board, draft.window)
        if prizes is None:
            continue
        archived = archive.open(draft.key)
        assert archived is not None, "a period is in the archive before it is sealed"
        rules, label = draft.board.rules(), draft.period.label
        stage_payouts(
            table,
            archived_standings(archived, draft.board.name, rules, prizes, label, draft.now_ms),
            pause,
        )


def stage_payouts(table: PayoutTable, sealed: SealedStandings, pause: Pause = lambda: None) -> None:
    """Write the payouts of a period that is about to be sealed. They are durable when this returns,
    and invisible until they are published. A second call has the same result. O(winners)."""
    _unstage(table, sealed.place)
    if (prizes := sealed.prizes) is not None:
        _write(table, sealed, map(Added, sealed.owed(prizes)), prizes, pause)


def stage_correction(table: PayoutTable, sealed: SealedStandings, now_ms: int) -> None:
    """Write the changes of the payouts that a new revision of a period requires, durably and
    invisibly like `stage_payouts`. Payouts that are due at `now_ms` stay, and the differences are
    added. O(winners)."""
    place = sealed.place
    _unstage(table, place)
    if (prizes := sealed.prizes) is None:
        return
    present = table.of_period(place.uid, place.window, place.instance)
    change = correction(present, list(sealed.owed(prizes)), now_ms)
    table.stage_replaced(change.superseded, place.revision)
    _write(table, sealed, change.added, prizes, lambda: None)


def _unstage(table: PayoutTable, place: SealedPlace) -> None:
    table.unstage(place.uid, place.window, place.instance, place.revision)


def _write(
    table: PayoutTable,
    sealed: SealedStandings,
    added: Iterable[Added],
    prizes: Prizes,
    pause: Pause,
) -> None:
    rows = map(sealed.row, added)
    while part := list(islice(rows, STAGED)):
        table.stage(part, prizes.pay_after_ms)
        pause()
    table.flush()
