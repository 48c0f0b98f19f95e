"""A trusted proxy may open any number of connections, but the connections of each client behind it
are limited."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.http.process import Process
from tests.redis.servers import until

MOST = 2


def by(client: str) -> dict[str, str]:
    return {"X-Forwarded-For": client}


def test_each_client_behind_a_proxy_has_limited_streams_and_requests(tmp_path: Path) -> None:
    options = ("--trusted-proxy", "127.0.0.1", "--connections-per-address", str(MOST))
    with Process(tmp_path, *options, LAURELS_ADMIN_KEY="k" * 32) as server:
        key = {"Authorization": f"Bearer {'k' * 32}"}
        board = f"{server.url}/v1/boards/b"
        httpx.put(board, json={}, headers=key).raise_for_status()

        def status(client: str) -> int:
            return httpx.get(board, headers=key | by(client), timeout=60).status_code

        with ExitStack() as streams:
            for _ in range(MOST):
                feed = httpx.stream(
                    "GET", f"{board}/live", headers=key | by("192.0.2.7"), timeout=60
                )
                assert streams.enter_context(feed).status_code == 200
            refused = httpx.get(board, headers=key | by("6.6.6.6, 192.0.2.7"), timeout=60)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
            assert status("192.0.2.8") == 200
            assert httpx.get(board, headers=key, timeout=60).status_code == 200
        until(lambda: status("192.0.2.7") == 200, "that the streams have ended")
