"""Fixtures: one browser for all tests of a module, and new pages for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.http.browser import KEYS, Contexts, Open, Watched, launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def open_page(contexts: Contexts) -> Iterator[Open]:
    """Return a function that opens an address in a new tab."""
    opened: list[Watched] = []

    def open_(address: str, **options: Any) -> Watched:
        watched = Watched(contexts.with_options(**options))
        opened.append(watched)
        server = address.partition("/#")[0].rstrip("/")
        if server in KEYS:
            watched.page.goto(f"{server}/#key={KEYS[server]}")
        watched.page.goto(address)
        return watched

    yield open_
    for watched in opened:
        watched.close()
