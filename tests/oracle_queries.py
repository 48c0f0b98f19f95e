"""The clock and the boards of the oracle, and its queries of rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.calendar_by_scanning import Span
from tests.definitions import ALL, Place, Refusal, Row, Scope
from tests.oracle_board import Hidings, OracleBoard
from tests.oracle_forms import FIRST_MS


class OracleQueries:
    """The part of the oracle that answers queries. If it has no clock, the time of each board is
    that of its latest event."""

    def __init__(self, clock: Callable[[], int] | None) -> None:
        self.clock = clock
        self.latest_ms = FIRST_MS
        self.boards: dict[str, OracleBoard] = {}
        self.leaving: dict[str, OracleBoard] = {}
        """The boards that are no longer retained, and have periods to be sealed."""
        self.removed: list[OracleBoard] = []
        """The removed boards that can be restored, in the order of their removal."""
        self.removed_ms = FIRST_MS
        """The latest time at which a board was found to be no longer retained, or was restored."""
        self.hidden_everywhere: Hidings = {}
        self.refreshes = 0
        self.store_of: Callable[[str], str] = lambda _: ""
        """Returns what is equal for the names of boards in one store. A board cannot be restored in
        another store."""

    def now_ms(self) -> int:
        return self.latest_ms if self.clock is None else max(self.latest_ms, self.clock())

    def time(self, board: OracleBoard) -> int:
        """Return the time of a board: that of the clock or, in event time, the latest `at` of the
        board's events."""
        return board.latest_ms if self.clock is None else self.now_ms()

    def go_back(self) -> None:
        """Go on from an earlier time than before. Nothing was written since that time."""
        for board in self.boards.values():
            for window in board.windows.values():
                window.go_back(self.time(board))

    def board(self, name: str) -> OracleBoard:
        self.drop_gone()
        if name not in self.boards:
            raise Refusal("unknown_board")
        return self.boards[name]

    def drop_gone(self) -> None:
        """Remove the boards whose `retain` has passed since their end. Those with periods that are
        not sealed yet are still in the store, where nobody sees them."""
        for name in [name for name, board in self.boards.items() if self.is_gone(board)]:
            self.leaving[name] = self.boards.pop(name)
            self.removed_ms = self.now_ms()
            self.drop_settled(name)

    def drop_settled(self, name: str) -> None:
        """If a board that is no longer retained has no period that is to be sealed, remove it."""
        if not self.leaving[name].unsealed(self.now_ms()):
            self.keep_removed(self.leaving.pop(name))

    def keep_removed(self, board: OracleBoard) -> None:
        """Keep a board that was just removed, if it can be restored."""
        if board.is_restorable():
            self.removed.append(board)

    def is_gone(self, board: OracleBoard) -> bool:
        """Return whether a board is no longer retained. In event time boards stay."""
        return self.clock is not None and board.definition.is_gone(self.now_ms())

    def refresh(self) -> None:
        """Refresh the windows of all boards, as a commit does after its own record."""
        for board in self.boards.values():
            for window in board.windows.values():
                self.refreshes += window.refresh(self.time(board))

    def places(
        self,
        name: str,
        window: str | None = None,
        period: str | None = None,
        scope: Scope = ALL,
        revision: int | None = None,
    ) -> list[Place]:
        """Return a whole ranking in its order."""
        board = self.board(name)
        board.scope(dict(scope.labels), scope.by)
        queried, now_ms = board.window(window), self.time(board)
        label = queried.resolve(period, now_ms)
        if revision is not None:
            queried.closings.ensure_revision(label, revision)
        return board.standings(queried, label, scope, now_ms, revision)

    def is_left_out(self, name: str, window: str | None, member: str) -> bool:
        """Return whether a member is hidden in the current period of a window: now or, in a closed
        period, at its closing."""
        board = self.board(name)
        queried, now_ms = board.window(window), self.time(board)
        ranked = queried.ranked(queried.resolve(None, now_ms), now_ms, board.ranked_at)
        return member in ranked.hidden

    def scopes(self, name: str, labels: Sequence[str]) -> list[Scope]:
        """Return the scopes with these label names that have members, in the order of their text
        forms."""
        board, names = self.board(name), tuple(sorted(labels))
        if names not in board.definition.scopes:
            raise Refusal("unknown_scope")
        return board.holding(names, self.time(board))

    def periods(self, name: str, window: str | None = None) -> list[Span]:
        """Return the listed periods of a window, newest first. Except for the running one, those
        before the start of the board are left out. A period begins no earlier than the board."""
        board = self.board(name)
        spans = board.window(window).listed(self.time(board))
        starts_ms = board.definition.starts
        if not isinstance(starts_ms, int):
            return spans
        return [
            replace(span, start_ms=min(max(span.start_ms, starts_ms), span.end_ms))
            for span in spans
            if span is spans[0] or span.end_ms > starts_ms
        ]

    def states(self, name: str, window: str) -> list[str]:
        """Return the states of the listed periods of a window."""
        board = self.board(name)
        queried, now_ms = board.window(window), self.time(board)
        spans: Sequence[Span | None] = self.periods(name, window) or [None]
        return [queried.state(span, now_ms) for span in spans]

    def top(
        self,
        name: str,
        *,
        window: str | None = None,
        period: str | None = None,
        limit: int = 10,
        offset: int = 0,
        reverse: bool = False,
        after: Row | None = None,
        scope: Scope = ALL,
    ) -> list[Place]:
        """Return a page. `after` is the last row of the previous page, with its score at the time
        of that page."""
        board = self.board(name)
        places = self.places(name, window, period, scope)
        if reverse:
            places.reverse()
        rows = [place.row for place in places]
        # A token keeps the place of the erased member, whatever the order of ids. So the sort key
        # decides only if the ranking no longer has the entry itself.
        if after in rows:
            places = places[rows.index(after) + 1 :]
        elif after is not None:
            key = board.key(after)
            places = [
                place
                for place in places
                if (board.key(place.row) < key if reverse else board.key(place.row) > key)
            ]
        return places[offset : offset + limit]
