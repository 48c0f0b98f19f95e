"""What is streamed is made no faster than it is read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from laurels.aio import AsyncLeaderboards
from tests.http.listening import WITHIN_SECONDS, feed
from tests.serving import Served

MEMBERS = 60_000
PAGES = MEMBERS // 1_000


def test_an_export_that_is_not_read_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    top = AsyncLeaderboards.top

    async def counted(self: AsyncLeaderboards, *args: Any, **kwargs: Any) -> Any:
        nonlocal made
        made += 1
        return await top(self, *args, **kwargs)

    async def settled(http: httpx.AsyncClient) -> int:
        """How many pages were made by the time that no more are, while others are served."""
        before, same = made, 0
        while same < 50:
            (await http.get("/healthz")).raise_for_status()
            before, same = (made, same + 1) if before == made else (made, 0)
        return made

    async def main(url: str) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=WITHIN_SECONDS) as http:
            await http.put("/v1/boards/b", json={})
            for start in range(0, MEMBERS, 10_000):
                events = [[f"{'m' * 100}{i}", i] for i in range(start, start + 10_000)]
                await http.post("/v1/boards/b/scores?receipts=none", json=events)
            async with feed(url, "/v1/boards/b/export", buffer=4_096) as unread:
                assert 0 < await settled(http) < PAGES // 2
                lines = (await unread.rest()).count(b'"member"')
                assert (lines, made) == (MEMBERS, PAGES)

    monkeypatch.setattr(AsyncLeaderboards, "top", counted)
    with Served(tmp_path / "boards") as server:
        asyncio.run(main(server.url))
