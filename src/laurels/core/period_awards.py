"""Computes from archived standings which amounts the members of a sealed period win. Pure."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from laurels.model.labels import form_of, is_by
from laurels.model.prizes import Prizes
from laurels.model.rules import Rules

from .award_plan import WinPage, plan_wins, prize_reading
from .payouts import Added, Owed, PayoutRow, payout_id
from .ranking_key import RankingKey
from .requests import ReadRequest, ReadResult
from .standing import FIRST

PAGE = 512
"""The number of members that are read at once."""
_json = msgspec.json.Encoder()


class SealedPlace(Struct, frozen=True):
    """A revision of a period: the uid of its board, its window, its instance and its revision."""

    uid: str
    window: str
    instance: int
    revision: int


class SealedStandings(Struct, frozen=True):
    """A revision of a period. Its standings are in an archive, and it is about to be sealed.

    `read` answers requests for its rankings, one for each of `scopes`. `board` is the name of the
    board, `label` that of the period. `rules` and `prizes` are those of the definition at closing.
    In a window with decay the scores are those at `final_ms`.
    """

    place: SealedPlace
    read: Callable[[ReadRequest], ReadResult]
    scopes: Sequence[str]
    board: str
    rules: Rules
    prizes: Prizes | None
    label: str
    final_ms: int

    def owed(self, prizes: Prizes) -> Iterator[Owed]:
        """Yield the amounts that the members of the period win, scope by scope. O(winners),
        whatever the size of the rankings. Raises BeyondHead if a position that decides who wins is
        not certain."""
        forms = {",".join(names) for names in prizes.scopes}
        for scope in self.scopes:
            if not is_by(scope) and form_of(scope) in forms:
                yield from self._owed_in(prizes, scope)

    def _owed_in(self, prizes: Prizes, scope: str) -> Iterator[Owed]:
        """Yield the amounts that members win in one scope."""
        key = RankingKey(0, self.place.window, self.place.instance, scope)
        reading = prize_reading(self.rules, ReadRequest(key), prizes, self.final_ms)
        data = {prize.name: _json.encode(prize.data) for prize in prizes.list}
        start: int | None = 0
        while start is not None:
            plan = plan_wins(reading, start, PAGE, _whole_page)
            page = plan.run(self.read, 0)
            for win, _ in page.wins:
                name, position = win.prize.name, win.position + FIRST
                scale = win.prize.scale
                yield Owed(scope, win.member, name, position, win.units, scale, data[name])
            start = page.next

    def row(self, added: Added) -> PayoutRow:
        """Return the payout of an amount that is owed. Its times are set when it is published."""
        owed, place = added.owed, self.place
        return PayoutRow(
            id=payout_id(
                place.uid,
                place.window,
                self.label,
                owed.scope,
                owed.member,
                owed.prize,
                place.revision,
            ),
            uid=place.uid,
            board=self.board,
            window=place.window,
            instance=place.instance,
            period=self.label,
            revision=place.revision,
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


def _whole_page(page: WinPage, _: object) -> WinPage:
    return page
