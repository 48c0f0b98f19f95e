"""Makes the payouts of sealed periods from their archived standings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec
from msgspec import Struct

from laurels.core.award_plan import WinPage, plan_wins, prize_reading
from laurels.core.payouts import Added, Owed, PayoutRow, correction, payout_id
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, find_in
from laurels.core.standing import FIRST
from laurels.model.labels import form_of, is_by
from laurels.model.prizes import Prizes
from laurels.model.rules import Rules
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.archive.reads import ArchivedIndex
from laurels.stores.local.archive.segment import ArchivedPeriod, PeriodKey
from laurels.stores.local.seal_draft import SealDraft

from .table import PayoutTable

PAGE = 512
"""The number of members that are read at once."""
STAGED = 100
"""The number of payouts that are written at once. This takes one to three milliseconds."""
Pause = Callable[[], None]
"""A function that is called between pieces of the work, to let other threads run."""
_json = msgspec.json.Encoder()


class SealedStandings(Struct, frozen=True):
    """A revision of a period. Its standings are in the archive, and it is about to be sealed.

    `board` is the name of the board, `label` that of the period. `rules` and `prizes` are those of
    the definition at closing. In a window with decay the scores are those at `final_ms`.
    """

    archived: ArchivedPeriod
    board: str
    rules: Rules
    prizes: Prizes | None
    label: str
    final_ms: int

    @property
    def key(self) -> PeriodKey:
        """The board, the window, the period and the revision."""
        return self.archived.record.key

    def owed(self, prizes: Prizes) -> Iterator[Owed]:
        """Yield the amounts that the members of the period win, scope by scope. O(winners),
        whatever the size of the rankings."""
        forms = {",".join(names) for names in prizes.scopes}
        for ranking in self.archived.rankings():
            if not is_by(ranking.scope) and form_of(ranking.scope) in forms:
                yield from self._owed_in(prizes, ranking.scope)

    def _owed_in(self, prizes: Prizes, scope: str) -> Iterator[Owed]:
        """Yield the amounts that members win in one scope."""
        key = RankingKey(0, self.key.window, self.key.instance, scope)
        periods = {(key.window, key.instance): self.archived}
        index = ArchivedIndex(self.rules, periods, _no_data)
        reading = prize_reading(self.rules, ReadRequest(key), prizes, self.final_ms)
        data = {prize.name: _json.encode(prize.data) for prize in prizes.list}
        start: int | None = 0
        while start is not None:
            plan = plan_wins(reading, start, PAGE, _whole_page)
            page = plan.run(partial(find_in, index), 0)
            for win, _ in page.wins:
                name, position = win.prize.name, win.position + FIRST
                scale = win.prize.scale
                yield Owed(scope, win.member, name, position, win.units, scale, data[name])
            start = page.next

    def row(self, added: Added) -> PayoutRow:
        """Return the payout of an amount that is owed. Its times are set when it is published."""
        owed, key = added.owed, self.key
        return PayoutRow(
            id=payout_id(
                key.uid, key.window, self.label, owed.scope, owed.member, owed.prize, key.revision
            ),
            uid=key.uid,
            board=self.board,
            window=key.window,
            instance=key.instance,
            period=self.label,
            revision=key.revision,
            scope=owed.scope,
            member=owed.member,
            prize=owed.prize,
            position=owed.position,
            units=owed.units,
            scale=owed.scale,
            data=owed.data,
            withdrawn=added.withdrawn,
            corrects=added.corrects,
            made_ms=0,
            due_ms=0,
        )


def _no_data(_: int, members: Sequence[str]) -> list[bytes | None]:
    """Return no data: awards do not depend on the data of members."""
    return [None] * len(members)


def _whole_page(page: WinPage, _: object) -> WinPage:
    return page


def stage_drafts(
    table: PayoutTable, archive: Archive, drafts: Sequence[SealDraft], pause: Pause
) -> None:
    """Write the payouts of the periods that are about to be sealed."""
    for draft in drafts:
        prizes = draft.board.prizes().get(draft.window)
        if prizes is None:
            continue
        archived = archive.open(draft.key)
        assert archived is not None, "a period is in the archive before it is sealed"
        rules, label = draft.board.rules(), draft.period.label
        stage_payouts(
            table,
            SealedStandings(archived, draft.board.name, rules, prizes, label, draft.now_ms),
            pause,
        )


def stage_payouts(table: PayoutTable, sealed: SealedStandings, pause: Pause = lambda: None) -> None:
    """Write the payouts of a period that is about to be sealed. They are durable when this returns,
    and invisible until they are published. A second call has the same result. O(winners)."""
    _unstage(table, sealed.key)
    if (prizes := sealed.prizes) is not None:
        _write(table, sealed, map(Added, sealed.owed(prizes)), prizes, pause)


def stage_correction(table: PayoutTable, sealed: SealedStandings, now_ms: int) -> None:
    """Write the changes of the payouts that a new revision of a period requires, durably and
    invisibly like `stage_payouts`. Payouts that are due at `now_ms` stay, and the differences are
    added. O(winners)."""
    key = sealed.key
    _unstage(table, key)
    if (prizes := sealed.prizes) is None:
        return
    present = table.of_period(key.uid, key.window, key.instance)
    change = correction(present, list(sealed.owed(prizes)), now_ms)
    table.stage_replaced(change.superseded, key.revision)
    _write(table, sealed, change.added, prizes, lambda: None)


def _unstage(table: PayoutTable, key: PeriodKey) -> None:
    table.unstage(key.uid, key.window, key.instance, key.revision)


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
