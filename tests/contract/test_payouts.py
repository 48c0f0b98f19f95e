"""Payouts: made when a period is sealed, listed, confirmed, and corrected after a
disqualification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import (
    InvalidCursor,
    InvalidLimit,
    NothingToBackUp,
    NotSealed,
    UnknownBoard,
    UnknownRevision,
    UnknownWindow,
)
from laurels.errors.payouts import (
    InvalidReference,
    InvalidState,
    PayoutConfirmed,
    PayoutNotDue,
    PayoutsOpen,
    UnknownPayout,
)
from laurels.errors.service import MemberNotRanked
from laurels.model.prizes import prizes_of
from tests.calendar_by_scanning import HOUR
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import ARCHIVING, Deployment, Implementation
from tests.prizes import Row, balance, random_prizes, winnings

DAY = 24 * HOUR
DECEMBER = NOW_MS + 12 * DAY
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "pay_after": "1h",
}


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each store that awards prizes."""
    implementation: Implementation = request.param
    return implementation


def month(prizes: object = PRIZES) -> dict[str, Any]:
    return {"name": "month", "type": "month", "prizes": prizes}


def board(**fields: Any) -> laurels.Board:
    return laurels.Board(
        "b",
        **{"tie": "member", "ledger": "main", "windows": ["all", month()], **fields},
    )


@pytest.fixture
def sealed(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> laurels.Leaderboards:
    """Return boards on which November is sealed: ann has won the prizes `gold` and `two`, bob has
    won `two`."""
    lb.create(board(changes="30d"))
    lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    clock.set(DECEMBER)
    lb.seal()
    return lb


def every(lb: laurels.Leaderboards, **wanted: Any) -> list[laurels.Payout]:
    """Return all payouts, read in small pages."""

    def pages() -> Iterator[laurels.Payout]:
        after: str | None = None
        while True:
            page = lb.payouts("b", after=after, limit=2, **wanted)
            yield from page
            if (after := page.next) is None:
                return

    return list(pages())


def brief(payouts: list[laurels.Payout]) -> list[tuple[str, str, str]]:
    return [(each.member, each.prize, each.state) for each in payouts]


def test_payouts_are_made_with_the_seal(lb: laurels.Leaderboards, clock: Any) -> None:
    lb.create(board())
    lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    assert list(lb.payouts("b")) == []
    preview = lb.settle("b", window="month")
    clock.set(DECEMBER)
    lb.seal()
    payouts = every(lb)
    assert [(each.member, each.prize, each.amount, each.data) for each in payouts] == [
        (each.member, each.prize, each.amount, each.data) for each in preview.awards
    ]
    first = payouts[0]
    assert first.id.endswith("/month/2026-11//ann/gold/0")
    assert (first.window, first.period, first.labels, first.position) == ("month", "2026-11", {}, 1)
    assert (first.state, first.amount) == ("pending", Decimal("5.00"))
    assert first.due_ms == first.made_ms + HOUR
    clock.set(DECEMBER + HOUR)
    assert {each.state for each in every(lb)} == {"due"}


def test_a_confirmation_can_be_repeated_and_not_replaced(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    gold = sealed.payouts("b")[0]
    with pytest.raises(PayoutNotDue, match="is pending"):
        sealed.confirm("b", gold.id, "bank-1")
    clock.set(DECEMBER + HOUR)
    confirmed = sealed.confirm("b", gold.id, "bank-1")
    assert (confirmed.state, confirmed.reference) == ("confirmed", "bank-1")
    assert confirmed.confirmed_ms == DECEMBER + HOUR
    clock.set(DECEMBER + 2 * HOUR)
    assert sealed.confirm("b", gold.id, "bank-1") == confirmed
    with pytest.raises(PayoutConfirmed, match="bank-1"):
        sealed.confirm("b", gold.id, "bank-2")
    unknown_ids: list[Any] = [gold.id + "x", "", "\x00"]
    for unknown in unknown_ids:
        with pytest.raises(UnknownPayout):
            sealed.confirm("b", unknown, "bank-1")
    for reference in ("", "x" * 501):
        with pytest.raises(InvalidReference):
            sealed.confirm("b", gold.id, reference)
    assert sealed.changes("b", limit=1_000).changes[-1].kind == "confirm"


def test_payouts_are_found_by_window_period_member_and_state(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    assert brief(every(sealed, member="ann")) == [
        ("ann", "gold", "pending"),
        ("ann", "two", "pending"),
    ]
    assert every(sealed, period="2026-10") == []
    assert every(sealed, window="all") == []
    assert every(sealed, due_only=True) == []
    clock.set(DECEMBER + HOUR)
    assert len(every(sealed, due_only=True)) == 3
    sealed.confirm("b", sealed.payouts("b")[1].id, "x")
    assert brief(every(sealed, state="confirmed")) == [("ann", "two", "confirmed")]
    assert len(every(sealed, state="due")) == 2
    assert len(every(sealed, due_only=True)) == 3
    with pytest.raises(UnknownWindow):
        sealed.payouts("b", window="week")
    with pytest.raises(InvalidCursor):
        sealed.payouts("b", after="x")
    with pytest.raises(InvalidLimit):
        sealed.payouts("b", limit=0)
    state: Any = "paid"
    with pytest.raises(InvalidState):
        sealed.payouts("b", state=state)


def test_the_list_of_due_payouts_is_continued_from_its_cursor(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board())
    lb.submit_many("b", [("ann", 9), ("bob", 8)])
    clock.set(DECEMBER)
    lb.seal()
    clock.set(DECEMBER + HOUR)
    page = lb.payouts("b", due_only=True)
    assert (len(page), page.next) == (3, None)
    assert page.cursor is not None
    assert list(lb.payouts("b", due_only=True, after=page.cursor)) == []
    lb.submit("b", "cid", 1)
    clock.set(DECEMBER + 31 * DAY)
    lb.seal()
    clock.set(DECEMBER + 32 * DAY)
    more = lb.payouts("b", due_only=True, after=page.cursor)
    assert [(each.period, each.member) for each in more] == [("2026-12", "cid")] * 2


def test_a_board_with_open_payouts_cannot_be_deleted_and_its_payouts_outlive_it(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(DECEMBER + HOUR)
    payouts = every(sealed)
    for each in payouts:
        with pytest.raises(PayoutsOpen):
            sealed.delete("b")
        sealed.confirm("b", each.id, f"for {each.id}")
    sealed.delete("b")
    assert [each.reference for each in every(sealed)] == [f"for {each.id}" for each in payouts]
    assert sealed.confirm("b", payouts[0].id, f"for {payouts[0].id}").state == "confirmed"
    with pytest.raises(UnknownBoard):
        sealed.payouts("c")
    sealed.create(board())
    sealed.submit("b", "ann", 1)
    clock.set(DECEMBER + 40 * DAY)
    sealed.seal()
    ids = [each.id for each in every(sealed)]
    assert len(ids) == len(set(ids)) == 5


def test_the_definition_at_closing_applies(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board())
    lb.submit_many("b", [("ann", 9), ("bob", 8)])
    lb.change("b", windows=["all", month({"list": [{"name": "last", "ranks": [2, 2]}]})])
    clock.set(DECEMBER)
    lb.seal()
    lb.change("b", windows=["all", month()])
    assert brief(every(lb)) == [("bob", "last", "pending")] or brief(every(lb)) == [
        ("bob", "last", "due")
    ]
    assert [each.prize for each in lb.settle("b", window="month", period="2026-11").awards] == [
        "last"
    ]
    assert list(lb.settle("b", window="month").awards) == []


def test_scopes_have_payouts_of_their_own(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    prizes = {**PRIZES, "list": PRIZES["list"][:1], "scopes": [[], ["room"]]}
    lb.create(board(scopes=[[], ["room"]], windows=[month(prizes)]))
    lb.submit_many(
        "b",
        [(member, value, None, None, {"room": room}) for member, value, room in
         (("ann", 9, "1"), ("bob", 8, "2"), ("cid", 7, "2"))],
    )  # fmt: skip
    clock.set(DECEMBER)
    lb.seal()
    won = sorted((each.labels.get("room", ""), each.member) for each in every(lb))
    assert won == [("", "ann"), ("1", "ann"), ("2", "bob")]
    lb.disqualify("b", "bob", "a bot", period="2026-11", labels={"room": "2"})
    open_payouts = every(lb, state="pending")
    won = sorted((each.labels.get("room", ""), each.member) for each in open_payouts)
    assert won == [("", "ann"), ("1", "ann"), ("2", "cid")]


def test_a_disqualification_makes_a_new_revision(sealed: laurels.Leaderboards) -> None:
    before = sealed.periods("b", window="month")[1]
    revision = sealed.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    after = sealed.periods("b", window="month")[1]
    assert (revision.revision, revision.entries) == (1, 2)
    assert (before.entries, after.entries, after.digest) == (3, 2, revision.digest)
    assert before.digest != after.digest
    page = sealed.top("b", window="month", period="2026-11")
    assert [entry.member for entry in page.entries] == ["bob", "cid"]
    assert [entry.member for entry in sealed.top("b").entries] == ["ann", "bob", "cid"]
    assert brief(every(sealed)) == [
        ("ann", "gold", "superseded"),
        ("ann", "two", "superseded"),
        ("bob", "two", "pending"),
        ("bob", "gold", "pending"),
        ("cid", "two", "pending"),
    ]
    arguments: dict[str, Any] = {"window": "month", "period": "2026-11"}
    for first in (0, None):
        page = sealed.top("b", **arguments, revision=first)
        whole = ["ann", "bob", "cid"] if first == 0 else ["bob", "cid"]
        assert [entry.member for entry in page.entries] == whole
        assert [entry.member for entry in sealed.export("b", **arguments, revision=first)] == whole
        assert sealed.rank("b", "cid", **arguments, revision=first) == len(whole)
        assert sealed.ranks("b", ["cid"], **arguments, revision=first) == [len(whole)]
        assert sealed.count("b", **arguments, revision=first) == len(whole)
        standing = sealed.standing("b", "bob", **arguments, revision=first)
        assert standing is not None
        assert standing.total == len(whole)
    with pytest.raises(UnknownRevision):
        sealed.top("b", **arguments, revision=2)
    with pytest.raises(NotSealed):
        sealed.top("b", window="month", revision=0)
    change = sealed.changes("b", limit=1_000).changes[-1]
    assert (change.kind, change.member) == ("disqualify", "ann")
    assert change.data["reason"] == "a bot"
    with pytest.raises(MemberNotRanked):
        sealed.disqualify("b", "ann", "again", window="month", period="2026-11")
    sealed.disqualify("b", "bob", "a bot", window="month", period="2026-11")
    assert brief(every(sealed, state="pending")) == [
        ("cid", "two", "pending"),
        ("cid", "gold", "pending"),
    ]
    with pytest.raises(NotSealed):
        sealed.disqualify("b", "ann", "early", window="month")
    with pytest.raises(InvalidReference):
        sealed.disqualify("b", "cid", "", window="month", period="2026-11")


def test_payouts_that_are_due_stay_and_the_differences_are_added(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(DECEMBER + HOUR)
    before = every(sealed)
    sealed.confirm("b", before[0].id, "bank-1")
    sealed.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    after = {each.id: each for each in every(sealed)}
    for each in before[1:]:
        assert after[each.id] == each
    uid = before[0].id.split("/")[0]
    back = after[f"{uid}/month/2026-11//ann/gold/1"]
    assert (back.amount, back.corrects, back.state) == (Decimal("-5.00"), before[0].id, "pending")
    assert after[f"{uid}/month/2026-11//ann/two/1"].withdrawn
    assert after[f"{uid}/month/2026-11//bob/gold/1"].amount == Decimal("5.00")
    assert len(after) == 7


def test_everything_is_there_after_a_restart(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    if lasting._implementation not in ARCHIVING:
        pytest.skip("this store does not close periods")
    lb = lasting.lb
    lb.create(board(changes="30d"))
    lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    clock.set(DECEMBER)
    lb.seal()
    clock.set(DECEMBER + HOUR)
    lb.confirm("b", lb.payouts("b")[0].id, "bank-1")
    lb.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    before = every(lb), lb.top("b", window="month", period="2026-11")
    lb = lasting.reopen()
    after = every(lb), lb.top("b", window="month", period="2026-11")
    assert after == before
    if lasting.lasting:
        with suppress(NothingToBackUp):
            lb.snapshot()
        lb = lasting.reopen()
        assert (every(lb), lb.top("b", window="month", period="2026-11")) == before
    lb.check()


def test_payouts_of_random_boards_add_up_to_what_is_won(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    random = Random("payouts")
    now_ms = NOW_MS
    for episode in range(scaled(8, 200)):
        name = f"b{episode}"
        definition = random_prizes(random)
        rows: list[Row] = [(f"m{i:02}", random.randint(0, 6)) for i in range(random.randint(1, 12))]
        window = {"name": "day", "type": "day", "prizes": definition}
        lb.create(laurels.Board(name, ledger="main", tie="member", windows=[window]))
        lb.submit_many(name, rows)
        period = lb.periods(name)[0].label
        now_ms += DAY + HOUR
        clock.set(now_ms)
        lb.seal()
        prizes = prizes_of(definition)
        for _ in range(random.randint(1, 3)):
            rows.sort(key=lambda row: (-row[1], row[0]))
            assert _sums(lb, name) == winnings(prizes, rows)
            if random.random() < 0.7:
                now_ms += random.randint(0, 4)
                clock.set(now_ms)
            for payout in lb.payouts(name, state="due", limit=1_000):
                if random.random() < 0.5:
                    lb.confirm(name, payout.id, "paid")
            if len(rows) > 1:
                member, _ = rows.pop(random.randrange(len(rows)))
                lb.disqualify(name, member, "chosen at random", period=period)
            else:
                break


def _sums(lb: laurels.Leaderboards, name: str) -> Counter[tuple[str, str]]:
    """Return the total of the payouts that are not superseded, for each member and prize."""
    return balance(
        (each.member, each.prize, None if each.amount is None else int(each.amount), each.withdrawn)
        for each in lb.payouts(name, limit=1_000)
        if each.state != "superseded"
    )


def test_confirmations_and_disqualifications_are_in_the_audit_log(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    clock.set(DECEMBER + HOUR)
    gold = sealed.payouts("b")[0]
    sealed.confirm("b", gold.id, "bank-1")
    sealed.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    disqualified, confirmed = sealed.audit("b").entries[:2]
    assert (confirmed.verb, confirmed.request["reference"]) == ("confirm", "bank-1")
    assert (disqualified.verb, disqualified.request["reason"]) == ("disqualify", "a bot")


def test_hidden_members_win_nothing(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(board())
    lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    lb.hide("b", "ann", "a bot")
    winners = [award.member for award in lb.settle("b", window="month").awards]
    assert winners == ["bob", "bob", "cid"]
    clock.set(DECEMBER)
    lb.seal()
    lb.show("b", "ann")
    assert [each.member for each in every(lb)] == winners


def test_payouts_of_an_earlier_board_are_found_by_its_windows(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", ledger="main", windows=["all", {"type": "day", "prizes": PRIZES}]))
    lb.submit("b", "ann", 1)
    clock.advance(DAY)
    lb.seal()
    clock.advance(2 * HOUR)
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")
    lb.delete("b")
    assert {payout.member for payout in lb.payouts("b", window="day")} == {"ann"}
    lb.create(laurels.Board("b"))
    assert {payout.member for payout in lb.payouts("b", window="day")} == {"ann"}
    assert not lb.payouts("b", window="all").payouts
    with pytest.raises(UnknownWindow):
        lb.payouts("b", window="week")
