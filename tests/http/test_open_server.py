"""Attacks on a server without keys: from a page of another origin in a real browser, through a
rebound name, and through a reverse proxy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.http.browser import need_chromium
from tests.serving import JSON, Served

EVENT = {"member": "mallory", "value": 1}
ATTACK = """
async (target) => {
  const event = JSON.stringify({ member: "mallory", value: 1 });
  const scores = target + "/v1/boards/gifts/scores";
  const results = {};
  const attempt = async (name, method, headers, body, mode) => {
    try {
      const answer = await fetch(scores, { method, headers, body, mode });
      results[name] = answer.status;
    } catch (error) {
      results[name] = "blocked";
    }
  };
  await attempt("json", "POST", { "Content-Type": "application/json" }, event);
  await attempt("plain", "POST", { "Content-Type": "text/plain" }, event);
  await attempt("opaque", "POST", {}, event, "no-cors");
  await attempt("delete", "DELETE", { "Content-Type": "application/json" });
  navigator.sendBeacon(scores, new Blob([event], { type: "text/plain" }));
  navigator.sendBeacon(scores, event);
  try {
    results.read = (await fetch(target + "/v1/boards")).status;
  } catch (error) {
    results.read = "blocked";
  }
  const image = new Image();
  image.src = target + "/v1/boards/gifts/live?interval=20";
  await new Promise((done) => { image.onerror = done; image.onload = done; });
  const form = document.createElement("form");
  form.method = "post";
  form.enctype = "text/plain";
  form.action = scores;
  const field = document.createElement("input");
  field.name = '{"member": "mallory", "value": 1, "id": "';
  field.value = '"}';
  form.append(field);
  const frame = document.createElement("iframe");
  frame.name = "inner";
  document.body.append(frame, form);
  form.target = "inner";
  const loaded = new Promise((done) => { frame.onload = done; });
  form.submit();
  await loaded;
  return results;
}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served("memory:") as served:
        httpx.put(f"{served.url}/v1/boards/gifts", json={}).raise_for_status()
        yield served


@pytest.fixture(scope="module")
def foreign() -> Iterator[str]:
    """The address of a page of another origin, which is another port of this machine."""

    class Blank(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title><body>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Blank) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.fixture(scope="module")
def rebound() -> Iterator[Browser]:
    """A browser in which an attacker's host name resolves to this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=need_chromium(),
            args=["--no-sandbox", "--host-resolver-rules=MAP evil.example 127.0.0.1"],
        )
        yield browser
        browser.close()


def nothing_counted(server: Served) -> bool:
    answer = httpx.get(f"{server.url}/v1/boards/gifts/top").raise_for_status().json()
    return bool(answer["total"] == 0)


def attacked(page: Page, target: str) -> dict[str, object]:
    results: dict[str, object] = page.evaluate(ATTACK, target)
    return results


def test_a_page_of_another_origin_changes_and_reads_nothing(
    server: Served, foreign: str, rebound: Browser
) -> None:
    page = rebound.new_page()
    page.goto(foreign)
    results = attacked(page, server.url)
    assert results.pop("opaque") in (0, "blocked")
    assert set(results.values()) == {"blocked"}
    assert nothing_counted(server)
    page.close()


def test_a_name_rebound_to_this_machine_reaches_nothing(server: Served, rebound: Browser) -> None:
    page = rebound.new_page()
    evil = f"http://evil.example:{urlsplit(server.url).port}"
    answer = page.goto(f"{evil}/")
    assert answer is not None
    assert answer.status == 403
    results = attacked(page, evil)
    assert results.pop("opaque") in (0, 403, "blocked")
    assert set(results.values()) <= {403, "blocked"}
    assert results["json"] == 403
    assert nothing_counted(server)
    page.close()


def test_the_page_of_the_server_works(server: Served, rebound: Browser) -> None:
    page = rebound.new_page()
    page.goto(f"{server.url}/#/boards/gifts")
    status = page.evaluate(
        """async () => (await fetch("/v1/boards/gifts/set", {
             method: "POST", headers: { "Content-Type": "application/json" },
             body: JSON.stringify({ member: "alice", value: 0 }) })).status"""
    )
    assert status == 200
    httpx.post(f"{server.url}/v1/boards/gifts/remove", json={"member": "alice"})
    page.close()


@pytest.mark.parametrize("adds", [{"X-Forwarded-For": "203.0.113.9"}, {"Via": "1.1 proxy"}, {}])
def test_a_reverse_proxy_passes_nothing_on(server: Served, adds: dict[str, str]) -> None:
    """If a proxy adds a header, the server recognizes it by this header and refuses its requests.
    It also refuses the requests of a plain proxy, because they have the client's Host header."""
    upstream = urlsplit(server.url)

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            host = upstream.netloc if adds else self.headers["Host"]
            sent = {**dict(self.headers), **adds, "Host": host}
            connection = HTTPConnection(upstream.hostname or "", upstream.port or 0, timeout=60)
            connection.request(self.command, self.path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Proxy) as proxy:
        public = {"Host": "boards.example.org"}
        posted = httpx.post(
            f"{proxy}/v1/boards/gifts/scores", json=EVENT, headers={**JSON, **public}
        )
        read = httpx.get(f"{proxy}/v1/boards", headers=public)
    for answer in (posted, read):
        assert (answer.status_code, answer.json()["code"]) == (403, "not_local")
    assert nothing_counted(server)
