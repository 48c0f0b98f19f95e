"""A server that has no key creates one and prints it once. The link and the curl lines that it
prints work."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.http.browser import Open
from tests.http.process import Process
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, Served


def link_of(server: Process) -> str:
    """Return the link that a running server prints."""
    for line in server.lines():
        if "/#key=" in line:
            return line.strip()
    raise AssertionError("the server printed no link")


def test_the_first_key_is_printed_once_and_works(tmp_path: Path) -> None:
    with Process(tmp_path, keys=True) as server:
        link = link_of(server)
        key = link.partition("#key=")[2]
        assert key.startswith("lk_")
        assert httpx.get(f"{server.url}/v1/boards").status_code == 401
        for line in server.lines(2):
            assert f"-H 'Authorization: Bearer {key}'" in line
            ran = subprocess.run(
                ["bash", "-c", f"{line.strip()} --silent --show-error --fail"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            assert "gifts" in ran.stdout
        server.end()
    with Process(tmp_path, keys=True) as again:
        bearer = {"Authorization": f"Bearer {key}"}
        assert httpx.get(f"{again.url}/v1/boards", headers=bearer).status_code == 200
        _, output = again.end()
        assert "lk_" not in output


def test_the_link_opens_the_page_and_leaves_the_address_bar(
    tmp_path: Path, open_page: Open
) -> None:
    with Process(tmp_path, keys=True) as server:
        link = link_of(server)
        watched = open_page(link)
        page = watched.page
        expect(page.locator("h1")).not_to_have_text("This server asks for a key")
        expect(page.locator("#forget")).to_be_visible()
        page.wait_for_url(f"{server.url}/#/")
        assert "lk_" not in page.evaluate("location.href + history.state + document.referrer")
        page.reload()
        expect(page.locator("#forget")).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        assert page.evaluate("document.cookie") == ""
        watched.ensure_clean()


def test_no_first_key_is_made_if_there_is_an_admin_key(tmp_path: Path) -> None:
    with Process(tmp_path, LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        bearer = {"Authorization": f"Bearer {ADMIN_KEY}"}
        assert httpx.get(f"{server.url}/v1/keys", headers=bearer).json() == []
        _, output = server.end()
        assert "lk_" not in output


def test_workers_over_an_index_server_make_one_key() -> None:
    with Server() as redis, Process(redis.url, "--workers", "2", LAURELS_ADMIN_KEY="") as server:
        key = link_of(server).partition("#key=")[2]
        bearer = {"Authorization": f"Bearer {key}"}
        for _ in range(8):  # enough requests to reach both workers
            answer = httpx.get(f"{server.url}/v1/keys", headers=bearer)
            assert [made["name"] for made in answer.json()] == ["admin"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--host", "0.0.0.0"), "not_loopback"),
        (("--host", "::"), "not_loopback"),
        (("--cors-origins", "https://example.org"), "invalid_settings"),
        (("--trusted-proxy", "10.0.0.0/8"), "invalid_settings"),
    ],
)
def test_an_open_server_beyond_this_machine_is_refused(
    tmp_path: Path, options: tuple[str, ...], code: str
) -> None:
    ended, output = Process(tmp_path, *options).wait()
    assert ended == 2
    assert f"[{code}]" in output


def test_an_open_server_over_an_index_server_is_refused() -> None:
    ended, output = Process("redis://127.0.0.1:1", "--open", LAURELS_ADMIN_KEY="").wait()
    assert ended == 2
    assert "index server" in output


def test_a_store_that_needs_keys_is_not_served_open(tmp_path: Path) -> None:
    with Served(tmp_path, open=False) as served:
        assert served.first_key is not None
    ended, output = Process(tmp_path).wait()
    assert ended == 2
    assert "[keys_needed]" in output
    assert "laurels key create" in output
