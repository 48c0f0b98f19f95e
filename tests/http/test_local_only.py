"""An open server answers only requests from this machine. The headers of a request show whether it
came through a proxy, from a page of another origin, or to a rebound name. Such requests are
refused."""

from __future__ import annotations

import pytest

from laurels.errors.service import NotLocal
from laurels.server.auth.local_only import FORWARDING, ensure_local


class Sent:
    """A request of which only the headers are read."""

    def __init__(self, *headers: tuple[str, str]) -> None:
        self._headers = headers

    def keys(self) -> list[str]:
        return [name for name, _ in self._headers]

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._headers if value.isascii()]


def check(*headers: tuple[str, str], host: str = "localhost:8080", version: str = "1.1") -> None:
    ensure_local(version, None, Sent(("host", host), *headers))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LocalHost:8080",
        "localhost.:8080",
        "127.0.0.1:8080",
        "127.255.0.9",
        "[::1]:8080",
        "[::1]",
    ],
)
def test_a_host_of_this_machine_is_answered(host: str) -> None:
    check(host=host)
    check(("origin", f"http://{host}"), host=host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "evil.localhost.example:8080",
        "127.0.0.1.evil.example",
        "127.0.0.1.:8080",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.256",
        "0.0.0.0:8080",
        "[::]:8080",
        "[::ffff:127.0.0.1]",
        "::1",
        "[::1%25lo]",
        "localhost:8080@evil.example",
        "user@localhost",
        "localhost..",
        "localhost:",
        "localhost:8080:80",
        "localhost, evil.example",
        "",
        " ",
        "192.168.0.7:8080",
        "ⓛocalhost",
        "127.0.0.1\n",
        "localhost:\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_any_other_host_is_refused(host: str) -> None:
    with pytest.raises(NotLocal):
        check(host=host)


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    with pytest.raises(NotLocal):
        ensure_local("1.1", None, Sent())
    with pytest.raises(NotLocal):
        check(("host", "evil.example"))
    ensure_local("2", "localhost:8080", Sent())


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "https://localhost:8080",
        "http://127.0.0.1:8080",  # for a browser, `127.0.0.1` and `localhost` are different origins
        "http://localhost:8080.evil.example",
        "file://",
        "chrome-extension://abc",
        "",
    ],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    with pytest.raises(NotLocal):
        check(("origin", origin))


@pytest.mark.parametrize("name", sorted(FORWARDING))
def test_any_header_of_a_proxy_is_refused(name: str) -> None:
    for value in ("127.0.0.1", ""):
        with pytest.raises(NotLocal, match=name):
            check((name, value))


def test_http_1_0_is_refused_since_proxies_send_it() -> None:
    with pytest.raises(NotLocal):
        check(version="1.0")


def test_requests_embedded_in_a_foreign_page_are_refused_but_links_work() -> None:
    for site in ("cross-site", "same-site"):
        for mode, dest in (("no-cors", "image"), ("no-cors", "empty"), ("navigate", "iframe")):
            with pytest.raises(NotLocal):
                check(("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest))
        check(
            ("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")
        )
    for site in ("same-origin", "none"):
        check(("sec-fetch-site", site), ("sec-fetch-mode", "cors"))


@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site", *sorted(FORWARDING)])
def test_an_undecodable_proxy_header_is_still_refused(name: str) -> None:
    with pytest.raises(NotLocal):
        ensure_local("1.1", "localhost", Sent((name, "\xff")))
