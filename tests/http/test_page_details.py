"""Details of the page: numbers, time zones, the search for members, permissions of keys, long
lists."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

import laurels
from tests.http.browser import Boards, Contexts, Open, Watched, is_live, order
from tests.serving import JSON, Served

NOON_MS = 1_795_176_000_000  # 2026-11-20 12:00 UTC
ADMIN_KEY = "lk_" + "a" * 43
LONG = "a member with a very long name that takes more than one line " * 2
LIVE_MOST = 1_000


@pytest.fixture(scope="module")
def boards() -> Iterator[Boards]:
    with Served("memory:", laurels.ManualClock(NOON_MS)) as served:
        yield Boards(served.url)


def test_scores_are_shown_digit_for_digit(boards: Boards, open_page: Open) -> None:
    columns = [{"name": "points", "scale": 2}, {"name": "share", "scale": 9, "order": "asc"}]
    scores: list[tuple[str, object]] = [
        ("alice", ["12345678901234.50", "0.000000100"]),
        ("bob", ["0.10", "9007199.254740991"]),
    ]
    board = boards.made(scores, columns=columns)
    page = open_page(boards.address(board)).page
    expect(page.locator("thead th")).to_have_text(["Rank", "Member", "points", "share"])
    expect(page.locator(".list tbody td.figure")).to_have_text(
        ["12,345,678,901,234.50", "0.000000100", "0.10", "9,007,199.254740991"]
    )


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("""m.read('{"a":12.30,"b":["-1e3",1E-7,true,null]}')""", None),
        ("m.plain('1E-7')", "0.0000001"),
        ("m.plain('-12.5E+3')", "-12500"),
        ("m.plain('0E-15')", "0." + "0" * 15),
        ("m.plain('1.25e1')", "12.5"),
        ("m.grouped('-1234567.1234')", "-1,234,567.1234"),
        ("m.grouped('999')", "999"),
        ("m.isZero(['0.00', '0E-7'])", True),
        ("m.isZero('0.01')", False),
        ("m.gapText(['0.00', '-1500'], [{name: 'points'}, {name: 'ms'}])", "-1,500 ms"),
        ("m.gapText('1000', [{name: 'score'}])", "1,000"),
        (
            "m.estimateText('1198000', '1210000')",
            "about 1,204,000; between 1,198,000 and 1,210,000",
        ),
        ("m.estimateText('7', '7') === null", True),
        ("m.rankText({low: '3', high: '6'})", "about 4; between 3 and 6"),
        ("m.rankText('1234')", "#1,234"),
        ("m.topPercent('0.0002')", "Top 0.01 %"),
        ("m.topPercent('7.000000000000001')", "Top 7 %"),
        ("m.topPercent('66.66666666666667')", "Top 67 %"),
        ("m.topPercent('100.0')", "Top 100 %"),
    ],
)
def test_numbers_are_read_as_text(reader: Page, question: str, answer: str | bool | None) -> None:
    result = reader.evaluate(f"import('/static/exact.js').then((m) => {question})")
    if answer is None:
        assert result == {"a": "12.30", "b": ["-1e3", "1E-7", True, None]}
    else:
        assert result == answer


@pytest.fixture(scope="module")
def reader(contexts: Contexts, boards: Boards) -> Iterator[Page]:
    watched = Watched(contexts.with_options())
    watched.page.goto(boards.url)
    yield watched.page
    watched.close()


@pytest.mark.parametrize("width", [360, 1280])
def test_a_count_stays_on_one_line_beside_a_long_name(
    boards: Boards, open_page: Open, width: int
) -> None:
    scores: list[tuple[str, object]] = [
        (LONG, 9_007_199_254_740_991),
        *[(f"m{i}", i) for i in range(1_233)],
    ]
    boards.made(scores, title=f"Counted at {width}")
    page = open_page(boards.url, viewport={"width": width, "height": 740}).page
    card = page.locator(".card", has_text=f"Counted at {width}")
    count = card.locator("dd").first
    expect(count).to_have_text("1,234")
    box, line = (
        count.bounding_box(),
        count.evaluate("(n) => parseFloat(getComputedStyle(n).lineHeight)"),
    )
    assert box is not None
    assert box["height"] < 1.5 * line
    assert count.evaluate("(n) => n.scrollWidth <= n.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("window", "zone", "ends"),
    [
        ("day", "UTC", "Sat 21 Nov, 00:00 UTC"),
        ("day", "Asia/Shanghai", "Sat 21 Nov, 00:00 GMT+8"),
        ("today=day:tz=America/New_York", "UTC", "Sat 21 Nov, 00:00 GMT-5"),
        ("day:keep=9,tz=Asia/Kolkata", "UTC", "Sat 21 Nov, 00:00 GMT+5:30"),
    ],
)
def test_the_end_of_a_period_has_the_zone_of_its_window(
    boards: Boards, open_page: Open, window: str, zone: str, ends: str
) -> None:
    board = boards.made([("alice", 1)], windows=[window], tz=zone)
    page = open_page(boards.address(board), timezone_id="Europe/Berlin").page
    end = page.locator(".figures dd").last
    expect(end).to_have_text(ends)
    if zone == "Asia/Shanghai":
        here = "Fri 20 Nov, 17:00 CET by the clock of this browser"
        expect(end).to_have_attribute("title", here)


@pytest.mark.parametrize("text", ["bob", "  bob ", "\tbob"])
def test_a_search_ignores_spaces_around_the_text(
    boards: Boards, open_page: Open, text: str
) -> None:
    board = boards.made([("alice", 120), ("bob", 80)])
    page = open_page(boards.address(board)).page
    page.get_by_label("Find a member").fill(text)
    page.get_by_role("button", name="Find").click()
    expect(page.locator("h1")).to_have_text("bob")
    is_live(page)


def test_an_id_with_spaces_is_found_as_it_is(boards: Boards, open_page: Open) -> None:
    board = boards.made([(" bob", 120), ("bob", 80)])
    page = open_page(boards.address(board)).page
    page.get_by_label("Find a member").fill(" bob")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".place")).to_have_text("#1of 2")


def test_a_member_of_another_window_is_found(boards: Boards, open_page: Open) -> None:
    board = boards.made([], windows=["day", "all"], grace="3d", dedupe="3d")
    boards.score(board, ("bob", 5, NOON_MS - 86_400_000))
    page = open_page(boards.address(board)).page
    page.get_by_label("Find a member").fill("bob")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("h1")).to_have_text("bob")


def test_an_unknown_member_is_reported_before_the_page_changes(
    boards: Boards, open_page: Open
) -> None:
    board = boards.made([("Alice", 120), ("alice cooper", 90), ("bob", 80)])
    watched = open_page(boards.address(board))
    page = watched.page
    order(page).to_have_text(["Alice", "alice cooper", "bob"])
    page.get_by_label("Find a member").fill("ALICE")
    page.get_by_role("button", name="Find").click()
    notice = page.locator(".find .notice")
    expect(notice).to_contain_text("ALICE is in no ranking of this board.")
    expect(notice.get_by_role("link")).to_have_text(["Alice", "alice cooper"])
    expect(page).to_have_url(boards.address(board))
    page.get_by_label("Find a member").fill("zoe")
    page.get_by_role("button", name="Find").click()
    expect(notice).to_contain_text("zoe is in no ranking")
    expect(notice.get_by_role("link")).to_have_count(0)
    page.get_by_label("Find a member").fill("ALICE")
    page.get_by_role("button", name="Find").click()
    notice.get_by_role("link", name="alice cooper").click()
    expect(page.locator("h1")).to_have_text("alice cooper")


def test_an_unknown_member_does_not_look_live_until_it_scores(
    boards: Boards, open_page: Open
) -> None:
    board = boards.made([("alice", 120)])
    page = open_page(boards.address(board, member="zoe")).page
    expect(page.locator(".pill")).to_have_text("Not ranked")
    expect(page.locator(".pill")).to_have_attribute("data-state", "absent")
    expect(page.locator("h1")).to_have_class("muted")
    boards.score(board, ("zoe", 130))
    is_live(page)
    expect(page.locator(".place")).to_have_text("#1of 2")
    expect(page.locator("h1")).not_to_have_class("muted")


@pytest.fixture(scope="module")
def kept() -> Iterator[Served]:
    with Served("memory:", admin_key=ADMIN_KEY) as served:
        yield served


@pytest.fixture(scope="module")
def own(kept: Served) -> Boards:
    """The boards of the server with keys. Each test creates boards with other names."""
    return Boards(kept.url, ADMIN_KEY, signs_in=False)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", **JSON}


def key_of(served: Served, name: str, scope: str, boards: list[str]) -> str:
    fields = {"name": name, "scope": scope, "boards": boards}
    answer = httpx.post(f"{served.url}/v1/keys", json=fields, headers=bearer(ADMIN_KEY))
    key: str = answer.raise_for_status().json()["key"]
    return key


@pytest.mark.parametrize(("scope", "count"), [("read", 0), ("write", 1), ("admin", 1)])
def test_the_form_is_shown_only_with_permission_to_submit(
    kept: Served, own: Boards, open_page: Open, scope: str, count: int
) -> None:
    board = own.made([("alice", 120)])
    key = key_of(kept, f"form-{scope}", scope, [board])
    page = open_page(own.address(board)).page
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Continue").click()
    is_live(page)
    order(page).to_have_text(["alice"])
    expect(page.locator("form[aria-labelledby=submit-title]")).to_have_count(count)


def test_me_reports_the_permissions_of_the_caller(kept: Served) -> None:
    def me(key: str) -> object:
        return httpx.get(f"{kept.url}/v1/me", headers=bearer(key)).json()

    reader = key_of(kept, "reader", "read", ["gifts", "room-*"])
    assert me(reader) == {
        "name": "reader",
        "scope": "read",
        "boards": ["gifts", "room-*"],
        "member": None,
    }
    admin = me(ADMIN_KEY)
    assert isinstance(admin, dict)
    assert (admin["scope"], admin["boards"]) == ("admin", None)
    answer = httpx.post(f"{kept.url}/v1/tokens", json={"boards": ["gifts"]}, headers=bearer(reader))
    token = me(answer.json()["token"])
    assert isinstance(token, dict)
    assert (token["scope"], token["boards"]) == ("read", ["gifts"])
    writer = key_of(kept, "writer", "write", ["gifts"])
    fields = {"boards": ["gifts"], "member": "alice"}
    answer = httpx.post(f"{kept.url}/v1/tokens", json=fields, headers=bearer(writer))
    token = me(answer.json()["token"])
    assert isinstance(token, dict)
    assert (token["scope"], token["boards"], token["member"]) == ("write", ["gifts"], "alice")
    assert httpx.get(f"{kept.url}/v1/me").status_code == 401


def test_a_list_continues_after_its_live_part(boards: Boards, open_page: Open) -> None:
    count = 2 * LIVE_MOST + 37
    board = boards.made([])
    for first in range(0, count, LIVE_MOST):
        members = range(first, min(first + LIVE_MOST, count))
        boards.score(board, *[(f"m{i:05}", 100_000 - i) for i in members])
    watched = open_page(boards.address(board))
    page = watched.page
    is_live(page)
    more = page.get_by_role("button", name="Show more")
    rows = page.locator(".list tbody tr")
    for length in (50, 100, 200, 500, LIVE_MOST, 1_500, 2_000, count):
        more.click()
        expect(rows).to_have_count(length)
    expect(more).to_be_hidden()
    expect(page.locator(".further .muted")).to_contain_text("are not updated. They were read at")
    expect(rows.last).to_contain_text("2,037")
    expect(rows.last.locator("a")).to_have_text(f"m{count - 1:05}")
    listed = rows.locator(".who a").all_text_contents()
    assert listed == [f"m{i:05}" for i in range(count)]
    boards.score(board, ("m00001", 5))
    expect(rows.first.locator("a")).to_have_text("m00001")
    expect(more).to_be_hidden()
    watched.ensure_clean()


def submission_token(kept: Served, board: str, **fields: object) -> str:
    body = {"boards": [board], "member": "a\nb\r\nc", **fields}
    answer = httpx.post(f"{kept.url}/v1/tokens", json=body, headers=bearer(ADMIN_KEY))
    token: str = answer.raise_for_status().json()["token"]
    return token


def test_a_token_of_one_member_submits_on_the_page(
    kept: Served, own: Boards, open_page: Open
) -> None:
    """The id of the member has line breaks, which an input element of HTML would remove."""
    board = own.made([("alice", 120), ("abc", 7)])
    watched = open_page(f"{kept.url}/#key={submission_token(kept, board)}")
    page = watched.page
    expect(page.locator("h1")).to_contain_text("Submit for")
    page.get_by_role("link", name=board).click()
    expect(page.get_by_text("the list is not shown")).to_be_visible()
    page.get_by_label("Value").fill("200")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".notice.good")).to_contain_text("Rank#1")
    expect(page.locator(".notice.good")).to_contain_text("Score200")
    listed = httpx.get(f"{kept.url}/v1/boards/{board}/top", headers=bearer(ADMIN_KEY)).json()
    assert [each["member"] for each in listed["entries"]] == ["a\nb\r\nc", "alice", "abc"]
    page.goto(own.address(board, member="alice"))
    expect(page.get_by_label("Value")).to_be_visible()


def test_the_page_shows_what_a_token_of_one_member_may_not(
    kept: Served, own: Boards, open_page: Open
) -> None:
    columns = [{"name": "level"}, {"name": "wins"}]
    board = own.made([], columns=columns, title="x")
    token = submission_token(kept, board, max=10)
    page = open_page(f"{kept.url}/#key={token}").page
    page.goto(own.address(board))
    page.get_by_label("Value").fill("3, 11")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".notice.bad")).to_contain_text("permits values from")
    page.get_by_label("Value").fill("3, 10")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".notice.good")).to_contain_text("Score3, 10")


def test_a_label_with_line_breaks_is_submitted_as_it_is(
    kept: Served, own: Boards, open_page: Open
) -> None:
    board = own.made([], scopes=[[], ["room"]])
    page = open_page(f"{kept.url}/#key={ADMIN_KEY}").page
    page.goto(own.address(board, labels="room=a%0Ab"))
    expect(page.get_by_label("Label room")).to_have_value("ab")
    page.get_by_label("Member", exact=True).fill("alice")
    page.get_by_label("Value").fill("5")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".notice.good")).to_contain_text("Counted: alice")
    listed = httpx.get(
        f"{kept.url}/v1/boards/{board}/scopes?labels=room", headers=bearer(ADMIN_KEY)
    )
    assert listed.json()["scopes"] == [{"room": "a\nb"}]
