"""The page of a board with a head: the list ends with the head, and estimated ranks look like
estimates."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.contract.coarse import coarse
from tests.http.browser import Boards, Open
from tests.serving import Served


@pytest.fixture(scope="module")
def boards() -> Iterator[Boards]:
    with coarse(120), Served("memory:") as served:
        yield Boards(served.url)


@pytest.fixture(scope="module")
def crowd(boards: Boards) -> str:
    """A board of 300 members with 1 to 300 points. The page lists the first 100 members."""
    scores: list[tuple[str, object]] = [(f"m{i:03}", i) for i in range(1, 301)]
    return boards.made(scores, windows=["all"], head=100, tie="member")


def test_the_list_ends_with_the_head(boards: Boards, open_page: Open, crowd: str) -> None:
    watched = open_page(boards.address(crowd))
    page = watched.page
    expect(page.locator("#total")).to_have_text("300")
    expect(page.locator(".figures")).to_contain_text("ListedFirst 100")
    more = page.get_by_role("button", name="Show more")
    for length in (50, 100):
        more.click()
        expect(page.locator("tbody tr")).to_have_count(length)
    expect(more).to_be_hidden()
    watched.ensure_clean()


def test_an_estimate_is_shown_with_the_value_needed_for_the_list(
    boards: Boards, open_page: Open, crowd: str
) -> None:
    watched = open_page(boards.address(crowd, member="m007"))
    page = watched.page
    card = page.locator(".standing").first
    expect(card.locator(".place")).to_have_text(
        re.compile(r"^(about \d+; between \d+ and \d+|#294)of 300$")
    )
    expect(card.locator(".gaps li")).to_have_text(["+194 for rank 100"])
    expect(page.locator("section.list")).to_be_hidden()
    watched.ensure_clean()
