"""The page of a board with seasons: the state of a period, its final standings, and its prizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import expect

import laurels
from tests.http.browser import WITHIN_MS, Boards, Open, is_live, order
from tests.serving import Served

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
ODD = """a"b'c/<img src=x onerror=alert(1)>,prizes={"""
PRIZES = {
    "list": [
        {"name": ODD, "ranks": [1, 1], "amount": "1234.50", "scale": 2, "data": {"of": "day"}},
        {"name": "top ten", "ranks": [2, 10]},
        {"name": "half", "percent": "50"},
        {"name": "hundred", "at_least": 100},
    ],
    "pay_after": "1h",
}
expect.set_options(timeout=WITHIN_MS)


class Season(NamedTuple):
    """The boards of a server and its clock."""

    boards: Boards
    clock: laurels.ManualClock

    def board(self, scores: list[tuple[str, object]], **definition: Any) -> str:
        """Create a board with these scores, which counts days with prizes."""
        definition.setdefault("windows", [{"type": "day", "prizes": PRIZES}, "all"])
        return self.boards.made(scores, grace="5m", tie="member", **definition)

    def seal(self) -> None:
        """Close and seal all periods that are due."""
        self.boards.send("POST", "/v1/seal")


@pytest.fixture
def season() -> Iterator[Season]:
    clock = laurels.ManualClock(NOON_MS)
    with Served("memory:", clock) as served:
        yield Season(Boards(served.url), clock)


def test_a_period_is_shown_in_each_of_its_states(season: Season, open_page: Open) -> None:
    board = season.board([("ann", 120), ("bob", 80)])
    watched = open_page(season.boards.address(board, window="day"))
    page = watched.page
    state = page.locator("[data-state]:not(.pill)")
    expect(state).to_have_text("Open")
    season.clock.advance(12 * HOUR_MS)
    expect(page.locator(".figures")).to_contain_text("2026-11-21")
    page.get_by_label("Period").select_option("2026-11-20")
    expect(state).to_have_text("Grace: late events count")
    season.clock.advance(6 * MINUTE_MS)
    expect(state).to_have_text(["Sealed"])
    expect(page.locator(".digest")).to_contain_text("Digest of 2 entries")
    digest = season.boards.send("GET", f"/v1/boards/{board}/archive")[0]["digest"]
    expect(page.locator(".digest code")).to_have_text(digest)
    order(page).to_have_text(["ann", "bob"])
    watched.ensure_clean()


def test_archived_periods_can_be_chosen_and_linked(season: Season, open_page: Open) -> None:
    board = season.board([("day 1", 1)])
    for day in range(2, 7):
        season.clock.advance(DAY_MS)
        season.boards.score(board, (f"day {day}", day))
    season.clock.advance(DAY_MS)
    season.seal()
    watched = open_page(season.boards.address(board, window="day"))
    page = watched.page
    expect(page.get_by_label("Period").locator("option")).to_have_text(
        ["Now: 2026-11-26 (0)", *[f"2026-11-{day} (1)" for day in range(25, 19, -1)]]
    )
    page.get_by_label("Period").select_option("2026-11-20")
    order(page).to_have_text(["day 1"])
    expect(page).to_have_url(season.boards.address(board, window="day", period="2026-11-20"))
    watched.ensure_clean()
    page.reload()
    order(page).to_have_text(["day 1"])
    expect(page.get_by_label("Period")).to_have_value("2026-11-20")
    page.goto(season.boards.address(board, window="day", period="2031-01-01"))
    expect(page.get_by_role("alert")).to_contain_text("2031-01-01 has not begun")


def test_prizes_are_beside_the_list_and_winners_are_previewed(
    season: Season, open_page: Open
) -> None:
    board = season.board([("ann", 120), ("bob", 80), (ODD, 70), ("dan", 1)])
    watched = open_page(season.boards.address(board, window="day"))
    page = watched.page
    expect(page.locator(".bands li")).to_have_text(
        [
            f"{ODD}1,234.50Position 1",
            "top tenPositions 2 to 10",
            "halfThe best 50 %",
            "hundredFrom 100",
        ]
    )
    expect(page.locator(".prizes > p")).to_contain_text("due 1h after the period is sealed")
    is_live(page)
    page.get_by_text("Who would win now").click()
    winners = page.locator(".winners li")
    expect(winners).to_have_text(
        [f"#1ann{ODD} 1,234.50halfhundred", "#2bobtop tenhalf", f"#3{ODD}top ten", "#4dantop ten"]
    )
    expect(page.locator(".prizes [role=status]")).to_contain_text("4 of 4 members.")
    season.boards.score(board, ("dan", 500))
    expect(winners.first).to_contain_text("#1dan")
    page.get_by_role("link", name="All time").click()
    order(page).to_have_text(["dan", "ann", "bob", ODD])
    expect(page.locator(".prizes")).to_have_count(0)
    assert page.locator("main img").count() == 0
    watched.ensure_clean()


def test_winners_of_a_sealed_period_are_final(season: Season, open_page: Open) -> None:
    board = season.board([("ann", 120), ("bob", 80)])
    season.clock.advance(DAY_MS)
    season.seal()
    windows = [{"type": "day", "prizes": {"list": [{"name": "new", "ranks": [1, 1]}]}}, "all"]
    season.boards.send("PATCH", f"/v1/boards/{board}", {"windows": windows})
    watched = open_page(season.boards.address(board, window="day", period="2026-11-20"))
    page = watched.page
    page.get_by_text("Winners", exact=True).click()
    expect(page.locator(".winners li")).to_have_text(
        [f"#1ann{ODD} 1,234.50halfhundred", "#2bobtop ten"]
    )
    expect(page.locator(".bands")).to_have_count(0)
    watched.ensure_clean()


def test_a_scope_shows_its_own_prizes(season: Season, open_page: Open) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1]}], "scopes": [["room"]]}
    board = season.board([], scopes=[[], ["room"]], windows=[{"type": "day", "prizes": prizes}])
    labels = {"room": "4/2"}
    season.boards.send(
        "POST", f"/v1/boards/{board}/scores", {"member": "ann", "value": 1, "labels": labels}
    )
    watched = open_page(season.boards.address(board))
    page = watched.page
    order(page).to_have_text(["ann"])
    expect(page.locator(".prizes")).to_have_count(0)
    page.goto(season.boards.address(board, labels="room=4%2F2"))
    page.get_by_text("Who would win now").click()
    expect(page.locator(".winners li")).to_have_text(["#1anngold"])
    watched.ensure_clean()


def test_the_boundaries_of_a_rolling_window_can_be_chosen(season: Season, open_page: Open) -> None:
    window = {"name": "7d", "type": "rolling", "span": "7d", "step": "1h", "archive_every": "1d"}
    board = season.board([("ann", 3)], windows=[{**window, "prizes": PRIZES}, "all"])
    season.clock.advance(DAY_MS)
    season.boards.score(board, ("bob", 5))
    season.boards.send("POST", "/v1/seal")
    watched = open_page(season.boards.address(board))
    page = watched.page
    order(page).to_have_text(["bob", "ann"])
    page.get_by_label("Period").select_option("2026-11-20T23:00Z")
    order(page).to_have_text(["ann"])
    expect(page.locator(".figures")).to_contain_text("EndedSat 21 Nov, 00:00 UTC")
    expect(page.locator(".digest")).to_be_visible()
    watched.ensure_clean()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 360), ("light", 1280)])
def test_prizes_are_readable_on_a_phone_and_in_the_dark(
    season: Season, open_page: Open, scheme: str, width: int
) -> None:
    board = season.board([("ann", 120), ("x" * 120, 80)])
    season.clock.advance(DAY_MS)
    season.seal()
    season.boards.score(board, ("x" * 120, 80))
    viewport = {"width": width, "height": 740}
    address = season.boards.address(board, window="day")
    watched = open_page(address, color_scheme=scheme, viewport=viewport)
    page = watched.page
    page.locator(".prizes summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".winners li")).to_have_count(1)
    for address in ("", season.boards.address(board, window="day", period="2026-11-20")):
        if address:
            page.goto(address)
            expect(page.locator(".digest")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.ensure_clean()
