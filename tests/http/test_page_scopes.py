"""The page shows the scopes of a board, and its address contains the chosen scope."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.http.browser import WITHIN_MS, Boards, Open, is_live, order
from tests.serving import Served

expect.set_options(timeout=WITHIN_MS)

SCOPES = [[], ["room"], ["zone", "gender"]]
ODD = "<b>&=%"


@pytest.fixture(scope="module")
def boards() -> Iterator[Boards]:
    with Served("memory:") as served:
        yield Boards(served.url)


def party(boards: Boards, **definition: object) -> str:
    """Create a board with rooms. ann and bob are in room 42, and cid is in a room whose name has
    special characters."""
    board = boards.made(
        [], **({"scopes": SCOPES, "rank_by": "room", "title": "Party"} | definition)
    )
    count(boards, board, "ann", 5, room="42", zone="cn", gender="f")
    count(boards, board, "bob", 7, room="42", zone="fr", gender="m")
    count(boards, board, "cid", 3, room=ODD)
    return board


def count(boards: Boards, board: str, member: str, value: int, **labels: str) -> Any:
    event = {"member": member, "value": value, "labels": labels}
    return boards.send("POST", f"/v1/boards/{board}/scores", event)


def test_a_scope_is_chosen_and_followed_live(boards: Boards, open_page: Open) -> None:
    board = party(boards)
    watched = open_page(boards.address(board))
    page = watched.page
    order(page).to_have_text(["bob", "ann", "cid"])
    page.locator("[data-focus=scope]").select_option("room")
    expect(page.locator(".scopes li")).to_have_text(["42", ODD])
    page.locator("[data-focus='scope room']").fill("42")
    page.get_by_role("button", name="Show", exact=True).click()
    order(page).to_have_text(["bob", "ann"])
    is_live(page)
    expect(page).to_have_url(boards.address(board, window="all", labels="room=42"))
    expect(page.locator("#total")).to_have_text("2")
    count(boards, board, "cid", 50, room=ODD)
    count(boards, board, "ann", 5, room="42")
    order(page).to_have_text(["ann", "bob"])
    page.reload()
    order(page).to_have_text(["ann", "bob"])
    expect(page.locator("[data-focus='scope room']")).to_have_value("42")
    watched.ensure_clean()


def test_ranked_rooms_link_to_their_own_rankings(boards: Boards, open_page: Open) -> None:
    board = party(boards)
    watched = open_page(boards.address(board))
    page = watched.page
    page.locator("[data-focus=scope]").select_option("By room")
    order(page).to_have_text(["42", ODD])
    expect(page.locator("thead th").nth(1)).to_have_text("room")
    is_live(page)
    count(boards, board, "dan", 100, room=ODD)
    order(page).to_have_text([ODD, "42"])
    page.get_by_role("link", name=ODD).click()
    order(page).to_have_text(["dan", "cid"])
    expect(page).to_have_title(f"Party, room {ODD} · laurels")
    watched.ensure_clean()


def test_windows_members_and_cards_stay_in_the_scope(boards: Boards, open_page: Open) -> None:
    board = party(boards, windows=["all", "day"])
    watched = open_page(boards.address(board, labels="room=42"))
    page = watched.page
    order(page).to_have_text(["bob", "ann"])
    page.get_by_role("link", name="Day").click()
    expect(page).to_have_url(boards.address(board, window="day", labels="room=42"))
    order(page).to_have_text(["bob", "ann"])
    page.get_by_role("link", name="ann").click()
    expect(page.locator(".standing .place").first).to_have_text("#2of 2")
    order(page).to_have_text(["bob", "ann"])
    is_live(page)
    count(boards, board, "ann", 100, zone="fr", gender="f")
    count(boards, board, "ann", 1, room="42")
    expect(page.locator(".standing .score").first).to_have_text("6")
    page.get_by_role("link", name="Party, room 42").click()
    order(page).to_have_text(["bob", "ann"])
    watched.ensure_clean()


def test_several_labels_are_chosen_together(boards: Boards, open_page: Open) -> None:
    board = party(boards)
    watched = open_page(boards.address(board))
    page = watched.page
    page.locator("[data-focus=scope]").select_option("gender, zone")
    expect(page.locator(".scopes li")).to_have_text(["f, cn", "m, fr"])
    page.get_by_role("link", name="m, fr").click()
    order(page).to_have_text(["bob"])
    page.locator("[data-focus='scope gender']").fill("f")
    page.locator("[data-focus='scope zone']").fill("cn")
    page.keyboard.press("Enter")
    order(page).to_have_text(["ann"])
    expect(page).to_have_url(boards.address(board, window="all", labels="gender=f,zone=cn"))
    watched.ensure_clean()


def test_values_are_suggested_as_they_are_typed(boards: Boards, open_page: Open) -> None:
    board = party(boards)
    for room in range(60):
        count(boards, board, "dan", 1, room=f"{700 + room}")
    watched = open_page(boards.address(board, labels="room=42"))
    page = watched.page
    order(page).to_have_text(["bob", "ann"])
    page.locator("[data-focus='scope room']").fill("75")
    options = page.locator("#values-room option")
    expect(options).to_have_count(11)
    values = options.evaluate_all("(all) => all.map((each) => each.value)")
    assert values == ["75", *(str(room) for room in range(750, 760))]
    watched.ensure_clean()


def test_a_score_is_submitted_with_its_labels(boards: Boards, open_page: Open) -> None:
    board = party(boards)
    watched = open_page(boards.address(board, labels="room=42"))
    page = watched.page
    is_live(page)
    expect(page.get_by_label("Label room")).to_have_value("42")
    page.get_by_label("Member", exact=True).fill("zoe")
    page.get_by_label("Value").fill("6")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator(".result dd")).to_have_text(["#2", "6"])
    order(page).to_have_text(["bob", "zoe", "ann"])
    watched.ensure_clean()


def test_a_board_without_a_ranking_of_all_events_asks_for_a_scope(
    boards: Boards, open_page: Open
) -> None:
    board = party(boards, scopes=[["room"], ["zone", "gender"]], rank_by=[], title="Rooms only")
    watched = open_page(boards.url)
    page = watched.page
    card = page.locator(".card", has_text="Rooms only")
    expect(card.locator("dd")).to_have_text("room")
    page.get_by_role("link", name="Rooms only").click()
    expect(page.locator(".scopes li")).to_have_text(["42", ODD])
    page.get_by_role("link", name=ODD).click()
    order(page).to_have_text(["cid"])
    page.goto(boards.address(board, member="ann"))
    expect(page.locator(".scopes li")).to_have_text(["42", ODD])
    watched.ensure_clean()


def test_a_board_without_scopes_shows_no_choice(boards: Boards, open_page: Open) -> None:
    watched = open_page(boards.address(boards.made([("ann", 1)])))
    order(watched.page).to_have_text(["ann"])
    expect(watched.page.locator("[data-focus=scope]")).to_have_count(0)
    expect(watched.page.get_by_label("Label")).to_have_count(0)
    watched.ensure_clean()


def test_a_label_may_have_the_name_of_an_address_parameter(boards: Boards, open_page: Open) -> None:
    board = boards.made([], scopes=[[], ["window"], ["constructor"]])
    count(boards, board, "ann", 5, window="day,=%", constructor="x")
    count(boards, board, "bob", 7)
    watched = open_page(boards.address(board))
    page = watched.page
    order(page).to_have_text(["bob", "ann"])
    page.locator("[data-focus=scope]").select_option("constructor")
    expect(page.locator(".scopes li")).to_have_text(["x"])
    page.locator("[data-focus=scope]").select_option("window")
    page.get_by_role("link", name="day,=%").click()
    order(page).to_have_text(["ann"])
    expect(page).to_have_url(boards.address(board, window="all", labels="window=day%2C%3D%25"))
    watched.ensure_clean()
