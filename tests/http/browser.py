"""A browser, and pages that report whatever goes wrong in them."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

WITHIN_MS = 60_000
_INSTALL = "apt-get install -y chromium"

_WATCH = """
window.violations = [];
window.moves = 0;
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
const animate = Element.prototype.animate;
Element.prototype.animate = function (frames, options) {
  if (frames.some((frame) => "transform" in frame)) window.moves += 1;
  return animate.call(this, frames, options);
};
"""


def need_chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"chromium is missing: {_INSTALL}")
        pytest.skip(f"chromium is not installed: {_INSTALL}")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    chromium = need_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self._context = browser.new_context(**options)
        self._context.set_default_timeout(WITHIN_MS)
        self._context.add_init_script(_WATCH)
        self.page: Page = self._context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def ensure_clean(self) -> None:
        """No error, no warning, no dialog, nothing the policy refused."""
        assert self.errors == []
        assert self.page.evaluate("violations") == []

    def close(self) -> None:
        self._context.close()


Open = Callable[..., Watched]
KEYS: dict[str, str] = {}
"""The keys with which servers are looked at, by their addresses."""


class Boards:
    """The boards of a server, each test with its own.

    `url` is where they are looked at, `told` where what happens to them is sent: the same, or
    another process of the same service. Pages of them are opened with the key, unless they are to
    ask for it.
    """

    def __init__(
        self, url: str, key: str | None = None, *, told: str | None = None, signs_in: bool = True
    ) -> None:
        self.url = url
        self._told = told or url
        self._key = key
        if key is not None and signs_in:
            KEYS[url] = key
        self._numbers = count(1)

    def send(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._told + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def made(self, scores: list[tuple[str, object]], **definition: object) -> str:
        """A new board with these scores."""
        name = f"board-{next(self._numbers)}"
        self.send("PUT", f"/v1/boards/{name}", definition)
        self.score(name, *scores)
        return name

    def score(self, board: str, *scores: tuple[object, ...]) -> None:
        if scores:
            self.send("POST", f"/v1/boards/{board}/scores", scores)

    def address(self, board: str, **query: str) -> str:
        return f"{self.url}/#/boards/{board}" + (f"?{urlencode(query)}" if query else "")


def order(page: Page) -> Any:
    return expect(page.locator(".list tbody .who a"))


def is_live(page: Page) -> None:
    expect(page.locator(".pill")).to_have_text("Live")
