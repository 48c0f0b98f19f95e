"""The query for the payouts of a board."""

import re

from laurels.errors import InvalidCursor, InvalidLimit, UnknownPeriod, UnknownWindow
from laurels.errors.payouts import InvalidState
from laurels.model.validation import is_unicode, safe_repr

from .named_windows import window_named
from .payouts import (
    STATES,
    PayoutFilter,
    PayoutPage,
    PayoutReads,
    PayoutRequest,
    PayoutState,
    payout_of,
)
from .query import Query
from .query_context import QueryContext
from .query_members import ensure_member
from .read_plan import ReadPlan

MAX_PAYOUTS = 2_000
_CURSOR = re.compile(r"(-?[0-9]{1,15})-([0-9]{1,18})")
_START = (-(2**63), 0)


class PayoutsOf(Query[PayoutPage], frozen=True, kw_only=True):
    """The payouts of a board, in the order in which they are due; also those of a board that was
    deleted. `state` selects those that are pending, due, confirmed or superseded. With `due_only`
    the list has those that are due or confirmed: a list that only grows at its end, so that a
    program can read it from `after` on."""

    verb = "payouts"
    path = "payouts"
    returns = PayoutPage
    is_administrative = True
    outlives_board = True
    reads_files = True

    window: str | None = None
    period: str | None = None
    member: str | None = None
    state: PayoutState | None = None
    due_only: bool = False
    after: str | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        self._ensure("limit", 1, MAX_PAYOUTS, InvalidLimit)
        if self.member is not None:
            ensure_member(self.member)
        if self.state is not None and self.state not in STATES:
            raise InvalidState(
                f"expected one of {', '.join(STATES)} for state, got {safe_repr(self.state)}"
            )
        if self.period is not None and not _is_text(self.period):
            raise UnknownPeriod(f"expected the label of a period, got {safe_repr(self.period)}")
        if self.window is not None and not _is_text(self.window):
            raise UnknownWindow(f"expected the name of a window, got {safe_repr(self.window)}")
        _place(self.after)

    @property
    def size(self) -> int:
        return self.limit

    @property
    def is_past(self) -> bool:
        return True

    def plan(self, now: QueryContext) -> ReadPlan[PayoutPage]:
        payouts, now_ms, board, rules = (
            now.payouts,
            now.now_ms,
            now.state.board.name,
            now.state.rules,
        )

        def answer(*_: object) -> PayoutPage:
            window = self.window
            if window is not None and (payouts is None or not payouts.knows(board, window)):
                window = window_named(rules, window).name
            return self.page(payouts, board, window, now_ms)

        return ReadPlan((), answer)

    def without_board(
        self, payouts: PayoutReads | None, board: str, now_ms: int
    ) -> PayoutPage | None:
        """Return the answer about a board that no longer exists; None if it never had payouts."""
        if payouts is None or not payouts.knows(board):
            return None
        return self.page(payouts, board, self.window, now_ms)

    def payout_request(self, board: str) -> PayoutRequest:
        return self._request(board, self.window)

    def _request(self, board: str, window: str | None) -> PayoutRequest:
        """Return a request for the payouts of a page and for one more, which tells whether there is
        a next page."""
        wanted = PayoutFilter(board, window, self.period, self.member, self.state, self.due_only)
        return PayoutRequest(wanted, _place(self.after), self.limit + 1)

    def page(
        self, payouts: PayoutReads | None, board: str, window: str | None, now_ms: int
    ) -> PayoutPage:
        """Return a page of payouts."""
        if payouts is None:
            return PayoutPage([])
        request = self._request(board, window)
        found = payouts.page(request.wanted, now_ms, request.after, request.limit)
        page = found[: self.limit]
        cursor = f"{page[-1][1].due_ms}-{page[-1][0]}" if page else self.after
        more = len(found) > self.limit
        payouts_shown = [payout_of(row, now_ms) for _, row in page]
        return PayoutPage(payouts_shown, cursor if more else None, cursor)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_unicode(value)


def _place(after: str | None) -> tuple[int, int]:
    """Return the due time and the number of the payout after which a page begins."""
    if after is None:
        return _START
    match = _CURSOR.fullmatch(after) if isinstance(after, str) else None
    if match is None:
        raise InvalidCursor(f"expected the `next` of a page of payouts, got {safe_repr(after)}")
    return int(match[1]), int(match[2])
