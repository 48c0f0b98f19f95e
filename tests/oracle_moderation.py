"""The part of the oracle that removes, hides and erases members."""

from __future__ import annotations

from tests.definitions import Refusal
from tests.oracle_board import in_effect
from tests.oracle_payouts import erase_from
from tests.oracle_seasons import OracleSeasons


class OracleModeration(OracleSeasons):
    """The boards of the oracle, with the writes that are not events."""

    def remove(self, name: str, member: str) -> bool:
        """Remove a member and its data, but keep its event ids. Return whether it was ranked
        anywhere."""
        board = self.board(name)
        self.latest_ms = self.now_ms()
        ranked = board.remove(member, self.time(board))
        self.refresh()
        return ranked

    def clear(self, name: str) -> None:
        """Remove all members of a board, after its closed periods were sealed."""
        board = self.board(name)
        self.settle(board)
        self.latest_ms = self.now_ms()
        board.clear(self.time(board))
        self.refresh()

    def erase(self, member: str, token: str) -> None:
        """Erase a member from all boards, after all closed periods were sealed."""
        self.seal()
        if any(payout.is_open and payout.owed.member == member for payout in self.payouts):
            raise Refusal("payouts_open")
        self.latest_ms = self.now_ms()
        erase_from(self.payouts, member, token)
        self.hidden_everywhere.pop(member, None)
        for board in [*self.boards.values(), *self.removed]:
            board.erase(member, token, self.time(board))
        self.refresh()

    def hide(self, name: str, member: str, reason: str, until_ms: int | None) -> None:
        """Hide a member. If it is hidden already, the time since which it is hidden stays the
        same."""
        board = self.board(name)
        self.latest_ms = now_ms = self.now_ms()
        board.close(now_ms)
        earlier = in_effect(board.hidden, member, now_ms)
        board.hidden[member] = reason, now_ms if earlier is None else earlier[1], until_ms
        board.note_hiding(member, now_ms)
        self.refresh()

    def show(self, name: str, member: str) -> bool:
        """Show a member again. Return whether it was hidden."""
        board = self.board(name)
        now_ms = self.now_ms()
        if in_effect(board.hidden, member, now_ms) is None:
            if board.is_hidden(member, now_ms):
                raise Refusal("hidden_everywhere")
            return False
        self.latest_ms = now_ms
        board.close(now_ms)
        del board.hidden[member]
        board.note_hiding(member, now_ms)
        self.refresh()
        return True

    def hide_everywhere(self, member: str, reason: str, until_ms: int | None = None) -> None:
        """Hide a member on all boards, those created later included."""
        self.drop_gone()
        self.latest_ms = now_ms = self.now_ms()
        for board in self.boards.values():
            board.close(now_ms)
        earlier = in_effect(self.hidden_everywhere, member, now_ms)
        since_ms = now_ms if earlier is None else earlier[1]
        self.hidden_everywhere[member] = reason, since_ms, until_ms
        for board in self.boards.values():
            board.note_hiding(member, now_ms)
        self.refresh()

    def show_everywhere(self, member: str) -> bool:
        """Remove the hiding of a member on all boards. Return whether there was one."""
        self.drop_gone()
        now_ms = self.now_ms()
        if in_effect(self.hidden_everywhere, member, now_ms) is None:
            return False
        self.latest_ms = now_ms
        for board in self.boards.values():
            board.close(now_ms)
        del self.hidden_everywhere[member]
        for board in self.boards.values():
            board.note_hiding(member, now_ms)
        self.refresh()
        return True
