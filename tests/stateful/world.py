"""A deployment and the oracle. Every operation is applied to both, and the results are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import laurels
from laurels.api import leaderboards
from laurels.core.index import changes
from laurels.errors import BatchRefused, BoardInvalid
from tests.comparison import assert_receipt, assert_refused, attempt, attempt_oracle, board_of
from tests.contract.deployments import Deployment
from tests.definitions import Definition, Refusal, Report, Scope, Verdict
from tests.oracle import Oracle
from tests.oracle_board import in_effect
from tests.oracle_payouts import OraclePayout
from tests.stateful import choices
from tests.stateful.background import Background
from tests.stateful.clock import EpisodeClock
from tests.stateful.comparing import Comparison
from tests.stateful.journal import Done, gone_back
from tests.stateful.limits import limited
from tests.stateful.season_comparison import actual_id, expected_fields, fields_of

Names = Sequence[str] | None
"""The names of the labels of a scope."""

Combination = tuple[tuple[tuple[str, ...], ...], str, str]


class World:
    """The deployment under test, the oracle, and a journal of the operations."""

    def __init__(
        self,
        deployment: Deployment,
        clock: EpisodeClock,
        tz: str,
        background: Background | None = None,
    ) -> None:
        self.deployment = deployment
        self.clock = clock
        self.tz = tz
        self.oracle = Oracle(clock.now_ms)
        self.oracle.ledger_of = deployment.kind.ledger_of
        self.oracle.store_of = deployment.kind.store_of
        self.background = background or Background()
        self.comparison = Comparison(self.oracle, self.background)
        self.journal: list[Done] = []
        self._changes: dict[str, int] = {}

    @property
    def lb(self) -> laurels.Leaderboards:
        return self.deployment.lb

    def now_ms(self) -> int:
        """Return the time of the deployment: that of its clock or, if it is later, that of the last
        commit."""
        return self.oracle.now_ms()

    def restart(self, wall_ms: int | None = None) -> None:
        """Close the deployment and open it again. With `wall_ms`, the machine is started anew
        meanwhile, with this wall clock."""
        before_ms = self.now_ms()

        def start() -> None:
            if wall_ms is None:
                self.clock.restart()
            else:
                self.clock.reboot(wall_ms)
            if self.clock.now_ms() < self.oracle.removed_ms:
                self.clock.reboot(self.oracle.removed_ms)

        self.deployment.reopen(start)
        if not self.deployment.exclusive:
            self._catch_up()
        self._adopt_time(before_ms)

    def _catch_up(self) -> None:
        """If the clock of an index server is earlier than the last commit, and the server does not
        have that time, set the clock to it. A server has a time for each board, that of its last
        events or step. So a board that has none since the commit, or that was deleted, goes on at
        the clock's time."""
        self._read_all()
        if self.lb.clock_status().now_ms < self.now_ms():
            self.deployment.reopen(lambda: self.clock.reboot(self.now_ms()))

    def _adopt_time(self, before_ms: int) -> None:
        """Let the oracle go on from the time at which the deployment was opened again. This is that
        of the last commit or a later one that was read before: a snapshot has it, and an index
        server if it has begun another step since."""
        self._read_all()
        status = self.lb.clock_status()
        assert self.now_ms() <= status.now_ms <= max(before_ms, self.clock.now_ms())
        if self.now_ms() < status.now_ms:
            self.oracle.latest_ms = status.now_ms
        if self.now_ms() < before_ms:
            self.journal = gone_back(self.journal, self.now_ms())
            self.oracle.go_back()
            self.comparison.go_back()

    def _read_all(self) -> None:
        """Read every window of every board."""
        for board in self.lb.boards():
            scope = Scope(tuple((label, "1") for label in board.scopes[0]))
            for window in board.rules().windows:
                self.lb.top(board.name, window=window, **scope.arguments)

    def visit(self, wall_ms: int) -> None:
        """Open the deployment on a machine with an earlier clock, where it has nothing to do. Then
        open it again at the time before."""
        before_ms, wall_ms = self.now_ms(), max(wall_ms, self.oracle.removed_ms)
        self.deployment.reopen(lambda: self.clock.reboot(wall_ms))
        self._read_all()
        if not self.oracle.has_unsealed():
            assert self.lb.seal() == laurels.Sealed(0, 0)
        self.lb.check()
        self.deployment.reopen(lambda: self.clock.reboot(before_ms))

    def chosen(self, rng: Random, name: str, combination: Combination) -> Definition:
        """Return a board with this combination of columns, tie rule and rank style. Some boards
        have a start or an end. The board has refreshed windows only if the deployment supports
        them. A board in several shards ranks no values of labels, since its receipts do not report
        these rankings."""
        divided = self.deployment.divided
        chosen = choices.definition(
            rng,
            name,
            combination,
            self.tz,
            refreshing=self.deployment.refreshes,
            archiving=self.deployment.archives,
            ledger=self.deployment.kind.ledger_of(name),
        )
        chosen = limited(rng, chosen, self.now_ms())
        return replace(chosen, rank_by=()) if divided else chosen

    def name(self, rng: Random, number: int = 0) -> str:
        """Return the name of a board with this number, in some store of the deployment."""
        beginnings = self.deployment.kind.beginnings
        beginning = beginnings[0] if len(beginnings) == 1 else rng.choice(beginnings)
        return f"{beginning}-{number}"

    def names(self) -> list[str]:
        """Return the names of the boards that are still retained. A board whose payouts are in a
        ledger is removed by whoever asks the ledger, so do that first."""
        if self.deployment.ledger and any(
            board.definition.is_gone(self.oracle.now_ms())
            and not self.oracle.has_open_payouts(board)
            for board in self.oracle.boards.values()
        ):
            self.seal()
        self.oracle.drop_gone()
        return sorted(self.oracle.boards)

    def pick(self, rng: Random) -> str:
        """Return the name of a board. If all boards were removed by the time, create one."""
        while not self.names():
            if self.deployment.ledger:
                self.seal()  # a board with unsealed periods still has its name
            if not self.create(self.chosen(rng, self.name(rng), rng.choice(choices.COMBINATIONS))):
                self.clock.set(self.now_ms() + 1)  # a period of the earlier board is not final
        return rng.choice(sorted(self.oracle.boards))

    def definition(self, name: str) -> Definition:
        return self.oracle.boards[name].definition

    def _do(
        self,
        act: Callable[[laurels.Leaderboards], object],
        board: str = "",
        events: Sequence[object] = (),
        *,
        creates: bool = False,
    ) -> object:
        """Apply an operation to the deployment. Return its result or, if it is refused, its
        error."""
        refreshes = self.oracle.refreshes
        done = Done(self.now_ms(), act, board, tuple(events), refreshes, creates)
        self.journal.append(done)
        return attempt(lambda: act(self.lb))

    # Boards and members

    def create(self, definition: Definition) -> bool:
        """Create a board. Return whether it was created."""
        board = board_of(definition)
        answer = self._do(lambda lb: lb.create(board), creates=True)
        expected = attempt_oracle(lambda: self.oracle.create(definition))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
            return False
        assert answer == board
        self._changes.pop(definition.name, None)
        return True

    def change(self, definition: Definition) -> None:
        """Change the title, the `keep` values, windows, scopes, `hide_zero`, the start, the end and
        the `retain` of a board."""
        windows = [window.definition for window in definition.windows]
        scopes: dict[str, Any] = {}
        if definition.labels:
            scopes = {"scopes": definition.scopes, "rank_by": definition.rank_by}
        answer = self._do(
            lambda lb: lb.change(
                definition.name,
                title=definition.title,
                keep=definition.keep,
                windows=windows,
                hide_zero=definition.hide_zero,
                starts=definition.starts,
                ends=definition.ends,
                retain=definition.retain,
                **scopes,
            )
        )
        if isinstance(answer, BoardInvalid) and "lay out" in str(answer):
            self.journal.pop()  # the layout has no room for the window
            return
        expected = attempt_oracle(lambda: self.oracle.change(definition))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert answer == board_of(definition)

    def delete(self, name: str) -> bool:
        """Delete a board. Return whether it was deleted. It is not if payouts are open."""
        answer = self._do(lambda lb: lb.delete(name))
        return self._is_done(answer, lambda: self.oracle.delete(name))

    def undelete(self, name: str, new: str) -> None:
        """Restore the board of a name that was removed last, under a new name."""
        answer = self._do(lambda lb: lb.undelete(name, name=new))
        expected = attempt_oracle(lambda: self.oracle.undelete(name, new))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
            return
        assert answer == board_of(self.definition(new))
        self._changes.pop(new, None)

    def _is_done(self, answer: object, act: Callable[[], object]) -> bool:
        """Apply an operation without a result to the oracle. Compare the answer of the deployment.
        Return whether the operation was not refused."""
        expected = attempt_oracle(act)
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
            return False
        assert answer is None
        return True

    def remove(self, name: str, member: str) -> None:
        answer = self._do(lambda lb: lb.remove(name, member))
        assert answer == self.oracle.remove(name, member)

    def hide(self, name: str, member: str, reason: str, until_ms: int | None) -> None:
        assert self._do(lambda lb: lb.hide(name, member, reason, until_ms)) is None
        self.oracle.hide(name, member, reason, until_ms)

    def show(self, name: str, member: str) -> None:
        answer = self._do(lambda lb: lb.show(name, member))
        expected = attempt_oracle(lambda: self.oracle.show(name, member))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert answer == expected

    def hide_everywhere(self, member: str, reason: str, until_ms: int | None) -> None:
        assert self._do(lambda lb: lb.hide(None, member, reason, until_ms)) is None
        self.oracle.hide_everywhere(member, reason, until_ms)

    def show_everywhere(self, member: str) -> None:
        answer = self._do(lambda lb: lb.show(None, member))
        assert answer == self.oracle.show_everywhere(member)

    def hidden(self, name: str) -> None:
        """Compare the list of hidden members of a board, and of those hidden on all boards."""
        now_ms, board = self.oracle.now_ms(), self.oracle.boards[name]
        everywhere = self.oracle.hidden_everywhere
        members = sorted({*board.hidden, *everywhere}, key=str.encode)
        hidings = {member: board.hiding(member, now_ms) for member in members}
        listed = {h.member: (h.reason, h.since_ms, h.until_ms) for h in self.lb.hidden(name)}
        assert list(listed.items()) == [item for item in hidings.items() if item[1] is not None]
        listed = {h.member: (h.reason, h.since_ms, h.until_ms) for h in self.lb.hidden()}
        hidings = {member: in_effect(everywhere, member, now_ms) for member in members}
        assert list(listed.items()) == [item for item in hidings.items() if item[1] is not None]

    def clear(self, name: str) -> None:
        """Remove all members of a board."""
        answer = self._do(lambda lb: lb.clear(name))
        self._is_done(answer, lambda: self.oracle.clear(name))

    def erase(self, member: str) -> None:
        """Erase a member from all boards. Lists that were begun before are not continued, since a
        cursor may name the member."""
        token = f"erased-{len(self.journal)}"

        def act(lb: laurels.Leaderboards) -> object:
            with patch.object(leaderboards, "new_token", return_value=token):
                return lb.erase(member, "asked for it")

        answer = self._do(act)
        expected = attempt_oracle(lambda: self.oracle.erase(member, token))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
            return
        assert isinstance(answer, laurels.Erasure), repr(answer)
        assert answer.token == token
        self.comparison.bookmarks.clear()
        self.comparison.seasons.forget_due()

    def set_data(self, name: str, member: str, profile: object) -> None:
        assert self._do(lambda lb: lb.set_data(name, member, profile)) is None
        self.oracle.set_data(name, member, profile)

    def seal(self) -> None:
        """Close and seal all periods that are due."""
        self._do(lambda lb: lb.seal())
        self.oracle.seal()

    def confirm(self, name: str, payout: OraclePayout, reference: str) -> None:
        """Confirm a payout."""
        self.comparison.seasons.adopt_times(self.lb)
        id = payout.id  # a later erasure changes it

        def act(lb: laurels.Leaderboards) -> object:
            return lb.confirm(name, actual_id(lb, name, id), reference)

        answer = self._do(act)
        expected = attempt_oracle(lambda: self.oracle.confirm(payout, reference))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert isinstance(answer, laurels.Payout), repr(answer)
            assert fields_of(answer) == expected_fields(payout, self.oracle.now_ms())

    def disqualify(
        self, name: str, member: str, window: str, period: str | None, scope: Scope | None
    ) -> None:
        """Disqualify a member from a period."""
        self.comparison.seasons.adopt_times(self.lb)
        labels = None if scope is None else dict(scope.labels)
        answer = self._do(
            lambda lb: lb.disqualify(
                name, member, "a bot", window=window, period=period, labels=labels
            )
        )
        expected = attempt_oracle(
            lambda: self.oracle.disqualify(name, member, window, period, scope)
        )
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert isinstance(answer, laurels.Revision), repr(answer)
            assert (answer.revision, answer.entries) == expected

    # Queries

    def count(self, name: str, window: str, period: str | None, scope: Scope) -> None:
        """Compare the number of members in a period or, if the query fails, the error."""
        expected = attempt_oracle(lambda: len(self.oracle.places(name, window, period, scope)))
        answer = attempt(
            lambda: self.lb.count(name, window=window, period=period, **scope.arguments)
        )
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert answer == expected

    # Events

    def submit(self, name: str, report: Report, window: str | None, scope: Names = None) -> None:
        """Write one event by `submit` or `set`. Compare its receipt or error with the oracle's."""
        verb = "set" if report.absolute else "submit"
        how = {"at": report.at, "id": report.id, "window": window, **_scope_argument(scope)}
        if report.labels is not None:
            how["labels"] = report.labels
        answer = self._do(
            lambda lb: getattr(lb, verb)(name, report.member, report.value, **how),
            name,
            () if report.absolute else [event_of(report)],
        )
        expected = attempt_oracle(lambda: self.oracle.submit(name, report, window, scope))
        if isinstance(expected, Refusal):
            assert_refused(answer, expected)
        else:
            assert isinstance(answer, laurels.Receipt), f"expected {expected}, got {answer!r}"
            self._assert_receipts(name, [answer], [expected], window)

    def submit_many(
        self,
        name: str,
        reports: Sequence[Report],
        window: str | None,
        *,
        ranks: bool,
        all_or_nothing: bool,
        scope: Names = None,
    ) -> None:
        """Submit a batch. Each receipt must equal that of the oracle."""
        events = [event_of(report) for report in reports]
        answer = self._do(
            lambda lb: lb.submit_many(
                name,
                events,
                window=window,
                ranks=ranks,
                all_or_nothing=all_or_nothing,
                **_scope_argument(scope),
            ),
            name,
            () if all_or_nothing else events,
        )
        expected = attempt_oracle(
            lambda: self.oracle.submit_many(
                name,
                reports,
                window=window,
                ranks=ranks,
                all_or_nothing=all_or_nothing,
                scope=scope,
            )
        )
        if isinstance(expected, Refusal):
            assert isinstance(answer, BatchRefused), f"expected {expected.code}, got {answer!r}"
            reasons = [(receipt.status, receipt.reason) for receipt in answer.receipts]
            assert reasons == [(v.status, v.reason) for v in expected.verdicts]
        else:
            assert isinstance(answer, laurels.Receipts), repr(answer)
            self._assert_receipts(name, answer, expected, window)
            self._assert_counts(answer, expected)

    def _assert_receipts(
        self,
        name: str,
        receipts: Sequence[laurels.Receipt],
        verdicts: Sequence[Verdict],
        window: str | None,
    ) -> None:
        definition = self.definition(name)
        called = window or definition.windows[0].called
        assert len(receipts) == len(verdicts)
        for receipt, verdict in zip(receipts, verdicts, strict=True):
            assert_receipt(receipt, verdict, called, definition)
            assert changes(receipt.offset) >= self._changes.get(name, 0)
            self._changes[name] = changes(receipt.offset)

    def _assert_counts(self, receipts: laurels.Receipts, verdicts: Sequence[Verdict]) -> None:
        statuses = [verdict.status for verdict in verdicts]
        counts = (receipts.applied, receipts.unchanged, receipts.duplicates, receipts.refused)
        assert counts == tuple(
            statuses.count(status) for status in ("applied", "unchanged", "duplicate", "refused")
        )


def _scope_argument(scope: Names) -> dict[str, Any]:
    """Return the argument that requests a scope in receipts, if there is one."""
    return {} if scope is None else {"scope": scope}


def event_of(report: Report) -> tuple[object, ...]:
    """Return the event as a caller writes it; trailing fields that are not set are left out."""
    parts = (report.member, report.value, report.at, report.id)
    if report.labels is not None:
        return (*parts, report.labels)
    return parts[:2] if report.at is report.id is None else parts
