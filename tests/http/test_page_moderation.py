"""The functions of the page for keys that administer: payouts, the history of a period, hiding and
disqualifying. With any other key, the page neither shows these functions nor requests their
data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page, expect

import laurels
from tests.http.browser import WITHIN_MS, Boards, Open, Watched, is_live, order
from tests.serving import Served

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ADMIN_KEY = "lk_" + "a" * 43
ODD = """a"b'c/<img src=x onerror=alert(1)>&amp;"""
PRIZES = {
    "list": [{"name": "go/ld", "ranks": [1, 1], "amount": "10.00", "scale": 2}],
    "pay_after": "1h",
}
expect.set_options(timeout=WITHIN_MS)


class Kept(NamedTuple):
    """A server with keys, and its clock."""

    boards: Boards
    clock: laurels.ManualClock
    open_page: Open

    def opened(self, board: str, key: str = ADMIN_KEY, **query: str) -> Watched:
        """Open the page of a board with a key."""
        watched = self.open_page(f"{self.boards.url}/#key={key}")
        watched.page.goto(self.boards.address(board, **query))
        return watched

    def board(self, scores: list[tuple[str, object]], **definition: Any) -> str:
        """Create a board with these scores, which counts days with prizes."""
        definition.setdefault("windows", [{"type": "day", "prizes": PRIZES}, "all"])
        return self.boards.made(scores, grace="5m", tie="member", **definition)

    def sealed(self, scores: list[tuple[str, object]], **definition: Any) -> str:
        """Create a board whose day 2026-11-20 is sealed, with these scores."""
        board = self.board(scores, **definition)
        self.clock.advance(DAY_MS)
        self.boards.send("POST", "/v1/seal")
        return board

    def key(self, scope: str, board: str) -> str:
        """Return a new key for one board."""
        fields = {"name": f"{scope}-{board}", "scope": scope, "boards": [board]}
        made: str = self.boards.send("POST", "/v1/keys", fields)["key"]
        return made


@pytest.fixture
def kept(open_page: Open) -> Iterator[Kept]:
    clock = laurels.ManualClock(NOON_MS)
    with Served("memory:", clock, admin_key=ADMIN_KEY) as served:
        yield Kept(Boards(served.url, ADMIN_KEY, signs_in=False), clock, open_page)


@pytest.mark.parametrize("scope", ["read", "write"])
def test_a_key_that_does_not_administer_is_not_shown_and_does_not_ask(
    kept: Kept, scope: str
) -> None:
    board = kept.sealed([("ann", 120), ("bob", 80)])
    kept.boards.score(board, ("ann", 1), ("bob", 2))
    kept.boards.send("POST", f"/v1/boards/{board}/hide", {"member": "bob", "reason": "a bot"})
    watched = kept.opened(board, kept.key(scope, board), window="day")
    page = watched.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    order(page).to_have_text(["ann"])
    page.get_by_text("Who would win now").click()
    expect(page.locator(".winners li")).to_have_text(["#1anngo/ld 10.00"])
    page.get_by_label("Period").select_option("2026-11-20")
    order(page).to_have_text(["ann", "bob"])
    expect(page.locator(".digest")).to_be_visible()
    expect(page.locator(".under")).to_have_count(0)
    page.goto(kept.boards.address(board, member="ann"))
    expect(page.locator(".standing .place").first).to_have_text("#1of 1")
    expect(page.locator(".under")).to_have_count(0)
    private = [url for url in asked if any(part in url for part in ("payout", "hidden", "audit"))]
    assert private == []
    assert "a bot" not in page.content()
    watched.ensure_clean()


def test_payouts_are_listed_and_confirmed(kept: Kept) -> None:
    board = kept.sealed([(ODD, 120), ("bob", 80)])
    watched = kept.opened(board, window="day", period="2026-11-20")
    page = watched.page
    payouts = page.locator("[data-payout]")
    expect(payouts).to_have_count(1)
    expect(payouts.locator(".row")).to_have_text(f"{ODD}go/ld 10.00Pending")
    expect(payouts.get_by_role("button")).to_have_count(0)
    kept.clock.advance(HOUR_MS)
    page.get_by_label("State").select_option("Due")
    expect(payouts.locator(".badge")).to_have_text("Due")
    page.get_by_label("Reference of the payment").fill("bank/<b>17")
    page.keyboard.press("Enter")
    expect(payouts.locator(".badge")).to_have_text("Confirmed")
    expect(payouts).to_be_focused()
    expect(payouts).to_contain_text("reference bank/<b>17")
    page.get_by_label("State").select_option("Pending")
    expect(page.get_by_text("There are no such payouts.")).to_be_visible()
    (payout,) = kept.boards.send("GET", f"/v1/boards/{board}/payouts")["payouts"]
    assert (payout["state"], payout["reference"]) == ("confirmed", "bank/<b>17")
    page.get_by_text("Story of this period").click()
    story = page.locator("ol.rows li")
    expect(story.nth(0)).to_contain_text("Sealed: 2 entries")
    expect(story.nth(1)).to_contain_text(f"{ODD} was paid: bank/<b>17 (by ")
    watched.ensure_clean()


def test_all_payouts_of_a_window_are_beside_the_running_period(kept: Kept) -> None:
    board = kept.sealed([("ann", 120)])
    watched = kept.opened(board, window="day")
    expect(watched.page.locator("[data-payout]")).to_contain_text("2026-11-20 · position 1")
    watched.page.get_by_role("link", name="All time").click()
    order(watched.page).to_have_text(["ann"])
    expect(watched.page.locator("[data-payout]")).to_have_count(0)
    watched.ensure_clean()


def test_a_member_is_disqualified_with_a_reason(kept: Kept) -> None:
    board = kept.sealed([(ODD, 120), ("bob", 80)])
    watched = kept.opened(board, kept.key("admin", board), window="day", period="2026-11-20")
    page = watched.page
    order(page).to_have_text([ODD, "bob"])
    page.get_by_text("Disqualify a member").click()
    page.get_by_label("Member to disqualify").fill(ODD)
    page.get_by_role("button", name="Disqualify").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    order(page).to_have_text([ODD, "bob"])
    page.get_by_label("Reason").fill("scripted <i>gifts</i>")
    page.get_by_role("button", name="Disqualify").click()
    order(page).to_have_text(["bob"])
    expect(page.locator(".figures")).to_contain_text("Revision1")
    expect(page.locator("[data-payout]").locator(".badge")).to_have_text(["Superseded", "Pending"])
    page.get_by_text("Story of this period").click()
    expect(page.locator("ol.rows li").nth(1)).to_contain_text(
        f"{ODD} was disqualified: scripted <i>gifts</i> (by admin-{board})"
    )
    watched.ensure_clean()


def test_a_refused_disqualification_is_explained(kept: Kept) -> None:
    board = kept.sealed([("ann", 120)])
    page = kept.opened(board, window="day", period="2026-11-20").page
    page.get_by_text("Disqualify a member").click()
    page.get_by_label("Member to disqualify").fill("nobody")
    page.get_by_label("Reason").fill("a bot")
    page.get_by_role("button", name="Disqualify").click()
    expect(
        page.locator("form[aria-label='Disqualify a member']").get_by_role("alert")
    ).to_contain_text("nobody")
    order(page).to_have_text(["ann"])


def test_a_member_leaves_the_ranking_of_one_scope_only(kept: Kept) -> None:
    board = kept.board([], scopes=[[], ["room"]])
    for member, value in (("ann", 2), ("bob", 1)):
        event = {"member": member, "value": value, "labels": {"room": "4/2"}}
        kept.boards.send("POST", f"/v1/boards/{board}/scores", event)
    kept.clock.advance(DAY_MS)
    kept.boards.send("POST", "/v1/seal")
    query = {"window": "day", "period": "2026-11-20"}
    page = kept.opened(board, labels="room=4%2F2", **query).page
    page.get_by_text("Disqualify a member").click()
    page.get_by_label("Member to disqualify").fill("ann")
    page.get_by_label("Reason").fill("a bot")
    page.get_by_label("Only in room=4/2").check()
    page.get_by_role("button", name="Disqualify").click()
    order(page).to_have_text(["bob"])
    page.goto(kept.boards.address(board, **query))
    order(page).to_have_text(["ann", "bob"])
    page.get_by_text("Story of this period").click()
    expect(page.locator("ol.rows li").nth(1)).to_contain_text(
        "ann was disqualified in room=4/2: a bot (by LAURELS_ADMIN_KEY)"
    )


def test_a_member_is_hidden_with_a_reason_and_shown_again(kept: Kept) -> None:
    board = kept.board([(ODD, 120), ("bob", 80)], windows=["all"])
    watched = kept.opened(board)
    page = watched.page
    is_live(page)
    page.get_by_text("Hidden members").click()
    expect(page.get_by_text("Nobody is hidden.")).to_be_visible()
    page.get_by_label("Member to hide").fill(ODD)
    page.get_by_label("Reason").fill("scripted <i>gifts</i>")
    page.get_by_label("Until").fill("2030-01-02T03:04")
    page.get_by_role("button", name="Hide", exact=True).click()
    order(page).to_have_text(["bob"])
    hidden = page.locator("[data-hidden]")
    expect(hidden).to_contain_text("scripted <i>gifts</i>")
    expect(hidden).to_contain_text("until Wed 2 Jan, 03:04")
    (listed,) = kept.boards.send("GET", f"/v1/boards/{board}/hidden")
    assert listed["until_ms"] == page.evaluate("new Date('2030-01-02T03:04').getTime()")
    hidden.get_by_role("button").click()
    order(page).to_have_text([ODD, "bob"])
    expect(page.get_by_text("Nobody is hidden.")).to_be_visible()
    watched.ensure_clean()


def test_a_member_that_is_hidden_on_all_boards_cannot_be_shown_here(kept: Kept) -> None:
    board = kept.board([("ann", 120), ("bob", 80)], windows=["all"])
    kept.boards.send("POST", "/v1/hide", {"member": "ann", "reason": "a bot"})
    watched = kept.opened(board, kept.key("admin", board))
    watched.page.get_by_text("Hidden members").click()
    expect(watched.page.locator("[data-hidden] .row")).to_have_text("annon all boards")
    expect(watched.page.locator("[data-hidden]").get_by_role("button")).to_have_count(0)
    watched.ensure_clean()


def test_a_member_with_line_breaks_is_hidden_on_its_own_page(kept: Kept) -> None:
    """An input removes line breaks from its value."""
    member = "a\nb\r\nc"
    board = kept.board([(member, 120), ("abc", 80)], windows=["all"])
    watched = kept.opened(board, member=member)
    page = watched.page
    expect(page.locator(".place")).to_have_text("#1of 2")
    press(page, "summary")
    page.get_by_label("Reason").fill("a bot")
    page.get_by_role("button", name="Hide", exact=True).click()
    expect(page.locator("[data-hidden]")).to_contain_text("a bot")
    (listed,) = kept.boards.send("GET", f"/v1/boards/{board}/hidden")
    assert listed["member"] == member
    watched.ensure_clean()


def test_a_member_is_hidden_on_its_own_page_by_keyboard(kept: Kept) -> None:
    board = kept.board([(ODD, 120), ("bob", 80)], windows=["all"])
    watched = kept.opened(board, member=ODD)
    page = watched.page
    expect(page.locator(".place")).to_have_text("#1of 2")
    press(page, "summary")
    expect(page.get_by_label("Member to hide")).to_have_value(ODD)
    page.get_by_label("Reason").focus()
    page.keyboard.type("a bot")
    page.keyboard.press("Enter")
    expect(page.locator("[data-hidden]")).to_contain_text("a bot")
    expect(page.locator(".standings")).to_contain_text("is in no ranking of this board")
    expect(page.locator(".pill")).to_have_text("Not ranked")
    press(page, "[data-hidden] button")
    expect(page.locator(".place")).to_have_text("#1of 2")
    expect(page.get_by_label("Reason")).to_be_visible()
    # the page may have asked for the neighbours of the member while it was hidden
    watched.ensure_clean(refusals=True)


def press(page: Page, selector: str) -> None:
    """Press the Enter key on an element."""
    page.locator(selector).focus()
    page.keyboard.press("Enter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_administration_fits_a_phone(kept: Kept, open_page: Open, scheme: str) -> None:
    board = kept.sealed([("x" * 120, 120), ("bob", 80)])
    kept.clock.advance(HOUR_MS)
    reason = "r" * 500
    kept.boards.send("POST", f"/v1/boards/{board}/hide", {"member": "y" * 128, "reason": reason})
    options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": 360, "height": 740}}
    page = open_page(f"{kept.boards.url}/#key={ADMIN_KEY}", **options).page
    views: list[tuple[dict[str, str], Callable[[], None]]] = [
        ({}, lambda: page.get_by_text("Hidden members").click()),
        ({"period": "2026-11-20"}, lambda: page.get_by_text("Disqualify a member").click()),
    ]
    for query, open_details in views:
        page.goto(kept.boards.address(board, window="day", **query))
        expect(page.locator("[data-payout]")).to_be_visible()
        open_details()
        expect(page.get_by_label("Reason")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
