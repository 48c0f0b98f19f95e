"""A browser, and pages that report whatever goes wrong in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

WITHIN_MS = 8_000
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
