"""A browser for tests. Its pages record every error."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.redis.programs import skip_or_fail

WITHIN_MS = 60_000
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
"""Without a GPU, the browser would start a software renderer for 3D graphics, which the pages do
not have."""
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
    path = shutil.which("chromium")
    if path is None:
        skip_or_fail(f"chromium is not installed: {_INSTALL}")
    return path


@contextmanager
def launched() -> Iterator[Browser]:
    chromium = need_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        yield browser
        browser.close()


class Contexts:
    """The contexts of a browser. Tabs with the same options share a context, because a tab in a new
    context takes twice as long to open: each context has its own cache and processes. The first tab
    of a context starts the processes, so an empty tab stays open in each context."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._made: dict[str, BrowserContext] = {}

    def with_options(self, **options: Any) -> BrowserContext:
        chosen = json.dumps(options, sort_keys=True)
        if chosen not in self._made:
            made = self._made[chosen] = self._browser.new_context(**options)
            made.set_default_timeout(WITHIN_MS)
            made.add_init_script(_WATCH)
            made.new_page()
        return self._made[chosen]


class Watched:
    """A page in a tab of its own, and the errors that the page reported."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def ensure_clean(self, *, refusals: bool = False) -> None:
        """Assert that there was no error, warning, dialog or violation of the content policy. With
        `refusals`, the server may have refused requests: the browser reports each of them, even if
        the page expects it."""
        refused = "Failed to load resource: the server responded with a status of 4"
        assert [e for e in self.errors if not (refusals and e.startswith(refused))] == []
        assert self.page.evaluate("violations") == []

    def close(self) -> None:
        """Close the tab, and assert that the page stored no cookies and no local data."""
        kept = self.page.evaluate("[document.cookie, Object.keys(localStorage)]")
        self.page.close()
        assert kept == ["", []], "the page has stored cookies or local data"


Open = Callable[..., Watched]
KEYS: dict[str, str] = {}
"""The keys of servers, by the address of the server. The addresses of its pages contain the key."""


class Boards:
    """The boards of a server, on which each test creates its own.

    Pages are opened at `url`. Writes are sent to `writes_to`: the same address, or the address of
    another process of the same service. If `signs_in` is true, the address of a page contains the
    key. Otherwise the page asks for the key.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        writes_to: str | None = None,
        signs_in: bool = True,
    ) -> None:
        self.url = url
        self._writes_to = writes_to or url
        self._key = key
        if key is not None and signs_in:
            KEYS[url] = key
        self._numbers = count(1)

    def send(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._writes_to + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def made(self, scores: list[tuple[str, object]], **definition: object) -> str:
        """Create a board with these scores. Return its name."""
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
