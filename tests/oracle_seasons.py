"""The part of the oracle that seals periods, pays for them, and corrects them."""

from __future__ import annotations

from collections.abc import Callable

from tests.definitions import Changed, Refusal, Scope, duration_ms
from tests.oracle_board import OracleBoard
from tests.oracle_payouts import OraclePayout, Owed, SealedPlace, awards, correct
from tests.oracle_queries import OracleQueries
from tests.prize_definitions import PrizesDef


class OracleSeasons(OracleQueries):
    """The boards of the oracle, with their payouts, which outlive them."""

    def __init__(self, clock: Callable[[], int] | None) -> None:
        super().__init__(clock)
        self.payouts: list[OraclePayout] = []
        self.ledger_of: Callable[[str], str] = lambda _: ""
        """Returns the ledger with the payouts of the boards of a name, or an empty string."""

    # Boards that are no longer retained

    def is_gone(self, board: OracleBoard) -> bool:
        """Return whether a board is no longer retained. It stays while payouts of it are open or
        about to be made. If the payouts are in a ledger, the time alone removes no board that has
        or had prizes: see `remove_paid`."""
        if not super().is_gone(board):
            return False
        if self.ledger_of(board.definition.name):
            return not board.had_prizes
        return not self.has_open_payouts(board) and not board.is_about_to_pay(self.now_ms())

    def remove_paid(self) -> None:
        """Remove the boards with payouts in a ledger that are no longer retained, after their
        closed periods were sealed, unless payouts of them are open."""
        for name, board in [*self.boards.items()]:
            if super().is_gone(board) and board.had_prizes and self.ledger_of(name):
                self.seal_board(board)
                if not self.has_open_payouts(board):
                    self.keep_removed(self.boards.pop(name))
                    self.removed_ms = self.now_ms()

    # Sealing

    def seal(self) -> None:
        """Close and seal all periods that are due."""
        self.drop_gone()
        sealed = [self.seal_board(board) for board in self.boards.values()]
        sealed += [self._seal_leaving(name) for name in [*self.leaving]]
        self.remove_paid()
        if any(sealed):
            self.latest_ms = self.now_ms()
            self.refresh()

    def has_unsealed(self) -> bool:
        """Return whether a period is closed, or due to be closed, and not sealed yet."""
        boards = [*self.boards.values(), *self.leaving.values()]
        return any(board.unsealed(self.time(board)) for board in boards)

    def _record(self) -> None:
        """Record what was written about payouts or corrections, and refresh the windows."""
        self.latest_ms = self.now_ms()
        self.refresh()

    def _record_seals(self, name: str) -> None:
        """Record that periods of a board were sealed before a write, which may be refused. In a
        store with a log this is a commit, which also refreshes the windows. Sealing into a ledger
        refreshes none."""
        self.latest_ms = self.now_ms()
        if not self.ledger_of(name):
            self.refresh()

    def _seal_leaving(self, name: str) -> bool:
        """Close and seal the periods that are due of a board that is no longer retained. Remove the
        board when no period is left. Return whether any was sealed."""
        board = self.leaving[name]
        sealed = self.seal_board(board)
        self.drop_settled(name)
        return sealed

    def free_name(self, name: str) -> None:
        """Seal the periods of a board that is no longer retained, so that its name can be used.
        Raise an error if it has a period that is not final."""
        if name in self.leaving:
            if self._seal_leaving(name):
                self._record_seals(name)
            if name in self.leaving:
                raise Refusal("periods_unsealed")

    def seal_board(self, board: OracleBoard) -> bool:
        """Close and seal the periods of a board that are due, and make their payouts. Return
        whether any was sealed."""
        now_ms = self.time(board)
        sealed = board.seal(now_ms)
        for window, period in sealed:
            prizes = board.windows[window].closings.awarded[period]
            if prizes is None or self.clock is None:
                continue
            place = self._place(board, window, period)
            due_ms = now_ms + duration_ms(prizes.pay_after)
            for owed in self._owed(board, window, period, prizes):
                self.payouts.append(OraclePayout(place, owed, 0, now_ms, due_ms))
        return bool(sealed)

    def _place(self, board: OracleBoard, window: str, period: str | None) -> SealedPlace:
        return SealedPlace(board.uid, board.definition.name, window, period or "")

    def _owed(
        self, board: OracleBoard, window: str, period: str | None, prizes: PrizesDef
    ) -> list[Owed]:
        """Return what the members of a period win, by its newest revision."""
        queried, now_ms = board.windows[window], self.time(board)
        return [
            owed
            for scope in board.known_scopes()
            if scope.by is None and scope.names in prizes.scopes
            for owed in awards(
                prizes, board, board.standings(queried, period, scope, now_ms), scope
            )
        ]

    def settle(self, board: OracleBoard) -> None:
        """Seal the closed periods of a board that is about to be cleared or deleted. Raise an error
        if it has payouts that are neither confirmed nor superseded."""
        if self.seal_board(board):
            self._record_seals(board.definition.name)
        self.ensure_paid(board)

    # Payouts

    def payouts_of(self, name: str) -> list[OraclePayout]:
        """Return the payouts of all boards that have or had a name."""
        payouts = [payout for payout in self.payouts if payout.place.board == name]
        if not payouts:
            self.board(name)
        return payouts

    def ensure_paid(self, board: OracleBoard) -> None:
        """Raise an error if the board has payouts that are neither confirmed nor superseded."""
        if self.has_open_payouts(board):
            raise Refusal("payouts_open")

    def has_open_payouts(self, board: OracleBoard) -> bool:
        """Return whether the board has payouts that are neither confirmed nor superseded."""
        return any(payout.is_open and payout.place.uid == board.uid for payout in self.payouts)

    def due_payouts(self) -> list[OraclePayout]:
        """Return the payouts of all boards that are or were due, without those of erased
        members."""
        now_ms = self.now_ms()
        return [
            payout
            for payout in self.payouts
            if payout.has_been_due(now_ms) and not payout.is_erased
        ]

    def confirm(self, payout: OraclePayout, reference: str) -> None:
        """Record that a payout was paid."""
        if payout.reference == reference:
            return
        if payout.reference is not None:
            raise Refusal("payout_confirmed")
        if payout.state(self.now_ms()) != "due":
            raise Refusal("payout_not_due")
        now_ms = payout.confirmed_ms = self.now_ms()
        payout.reference = reference
        board = next((b for b in self.boards.values() if b.uid == payout.place.uid), None)
        if board is not None:
            board.close(now_ms)
            data = {"payout": payout.id, "reference": reference}
            board.changes.append(Changed("confirm", payout.owed.member, now_ms, data=data))
        self._record()
        self.remove_paid()

    def awards(self, name: str, window: str, period: str | None, scope: Scope) -> list[Owed]:
        """Return who wins what by the present standings of a period."""
        board = self.board(name)
        board.scope(dict(scope.labels), scope.by)
        queried = board.window(window)
        label = queried.resolve(period, self.time(board))
        closings = queried.closings
        prizes = closings.awarded[label] if label in closings.closed else closings.prizes
        if prizes is None or scope.names not in prizes.scopes:
            raise Refusal("no_prizes")
        return awards(prizes, board, self.places(name, window, period, scope), scope)

    # Corrections

    def disqualify(
        self, name: str, member: str, window: str, period: str | None, scope: Scope | None
    ) -> tuple[int, int]:
        """Make a new revision of a sealed period without a member, in one scope or in all. Return
        its number and the number of its entries in all scopes."""
        board = self.board(name)
        queried, now_ms = board.window(window), self.time(board)
        label = queried.resolve(period, now_ms)
        closings = queried.closings
        if label not in closings.archived:
            raise Refusal("not_sealed")
        if scope is not None and scope.names not in board.definition.scopes:
            raise Refusal("unknown_scope")
        left = [each for each in board.known_scopes() if each.by is None and scope in (None, each)]
        if not any(
            place.member == member
            for each in left
            for place in board.standings(queried, label, each, now_ms)
        ):
            raise Refusal("member_not_ranked")
        board.close(now_ms)
        counted = closings.counted_name(label, member)
        closings.corrections.setdefault(label, []).append((counted, scope))
        revision, entries = closings.revision(label), self.entries(board, window, label)
        prizes = closings.awarded[label]
        if prizes is not None:
            self._correct(board, window, label, prizes)
        data = {
            "window": window,
            "period": label,
            "labels": None if scope is None else dict(scope.labels),
            "reason": "a bot",
            "revision": revision,
            "entries": entries,
        }
        board.changes.append(Changed("disqualify", member, now_ms, data=data))
        self._record()
        self.remove_paid()
        return revision, entries

    def _correct(
        self, board: OracleBoard, window: str, period: str | None, prizes: PrizesDef
    ) -> None:
        """Make the payouts of a period agree with its newest revision."""
        now_ms, place = self.time(board), self._place(board, window, period)
        present = [
            payout for payout in self.payouts if payout.place._replace(board=place.board) == place
        ]
        revision = board.windows[window].closings.revision(period)
        due_ms = now_ms + duration_ms(prizes.pay_after)
        owed = self._owed(board, window, period, prizes)
        self.payouts += correct(present, owed, place, revision, now_ms, due_ms)

    def entries(self, board: OracleBoard, window: str, period: str | None) -> int:
        """Return the number of entries of the newest revision of a period, in all scopes."""
        queried, now_ms = board.windows[window], self.time(board)
        return sum(
            len(board.standings(queried, period, scope, now_ms)) for scope in board.known_scopes()
        )
