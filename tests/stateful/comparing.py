"""Compare every ranking of every board with that of the oracle, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import laurels
from tests.changes import assert_changes
from tests.comparison import assert_entries, assert_refused, attempt, attempt_oracle, board_of
from tests.definitions import Refusal, Scope
from tests.oracle import Oracle
from tests.stateful.background import Background
from tests.stateful.choices import some_scope
from tests.stateful.questions import Bookmarks, Questions
from tests.stateful.season_comparison import SeasonComparison

MOST_SCOPES = 5
"""The largest number of scopes of a board that one comparison covers."""


class Comparison:
    """A comparison of a deployment with the oracle, which counts the compared rankings."""

    def __init__(self, oracle: Oracle, background: Background) -> None:
        self.oracle = oracle
        self.rankings = 0
        self.bookmarks: Bookmarks = {}
        self.seasons = SeasonComparison(oracle, background)

    def compare(self, lb: laurels.Leaderboards, rng: Random) -> None:
        """Compare the boards, their periods, and each ranking of each period."""
        self.oracle.drop_gone()
        assert [board.name for board in lb.boards()] == sorted(self.oracle.boards)
        for name, board in self.oracle.boards.items():
            assert lb.get(name) == board_of(board.definition)
            if board.definition.labels and rng.random() < 0.3:
                self._listing(lb, name, rng)
            scopes = board.known_scopes()
            if len(scopes) > MOST_SCOPES:
                scopes = rng.sample(scopes, MOST_SCOPES)
            for scope in scopes:
                for window in board.windows:
                    for label in self._periods(lb, name, window, scope):
                        Questions(lb, self.oracle, name, window, label, scope).whole(rng)
                        self.rankings += 1
        self.seasons.compare(lb)

    def go_back(self) -> None:
        """Forget which payouts were due, since the time of the deployment is earlier than before
        it was restarted."""
        self.seasons.forget_due()

    def changes(
        self, lb: laurels.Leaderboards, name: str, rng: Random, *, complete: bool = False
    ) -> None:
        """If a board keeps its changes, compare them with the changes of the oracle. With
        `complete`, the ends of all hidings that have ended must be recorded."""
        if self.oracle.boards[name].definition.changes:
            limit = rng.choice([1, 7, 1_000])
            assert_changes(lb, self.oracle, name, limit, complete=complete)
            self.seasons.changes(lb, name)

    def _listing(self, lb: laurels.Leaderboards, name: str, rng: Random) -> None:
        """Compare the list of the scopes that have members, read as one page or as two."""
        for names in self.oracle.boards[name].definition.scopes:
            if names:
                expected = [dict(scope.labels) for scope in self.oracle.scopes(name, names)]
                size = rng.randint(1, len(expected) + 1)
                listed = lb.scopes(name, *rng.sample(names, len(names)), limit=size)
                if len(listed) == size:
                    listed += lb.scopes(name, *names, after=listed[-1])
                assert listed == expected

    def _periods(
        self, lb: laurels.Leaderboards, name: str, window: str, scope: Scope
    ) -> Sequence[str | None]:
        """Compare the readable periods of a window. Return their labels."""
        spans = self.oracle.periods(name, window)
        periods = lb.periods(name, window, **scope.arguments)
        assert [period.state for period in periods] == self.oracle.states(name, window)
        if not spans:
            assert [period.label for period in periods] == [""]
            return [None]
        assert [(p.label, p.start_ms, p.end_ms) for p in periods] == [
            (span.label, span.start_ms, span.end_ms) for span in spans
        ]
        as_of = lb.top(name, window=window, limit=0, **scope.arguments).as_of
        assert as_of.period == spans[0].label
        assert [period.current for period in periods] == [True] + [False] * (len(spans) - 1)
        assert [period.total for period in periods] == [
            len(self.oracle.places(name, window, span.label, scope)) for span in spans
        ]
        return [span.label for span in spans]

    def read_on(self, lb: laurels.Leaderboards, rng: Random) -> None:
        """Continue from a bookmark without naming its period. The period may have ended."""
        standing = [
            (key, mark)
            for key, mark in self.bookmarks.items()
            if mark.board is self.oracle.boards.get(key[0])
        ]
        if not standing:
            return
        (name, window, label, scope, reverse), mark = rng.choice(standing)

        page = attempt(
            lambda: lb.top(
                name, window=window, reverse=reverse, limit=3, after=mark.cursor, **scope.arguments
            )
        )
        expected = attempt_oracle(
            lambda: self.oracle.top(
                name,
                window=window,
                period=label,
                limit=3,
                reverse=reverse,
                after=mark.row,
                scope=scope,
            )
        )
        if isinstance(expected, Refusal):
            assert_refused(page, expected)
        else:
            assert isinstance(page, laurels.Page), repr(page)
            assert_entries(page.entries, expected, self.oracle.boards[name].definition)

    def some_ranking(self, lb: laurels.Leaderboards, name: str, rng: Random) -> Questions:
        """Return the queries about a randomly chosen ranking of a board."""
        window = rng.choice(list(self.oracle.boards[name].windows))
        labels = [span.label for span in self.oracle.periods(name, window)]
        label = rng.choice(labels) if labels else None
        scope = some_scope(rng, self.oracle.boards[name])
        return Questions(lb, self.oracle, name, window, label, scope)
