"""The web page of a server, in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

import laurels
from tests.counts import covering, some
from tests.http.browser import WITHIN_MS, Boards, Open, is_live, order
from tests.http.process import Process
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY as PROCESS_KEY
from tests.serving import Served

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
DAY_MS = 86_400_000
ADMIN_KEY = "lk_" + "a" * 43
SCRIPT = "<script>alert(1)</script>"

expect.set_options(timeout=WITHIN_MS)


@contextmanager
def in_one_process() -> Iterator[Boards]:
    with Served("memory:", laurels.ManualClock(NOON_MS)) as served:
        yield Boards(served.url)


@contextmanager
def in_several_processes() -> Iterator[Boards]:
    """The boards of a service over an index server. Two workers serve the page, and a third process
    gets all writes."""
    with (
        Server() as redis,
        Process(redis.url, "--workers", "2") as page_server,
        Process(redis.url) as write_server,
    ):
        yield Boards(page_server.url, key=PROCESS_KEY, writes_to=write_server.url)


KINDS = [in_one_process, in_several_processes]


def called(kind: Callable[[], object]) -> str:
    return kind.__name__.removeprefix("in_")


@pytest.fixture(scope="module", params=some(1, KINDS), ids=called)
def boards(request: pytest.FixtureRequest) -> Iterator[Boards]:
    """The boards of a server in one process and, in `make torture`, also those of a service in
    several processes."""
    with request.param() as made:
        yield made


of_either_kind = pytest.mark.parametrize("boards", KINDS, indirect=True, ids=called)
"""Run a test on both kinds of service. The page shows a change, and in a service of several
processes another process has written this change."""


@of_either_kind
def test_the_list_of_boards_shows_leaders_and_can_be_searched(
    boards: Boards, open_page: Open
) -> None:
    for number in range(8):
        boards.made([("alice", 1234 + number)], title=f"Shelf {number}", windows=["all", "week"])
    watched = open_page(boards.url)
    page = watched.page
    card = page.locator(".card", has_text="Shelf 3")
    expect(card.locator("dd").nth(0)).to_have_text("1")
    expect(card.locator("dd").nth(1)).to_have_text("alice1,237")
    expect(card.locator(".chips li")).to_have_text(["All time", "Week"])
    page.get_by_role("searchbox").fill("shelf 3")
    expect(page.locator(".card")).to_have_count(1)
    page.get_by_role("link", name="Shelf 3").click()
    expect(page.locator("h1")).to_have_text("Shelf 3")
    watched.ensure_clean()


@of_either_kind
def test_a_change_appears_and_rows_move(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120), ("bob", 80), ("carol", 45)])
    watched = open_page(boards.address(board))
    page = watched.page
    order(page).to_have_text(["alice", "bob", "carol"])
    is_live(page)
    boards.score(board, ("carol", 100), ("dave", 1))
    order(page).to_have_text(["carol", "alice", "bob", "dave"])
    expect(page.locator("tr", has_text="carol").locator("td.figure")).to_have_text("145")
    expect(page.locator("tr", has_text="carol").locator(".trend")).to_have_text("▲2")
    expect(page.locator("#total")).to_have_text("4")
    expect(page.locator("#said")).to_have_text("carol leads")
    assert page.evaluate("moves") >= 3
    watched.ensure_clean()


def test_rows_do_not_move_with_reduced_motion(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120), ("bob", 80)])
    page = open_page(boards.address(board), reduced_motion="reduce").page
    is_live(page)
    boards.score(board, ("bob", 100))
    order(page).to_have_text(["bob", "alice"])
    assert page.evaluate("moves") == 0


@of_either_kind
def test_many_changes_end_in_the_order_of_the_board(boards: Boards, open_page: Open) -> None:
    board = boards.made([(f"m{i:02}", i) for i in range(40)])
    page = open_page(boards.address(board)).page
    is_live(page)
    for i in range(60):
        boards.score(board, (f"m{i * 7 % 40:02}", i), (f"m{i * 11 % 40:02}", 2 * i))
    top = boards.send("GET", f"/v1/boards/{board}/top?limit=25")["entries"]
    order(page).to_have_text([entry["member"] for entry in top])
    figures = page.locator(".list tbody td.figure")
    expect(figures).to_have_text([f"{entry['score']:,}" for entry in top])
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".list tbody tr")).to_have_count(40)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()


def test_focus_stays_on_a_row_that_moves(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120), ("bob", 80), ("carol", 45)])
    page = open_page(boards.address(board)).page
    is_live(page)
    page.get_by_role("link", name="carol").focus()
    boards.score(board, ("carol", 100))
    order(page).to_have_text(["carol", "alice", "bob"])
    expect(page.get_by_role("link", name="carol")).to_be_focused()


def test_a_past_period_is_shown_as_it_ended(boards: Boards, open_page: Open) -> None:
    board = boards.made([("today's", 3)], windows=["all", "day"], grace="3d", dedupe="3d")
    today = boards.send("GET", f"/v1/boards/{board}/top?window=day")["as_of"]["period"]
    yesterday = str(date.fromisoformat(today) - timedelta(days=1))
    boards.score(board, ("yesterday's", 5, f"{yesterday}T12:00:00+00:00"))
    watched = open_page(boards.address(board, window="day"))
    page = watched.page
    order(page).to_have_text(["today's"])
    page.get_by_label("Period").select_option(yesterday)
    expect(page.locator(".pill")).to_have_text("Past period")
    order(page).to_have_text(["yesterday's"])
    expect(page).to_have_url(boards.address(board, window="day", period=yesterday))
    page.get_by_role("link", name="All time").click()
    order(page).to_have_text(["yesterday's", "today's"])
    watched.ensure_clean()


def test_a_past_period_names_the_source_it_waits_for(boards: Boards, open_page: Open) -> None:
    board = boards.made([("ann", 3)], windows=["day"], grace="1ms")
    today = boards.send("GET", f"/v1/boards/{board}/top?window=day")["as_of"]["period"]
    yesterday = str(date.fromisoformat(today) - timedelta(days=1))
    position = urlencode({"position_source": "source/<s>", "position": '{"passed_ms": 0}'})
    boards.send("POST", f"/v1/boards/{board}/scores?{position}", [])
    watched = open_page(boards.address(board, window="day", period=yesterday))
    expect(watched.page.get_by_text("Waits for")).to_be_visible()
    expect(watched.page.get_by_text("source/<s>")).to_be_visible()
    watched.page.get_by_label("Period").select_option("")
    order(watched.page).to_have_text(["ann"])
    expect(watched.page.get_by_text("Waits for")).to_have_count(0)
    watched.ensure_clean()


def test_a_day_that_begins_is_shown(open_page: Open) -> None:
    clock = laurels.ManualClock(NOON_MS)
    with Served("memory:", clock) as served:
        boards = Boards(served.url)
        board = boards.made([("alice", 120)], windows=["day"])
        page = open_page(boards.address(board)).page
        is_live(page)
        expect(page.locator(".figures")).to_contain_text("2026-11-20")
        clock.advance(DAY_MS)
        expect(page.locator(".figures")).to_contain_text("2026-11-21")
        expect(page.locator("p.empty")).to_be_visible()
        is_live(page)
        boards.score(board, ("bob", 1))
        order(page).to_have_text(["bob"])


def test_a_member_is_found_and_the_card_shows_all_windows(boards: Boards, open_page: Open) -> None:
    scores: list[tuple[str, object]] = [(f"m{i:02}", 1000 - 10 * i) for i in range(1, 21)]
    board = boards.made(scores, windows=["all", "month:keep=3", "7d=rolling:7d/1h"])
    watched = open_page(boards.address(board))
    page = watched.page
    page.get_by_label("Find a member").fill("m15")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("h1")).to_have_text("m15")
    titles = page.locator(".standing h2")
    expect(titles).to_have_text(["All time", "Month", "Last 7 days"])
    card = page.locator(".standing").first
    expect(card.locator(".place")).to_have_text("#15of 20")
    expect(card.locator(".badge")).to_have_text("Top 75 %")
    expect(card.locator(".gaps li")).to_have_text(
        ["10 behind m14", "+51 for rank 10", "10 ahead of m16"]
    )
    order(page).to_have_text([f"m{i:02}" for i in range(10, 21)])
    expect(page.locator("tr.own .who")).to_have_text("m15")
    is_live(page)
    boards.score(board, ("m15", 1000))
    expect(card.locator(".place")).to_have_text("#1of 20")
    expect(page.locator(".standing").last.locator(".score")).to_have_text("1,850")
    watched.ensure_clean()


def test_an_unranked_member_is_shown_as_such_until_it_scores(
    boards: Boards, open_page: Open
) -> None:
    board = boards.made([("alice", 120)])
    page = open_page(boards.address(board, member="no body & co")).page
    expect(page.locator(".standings")).to_contain_text("no body & co is in no ranking")
    expect(page.locator(".pill")).to_have_text("Not ranked")
    boards.score(board, ("no body & co", 130))
    expect(page.locator(".place")).to_have_text("#1of 2")


def test_a_member_without_a_score_in_a_window_sees_what_it_needs(
    boards: Boards, open_page: Open
) -> None:
    board = boards.made([("alice", 120)], windows=["day", "all"])
    boards.score(board, ("bob", 50, NOON_MS - 3 * DAY_MS))
    page = open_page(boards.address(board, member="bob", window="day")).page
    card = page.locator(".standing.chosen")
    expect(card).to_contain_text("Not ranked in this window.")
    expect(card).to_contain_text("+0 for rank 10")
    boards.score(board, ("bob", 1))
    expect(card.locator(".place")).to_have_text("#2of 2")


@of_either_kind
def test_the_form_submits_and_shows_the_receipt(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120), ("bob", 80)])
    watched = open_page(boards.address(board))
    page = watched.page
    is_live(page)
    page.get_by_label("Member", exact=True).fill("bob")
    page.get_by_label("Value").fill("50")
    page.get_by_role("button", name="Submit").click()
    result = page.locator(".result")
    expect(result.locator(".what")).to_have_text("Counted: bob")
    expect(result.locator("dd")).to_have_text(["#1was #2", "130was 80"])
    order(page).to_have_text(["bob", "alice"])
    watched.ensure_clean()


def test_a_refused_score_is_shown_with_its_code(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120)])
    page = open_page(boards.address(board)).page
    page.get_by_label("Member", exact=True).fill("bob")
    page.get_by_label("Value").fill("half")
    page.get_by_role("button", name="Submit").click()
    notice = page.locator(".result .notice")
    expect(notice).to_contain_text('got "half"')
    notice.get_by_role("link", name="invalid_value").click()
    expect(page.locator("tr#invalid_value")).to_be_in_viewport()


def test_several_columns_are_submitted_together(boards: Boards, open_page: Open) -> None:
    columns = [{"name": "points", "scale": 2, "op": "best"}, {"name": "ms", "op": "best"}]
    board = boards.made([], columns=columns)
    page = open_page(boards.address(board)).page
    expect(page.locator("p.empty")).to_be_visible()
    page.get_by_label("Member", exact=True).fill("alice")
    for value, text in zip(page.get_by_label("Value").all(), ["12.30", "1500"], strict=True):
        value.fill(text)
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".result dd")).to_have_text(["#1", "points 12.30, ms 1,500"])
    expect(page.locator("p.empty")).to_be_hidden()


def test_an_id_with_markup_is_text(boards: Boards, open_page: Open) -> None:
    board = boards.made([(SCRIPT, 120), ("<img src=x onerror=alert(2)>", 80)], title=SCRIPT)
    watched = open_page(boards.address(board))
    page = watched.page
    expect(page.locator("h1")).to_have_text(SCRIPT)
    order(page).to_have_text([SCRIPT, "<img src=x onerror=alert(2)>"])
    page.get_by_role("link", name=SCRIPT).last.click()
    expect(page.locator(".place")).to_have_text("#1of 2")
    expect(page.locator("h1")).to_have_text(SCRIPT)
    assert page.locator("main script, main img").count() == 0
    watched.ensure_clean()


@pytest.mark.parametrize(("scheme", "width"), covering(["light", "dark"], [360, 1280]))
def test_both_color_schemes_are_readable_at_both_widths(
    boards: Boards, open_page: Open, scheme: str, width: int
) -> None:
    board = boards.made(
        [("alice", 120), ("x" * 120, 9_007_199_254_740_991)], windows=["all", "day"]
    )
    page = open_page(
        boards.address(board),
        color_scheme=scheme,
        viewport={"width": width, "height": 740},
    ).page
    for address in ("", boards.address(board, member="x" * 120), f"{boards.url}/docs"):
        if address:
            page.goto(address)
        expect(page.locator("h1")).to_be_visible()
        ground, ink = page.evaluate(
            "(() => { const s = getComputedStyle(document.body);"
            " return [s.backgroundColor, s.color].map((c) => c.match(/\\d+/g).map(Number)); })()"
        )
        assert (sum(ground) < sum(ink)) == (scheme == "dark")
        assert abs(sum(ground) - sum(ink)) > 500
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_everything_is_reached_by_keyboard(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120), ("bob", 80)], title="Keys", windows=["all", "day"])
    watched = open_page(boards.url)
    page = watched.page
    expect(page.locator(".card", has_text="Keys")).to_be_visible()
    tab_to(page, f"a[href='#/boards/{board}']")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    tab_to(page, "[data-focus='window day']")
    page.keyboard.press("Enter")
    expect(page.locator("[data-focus='window day']")).to_have_attribute("aria-current", "page")
    expect(page.locator("[data-focus='window day']")).to_be_focused()
    tab_to(page, "[data-focus=find]")
    page.keyboard.type("bob")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("bob")
    tab_to(page, ".who a")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("alice")
    tab_to(page, ".crumbs a:last-child")
    page.keyboard.press("Enter")
    order(page).to_have_text(["alice", "bob"])
    tab_to(page, "[name=member][data-focus=submit]")
    page.keyboard.type("bob")
    page.keyboard.press("Tab")
    page.keyboard.type("100")
    page.keyboard.press("Enter")
    order(page).to_have_text(["bob", "alice"])
    watched.ensure_clean()


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus. Assert that the focus is visible."""
    focus_is_seen = (
        "[...document.querySelectorAll(':focus, :has(> :focus), :has(:focus)')]"
        ".some((node) => getComputedStyle(node).outlineStyle === 'solid')"
    )
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("(sought) => document.activeElement.matches(sought)", selector):
            assert page.evaluate(focus_is_seen)
            return
    raise AssertionError(f"the Tab key does not reach {selector}")


def test_the_page_asks_for_a_key_and_keeps_it(open_page: Open) -> None:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        boards = Boards(served.url, ADMIN_KEY, signs_in=False)
        board = boards.made([("alice", 120), ("bob", 80)])
        page = open_page(boards.address(board)).page
        expect(page.locator("h1")).to_have_text("This server asks for a key")
        expect(page.get_by_label("Key")).to_be_focused()
        page.keyboard.type("lk_wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("the key is not known")
        page.get_by_label("Key").fill(ADMIN_KEY)
        page.get_by_role("button", name="Continue").click()
        is_live(page)
        boards.score(board, ("bob", 100))
        order(page).to_have_text(["bob", "alice"])
        page.reload()
        is_live(page)
        assert ADMIN_KEY not in page.url
        page.get_by_role("button", name="Forget key").click()
        expect(page.locator("h1")).to_have_text("This server asks for a key")


def test_the_page_waits_for_a_server_that_has_ended(open_page: Open) -> None:
    with Served("memory:") as served:
        boards = Boards(served.url)
        page = open_page(boards.address(boards.made([("alice", 120)]))).page
        is_live(page)
    expect(page.locator(".pill")).to_have_text("Reconnecting")
    order(page).to_have_text(["alice"])


@of_either_kind
def test_a_deleted_or_unknown_board_is_reported(boards: Boards, open_page: Open) -> None:
    board = boards.made([("alice", 120)])
    page = open_page(boards.address(board)).page
    is_live(page)
    boards.send("DELETE", f"/v1/boards/{board}")
    expect(page.get_by_role("alert")).to_contain_text(f'there is no board "{board}"')
    page.get_by_role("link", name="All boards").click()
    expect(page.locator("h1")).to_have_text("Boards")


def test_the_documentation_lists_all_endpoints_and_codes(boards: Boards, open_page: Open) -> None:
    described = boards.send("GET", "/openapi.json")
    endpoints = {
        f"{method.upper()} {path}" for path, row in described["paths"].items() for method in row
    }
    watched = open_page(f"{boards.url}/docs#unknown_board")
    page = watched.page
    expect(page.locator("tr#unknown_board")).to_be_in_viewport()
    expect(page.locator("tr#unknown_board")).to_have_css("background-color", "rgb(251, 238, 201)")
    articles = page.locator("article[id^=op-]")
    expect(articles).to_have_count(len(endpoints))
    titles = articles.evaluate_all(
        "(all) => all.map((a) => [...a.querySelectorAll('h3:first-child > :nth-child(-n+2)')]"
        ".map((part) => part.textContent).join(' '))"
    )
    assert set(titles) == endpoints
    codes = page.locator("#part-error-codes tbody tr").evaluate_all("(all) => all.map((r) => r.id)")
    assert codes == [row["code"] for row in described["x-errors"]]
    lines = page.locator(".curl pre").all_inner_texts()
    assert len(lines) == len(endpoints)
    assert f"curl '{boards.url}/v1/boards'" in lines
    links = page.locator("main a, #contents a").evaluate_all(
        "(all) => all.map((a) => a.getAttribute('href').slice(1))"
        ".filter((id) => document.getElementById(id) === null)"
    )
    assert links == []
    watched.ensure_clean()
