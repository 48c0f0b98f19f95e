"""The clock and the boards of the oracle, and its queries of rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        self.hidden_everywhere: Hidings = {}
        self.refreshes = 0

    def now_ms(self) -> int:
        return self.latest_ms if self.clock is None else max(self.latest_ms, self.clock())

    def time(self, board: OracleBoard) -> int:
        """Return the time of a board: that of the clock or, in event time, the latest `at` of the
        board's events."""
        return board.latest_ms if self.clock is None else self.now_ms()

    def board(self, name: str) -> OracleBoard:
        self.drop_gone()
        if name not in self.boards:
            raise Refusal("unknown_board")
        return self.boards[name]

    def drop_gone(self) -> None:
        """Remove the boards whose `retain` has passed since their end."""
        now_ms = self.now_ms()
        gone = [name for name, board in self.boards.items() if board.definition.is_gone(now_ms)]
        for name in gone:
            del self.boards[name]

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

    def scopes(self, name: str, labels: Sequence[str]) -> list[Scope]:
        """Return the scopes with these label names that have members, in the order of their text
        forms."""
        board, names = self.board(name), tuple(sorted(labels))
        if names not in board.definition.scopes:
            raise Refusal("unknown_scope")
        return board.holding(names, self.time(board))

    def periods(self, name: str, window: str | None = None) -> list[Span]:
        board = self.board(name)
        return board.window(window).listed(self.time(board))

    def states(self, name: str, window: str) -> list[str]:
        """Return the states of the periods of a window."""
        board = self.board(name)
        queried, now_ms = board.window(window), self.time(board)
        spans: Sequence[Span | None] = queried.listed(now_ms) or [None]
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
