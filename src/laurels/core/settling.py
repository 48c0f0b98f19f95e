"""The query `settle`: who would win which prizes of a period, by its present standings."""

from typing import Any

from laurels.errors import InvalidLimit, InvalidOffset, NoPrizes
from laurels.model.answer import Answer
from laurels.model.board import Board
from laurels.model.labels import LabelPairs
from laurels.model.prizes import Prizes, prizes_of
from laurels.model.score import Number, Score, to_value
from laurels.model.validation import quoted

from .award_plan import WinPage, plan_wins, prize_reading
from .board_state import BoardState
from .closing import period_finality
from .index import Offset
from .named_windows import window_named
from .query import Query
from .query_context import QueryContext
from .read_plan import MAX_LIMIT, ReadPlan
from .standing import FIRST, AsOf


class Award(Answer, frozen=True, omit_defaults=True):
    """A prize that a member wins by its position, which is counted from 1. `amount` and `data` are
    those of the prize; with ties `split`, the amount is the member's share."""

    member: str
    position: int
    score: Score
    prize: str
    amount: Number | None = None
    data: Any = None


class Settlement(Answer, frozen=True):
    """The prizes of a period in one scope, by the standings as of `as_of`.

    `awards` are sorted by position, the awards of one member in the order of the definition. Only
    the first `winners` of the `total` members may win something. `next` is the offset of the next
    page, None at the end. The period is `final` once no event can change its standings any more.
    """

    awards: list[Award]
    winners: int
    total: int
    final: bool
    as_of: AsOf
    next: int | None = None


class Settle(Query[Settlement], frozen=True, kw_only=True):
    """Who wins which prizes of a period, by its present standings: a preview while events count,
    and the outcome once the period is final. `limit` and `offset` count members."""

    verb = "settle"
    path = "settle"
    returns = Settlement
    reads_positions = True

    window: str | None = None
    period: str | None = None
    labels: LabelPairs = ()
    limit: int = 1_000
    offset: int = 0

    def __post_init__(self) -> None:
        self._ensure("limit", 1, MAX_LIMIT, InvalidLimit)
        self._ensure("offset", 0, None, InvalidOffset)

    @property
    def size(self) -> int:
        return self.limit

    @property
    def is_past(self) -> bool:
        return self.period is not None

    def plan(self, now: QueryContext) -> ReadPlan[Settlement]:
        rules = now.state.rules
        window = window_named(rules, self.window)
        view = now.view(self.window, self.period, labels=self.labels)
        prizes = _in_scope(
            prizes_of_period(now.state, window.name, view.key.instance), window.name, self.labels
        )
        final = period_finality(rules, window, view.period, now.positions, now.now_ms).final

        reading = prize_reading(rules, view.request, prizes, now.now_ms)

        def answer(page: WinPage, offset: Offset) -> Settlement:
            return Settlement(
                [
                    Award(
                        win.member,
                        win.position + FIRST,
                        score,
                        win.prize.name,
                        None if win.units is None else to_value(win.units, win.prize.scale),
                        win.prize.data,
                    )
                    for win, score in page.wins
                ],
                page.winners,
                page.total,
                final,
                view.as_of(offset),
                page.next,
            )

        return plan_wins(reading, self.offset, self.limit, answer)


def prizes_of_period(state: BoardState, window: str, instance: int) -> Prizes | None:
    """Return the prizes of a period: those of the definition at its closing if the period is
    closed, otherwise those of the present definition. None if that definition has none."""
    closing = state.closing.get(window)
    if closing is not None and (sealed := closing.sealed.get(instance)) is not None:
        return prizes_of(sealed.prizes) if sealed.prizes else None
    closed = None if closing is None else closing.closed.get(instance)
    board = state.board
    if closed is not None and closed.definition:
        board = Board.from_json(closed.definition)
    return board.prizes().get(window)


def _in_scope(prizes: Prizes | None, window: str, labels: LabelPairs) -> Prizes:
    """Return the prizes of a window. Raises NoPrizes if it has none in the scope of these
    labels."""
    if prizes is None:
        raise NoPrizes(f"the window {quoted(window)} has no prizes")
    names = tuple([name for name, _ in labels])
    if names not in prizes.scopes:
        scopes = "; ".join([", ".join(scope) or "no labels" for scope in prizes.scopes])
        raise NoPrizes(
            f"expected a scope in which the window {quoted(window)} has prizes ({scopes}), got "
            f"{', '.join(names) or 'no labels'}"
        )
    return prizes
