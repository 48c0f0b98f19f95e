"""Compare payouts, archived periods and their revisions with those of the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

import laurels
from tests.changes import all_changes
from tests.comparison import assert_entries, assert_refused, attempt, attempt_oracle
from tests.definitions import Refusal, Scope
from tests.oracle import Oracle
from tests.oracle_payouts import OraclePayout
from tests.stateful.background import Background

Fields = dict[str, Any]


def without_uid(id: str) -> str:
    """Return the id of a payout without the uid of its board."""
    return id.partition("/")[2]


def fields_of(payout: laurels.Payout) -> Fields:
    """Return the fields of a payout, without the uid of its board."""
    corrects = payout.corrects
    return {
        "id": without_uid(payout.id),
        "board": payout.board,
        "where": (payout.window, payout.period, payout.labels),
        "won": (payout.member, payout.prize, payout.position, payout.amount, payout.withdrawn),
        "corrects": None if corrects is None else without_uid(corrects),
        "state": (payout.state, payout.revision, payout.superseded_by),
        "times": (payout.made_ms, payout.due_ms, payout.confirmed_ms),
        "reference": payout.reference,
    }


def expected_fields(payout: OraclePayout, now_ms: int) -> Fields:
    """Return the same fields of a payout of the oracle."""
    place, owed = payout.place, payout.owed
    corrects = payout.corrects
    won = (owed.member, owed.prize.name, owed.position, payout.amount, payout.withdrawn)
    return {
        "id": payout.id,
        "board": place.board,
        "where": (place.window, place.period, dict(owed.scope.labels)),
        "won": won,
        "corrects": None if corrects is None else corrects.id,
        "state": (payout.state(now_ms), payout.revision, payout.superseded),
        "times": (payout.made_ms, payout.due_ms, payout.confirmed_ms),
        "reference": payout.reference,
    }


def pages(
    read: Callable[[str | None], laurels.PayoutPage], after: str | None = None
) -> Iterator[laurels.Payout]:
    """Yield the payouts of a list that is read in pages."""
    while True:
        page = read(after)
        yield from page
        if page.next is None:
            return
        after = page.next


def every_payout(lb: laurels.Leaderboards, name: str) -> Iterator[laurels.Payout]:
    """Yield all payouts of the boards that have or had a name."""
    return pages(lambda after: lb.payouts(name, after=after, limit=500))


def actual_id(lb: laurels.Leaderboards, name: str, id: str) -> str:
    """Return the whole id of a payout. If several boards of this name had such a payout, this is
    the one of the newest board."""
    same = [payout for payout in every_payout(lb, name) if without_uid(payout.id) == id]
    return max(same, key=lambda payout: payout.made_ms).id


class SeasonComparison:
    """A comparison of what seasons leave behind. It follows the list of due payouts, as a program
    does that pays them."""

    def __init__(self, oracle: Oracle, background: Background) -> None:
        self.oracle = oracle
        self.background = background
        self.forget_due()

    def forget_due(self) -> None:
        """Read the list of due payouts from the beginning again."""
        self._cursor: str | None = None
        self._read: list[laurels.Payout] = []

    def adopt_times(self, lb: laurels.Leaderboards) -> None:
        """Let new payouts of the oracle be due when those of the deployment are. This is
        `pay_after` after they were made or, so that the list of due payouts grows only at its end,
        one millisecond after an earlier payout was due."""
        new = [payout for payout in self.oracle.payouts if not payout.is_compared]
        names = {payout.place.board for payout in new}
        listed = [each for name in names for each in every_payout(lb, name)]
        due_ms = {(each.board, without_uid(each.id), each.made_ms): each.due_ms for each in listed}
        after = {each.due_ms + 1 for each in self.oracle.payouts if each.is_compared}
        after |= {each.due_ms + 1 for each in listed}
        for payout in new:
            made = (payout.place.board, payout.id, payout.made_ms)
            actual_ms = due_ms.get(made, payout.due_ms)
            assert actual_ms == payout.due_ms or (actual_ms > payout.due_ms and actual_ms in after)
            payout.due_ms, payout.is_compared = actual_ms, True

    def compare(self, lb: laurels.Leaderboards) -> None:
        """Compare all payouts of all boards."""
        self.adopt_times(lb)
        for name in sorted({payout.place.board for payout in self.oracle.payouts}):
            self._payouts(lb, name)

    def restorable(self, lb: laurels.Leaderboards) -> None:
        """Compare the list of removed boards that can be restored."""
        self.oracle.drop_gone()
        listed = [(each.name, each.payouts) for each in lb.restorable_boards()]
        expected = [
            (
                board.definition.name,
                sum(each.place.uid == board.uid for each in self.oracle.payouts),
            )
            for board in self.oracle.removed
        ]
        for removed in (listed, expected):  # boards of several stores have no common order
            removed.sort(key=lambda each: self.oracle.store_of(each[0]))
        assert listed == expected

    def changes(self, lb: laurels.Leaderboards, name: str) -> None:
        """Assert that the changes of a board have each of its payouts that is or was due, once.
        After an erasure, payouts are no longer found by their ids."""
        self.adopt_times(lb)
        self._emit_due(lb)
        uid, now_ms = self.oracle.boards[name].uid, self.oracle.now_ms()
        own = [payout for payout in self.oracle.payouts if payout.place.uid == uid]
        if any(payout.is_erased for payout in own):
            return
        reported = [c for c in all_changes(lb, name, 1_000) if c.kind == "payout"]
        assert Counter((without_uid(c.data["id"]), c.at_ms, c.member) for c in reported) == Counter(
            (payout.id, payout.due_ms, payout.owed.member)
            for payout in own
            if payout.has_been_due(now_ms)
        )

    def some(self, lb: laurels.Leaderboards, name: str, rng: Random) -> None:
        """Compare the archive of a board, some payouts and awards, and the list of due payouts."""
        self.adopt_times(lb)
        self._archived(lb, name, rng)
        self._some_payouts(lb, name, rng)
        self._awards(lb, name, rng)
        self._due(lb, rng)

    def _payouts(self, lb: laurels.Leaderboards, name: str) -> None:
        listed = list(every_payout(lb, name))
        self._assert_same(listed, self.oracle.payouts_of(name))
        assert len({payout.id for payout in listed}) == len(listed)

    def _assert_same(self, listed: list[laurels.Payout], expected: list[OraclePayout]) -> None:
        """Assert that these are the expected payouts. Their order is that in which they are due."""
        now_ms = self.oracle.now_ms()
        assert sorted(map(fields_of, listed), key=_key) == sorted(
            [expected_fields(payout, now_ms) for payout in expected], key=_key
        )
        times = [payout.due_ms for payout in listed]
        assert times == sorted(times)

    def _some_payouts(self, lb: laurels.Leaderboards, name: str, rng: Random) -> None:
        """Compare the payouts of some window, period, member or state, read in small pages."""
        now_ms = self.oracle.now_ms()
        payouts = attempt_oracle(lambda: self.oracle.payouts_of(name))
        if isinstance(payouts, Refusal):
            return
        if not payouts:
            assert not lb.payouts(name).payouts
            return
        one, limit = rng.choice(payouts), rng.randint(1, 5)
        wanted: list[tuple[Fields, Callable[[OraclePayout], bool]]] = [
            ({"member": one.owed.member}, lambda each: each.owed.member == one.owed.member),
            (
                {"window": one.place.window, "period": one.place.period},
                lambda each: each.place[2:] == one.place[2:],
            ),
            ({"due_only": True}, lambda each: each.has_been_due(now_ms)),
            *(
                ({"state": state}, lambda each, state=state: each.state(now_ms) == state)
                for state in ("pending", "due", "confirmed", "superseded")
            ),
        ]
        arguments, matches = rng.choice(wanted)
        found = pages(lambda after: lb.payouts(name, after=after, limit=limit, **arguments))
        self._assert_same(list(found), [each for each in payouts if matches(each)])

    def _emit_due(self, lb: laurels.Leaderboards) -> None:
        """Enter all payouts that are due in the list of due payouts and in the changes of their
        boards. Index servers do this when they are asked for a page. A deployment of several stores
        asks them one after another, so the list is read to its end."""
        self.background.emit_due()
        for _ in pages(lambda after: lb.due_payouts(after=after, limit=500)):
            pass

    def _due(self, lb: laurels.Leaderboards, rng: Random) -> None:
        """Read on in the list of due payouts, from the end of the last page that was read."""
        self.background.emit_due()
        limit = rng.choice([1, 3, 500])
        after, more = self._cursor, True
        while more:
            page = lb.due_payouts(after=after, limit=limit)
            self._read += page
            after, more = page.next, page.next is not None
            self._cursor = page.cursor or self._cursor
        ids = [payout.id for payout in self._read]
        assert len(set(ids)) == len(ids)
        assert Counter(map(without_uid, ids)) == Counter(
            payout.id for payout in self.oracle.due_payouts()
        )
        for store in {self.oracle.store_of(payout.board) for payout in self._read}:
            own = [each for each in self._read if self.oracle.store_of(each.board) == store]
            times = [payout.due_ms for payout in own]
            assert times == sorted(times)

    def _awards(self, lb: laurels.Leaderboards, name: str, rng: Random) -> None:
        """Compare who wins what by the present standings of some period."""
        board = self.oracle.boards[name]
        window = rng.choice(list(board.windows))
        spans = self.oracle.periods(name, window)
        period = rng.choice(spans).label if spans else None
        prizes = board.windows[window].closings.prizes
        names = rng.choice(prizes.scopes if prizes is not None else board.definition.scopes)
        scopes = [scope for scope in board.known_scopes() if scope.by is None]
        scope = rng.choice([each for each in scopes if each.names == names] or [Scope()])
        expected = attempt_oracle(lambda: self.oracle.awards(name, window, period, scope))
        answer = attempt(
            lambda: lb.settle(name, window=window, period=period, labels=dict(scope.labels))
        )
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
            return
        assert isinstance(answer, laurels.Settlement), repr(answer)
        assert [
            (award.member, award.prize, award.position, award.amount) for award in answer.awards
        ] == [
            (owed.member, owed.prize.name, owed.position, _amount(owed.units, owed.prize.scale))
            for owed in expected
        ]

    def _archived(self, lb: laurels.Leaderboards, name: str, rng: Random) -> None:
        """Compare the list of archived periods, and the standings of a revision of one of them."""
        board = self.oracle.boards[name]
        expected = {
            (window, label or ""): (
                queried.closings.revision(label),
                self.oracle.entries(board, window, label),
            )
            for window, queried in board.windows.items()
            for label in queried.archived()
        }
        listed = lb.archived(name)
        assert {
            (each.window, each.period): (each.revision, each.entries) for each in listed
        } == expected
        if not listed:
            return
        sealed = rng.choice(listed)
        period = sealed.period or None
        revision = rng.randint(0, sealed.revision)
        where: Fields = {"window": sealed.window, "period": period, "revision": revision}
        scope = rng.choice(board.known_scopes())
        answer = list(lb.export(name, **where, **scope.arguments))
        places = self.oracle.places(name, sealed.window, period, scope, revision)
        assert_entries(answer, places, board.definition)
        assert lb.verify(name, window=sealed.window, period=period).verified


def _amount(units: int | None, scale: int) -> object:
    return Decimal(units).scaleb(-scale) if units is not None and scale else units


def _key(fields: Fields) -> str:
    return repr(fields)
