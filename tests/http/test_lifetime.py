"""The start and the end of a server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import laurels
from laurels.server.process.settings import table
from tests.http.process import Process
from tests.serving import ADMIN_KEY

started = partial(Process, forked=False)
"""Start a service as users do."""


def _stream(url: str) -> socket.socket:
    """Open a live feed, and read only the start of its answer."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    opened = socket.create_connection((parts.hostname, parts.port or 0), timeout=60)
    opened.sendall(b"GET /v1/boards/b/live?interval=20 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert opened.recv(12) == b"HTTP/1.1 200"
    return opened


def test_a_server_starts_and_stops_quickly_with_open_streams(tmp_path: Path) -> None:
    began = time.monotonic()
    with started(tmp_path / "boards") as server:
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert time.monotonic() - began < 10  # the shutdown takes two seconds on an idle machine
        httpx.put(f"{server.url}/v1/boards/b", json={}).raise_for_status()
        streams = [_stream(server.url) for _ in range(20)]
        answer = httpx.post(f"{server.url}/v1/boards/b/scores", json={"member": "a", "value": 5})
        assert answer.json()["rank"] == 1
        begun = time.monotonic()
        code, output = server.end()
        assert (code, "Traceback" in output) == (0, False)
        assert time.monotonic() - begun < 10  # the shutdown takes three seconds on an idle machine
        for stream in streams:
            stream.close()
    with laurels.open(tmp_path / "boards") as lb:
        assert lb.top("b").total == 1
    assert not (tmp_path / "boards" / "served-at").exists()


def test_a_served_folder_names_its_address(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        code, output = started(tmp_path).wait()
        assert code == 2
        assert f"--at {server.url}" in output
        assert "[locked]" in output
        assert "Traceback" not in output


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with started(tmp_path / "one") as server:
        port = str(urlsplit(server.url).port)
        code, output = started(tmp_path / "two", "--port", port).wait()
        assert (code, "[address_in_use]" in output) == (2, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_without_keys_answers_only_this_machine(tmp_path: Path, host: str) -> None:
    code, output = started(tmp_path, "--host", host).wait()
    assert code == 2
    assert "[not_loopback]" in output
    with started(tmp_path, "--host", "0.0.0.0", LAURELS_ADMIN_KEY=ADMIN_KEY) as server:
        assert server.url.startswith("http://0.0.0.0:")


@pytest.mark.parametrize(
    ("options", "variable"), [(["--insecure"], "LAURELS_HOST"), ([], "LAURELS_INSECURE")]
)
def test_the_removed_setting_insecure_points_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], variable: str
) -> None:
    monkeypatch.setenv(variable, "127.0.0.1")
    code, output = started(tmp_path, *options).wait()
    assert code == 2
    assert "the setting insecure was removed" in output
    assert "--open" in output


def test_an_invalid_setting_is_reported(tmp_path: Path) -> None:
    code, output = started(tmp_path, LAURELS_MAX_BODY="much").wait()
    assert code == 2
    assert "LAURELS_MAX_BODY: expected an integer for max_body, got 'much'" in output


def test_every_setting_is_in_the_help() -> None:
    command = [sys.executable, "-m", "laurels.cli", "serve", "--help"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for setting in table():
        assert setting.option in output, setting.name


def test_library_log_lines_are_in_the_server_log(tmp_path: Path) -> None:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b"))
    (tmp_path / "boards" / "log.db").chmod(0o644)
    with started(tmp_path / "boards", "--log-format", "json") as server:
        code, output = server.end()
    assert code == 0
    line = next(line for line in output.splitlines() if "other users could read" in line)
    assert '"level": "info"' in line
