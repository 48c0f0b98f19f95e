"""Many clients write to one member. The final score is the sum of all values, and all answers agree
with one order of commits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.serving import Served

CLIENTS = 64
EVENTS = 12


async def _client(url: str, number: int) -> list[dict[str, Any]]:
    random, answers = Random(number), []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for _ in range(EVENTS):
            value = random.randrange(1, 1_000)
            answer = await client.post(
                "/v1/boards/b/scores", json={"member": "all", "value": value}
            )
            assert answer.status_code == 200
            answers.append({**answer.json(), "value": value})
    return answers


def test_all_answers_agree_with_one_order_of_commits(tmp_path: Path) -> None:
    async def main(url: str) -> list[list[dict[str, Any]]]:
        return await asyncio.gather(*(_client(url, number) for number in range(CLIENTS)))

    with Served(tmp_path) as server:
        httpx.put(f"{server.url}/v1/boards/b", json={}).raise_for_status()
        answers = asyncio.run(main(server.url))
        end = httpx.get(f"{server.url}/v1/boards/b/standing", params={"member": "all"}).json()
    ordered = sorted(
        (answer for each in answers for answer in each), key=lambda each: each["score"]
    )
    assert end["score"] == sum(answer["value"] for answer in ordered)
    before: int | None = None
    offset = 0
    for answer in ordered:
        assert answer["previous_score"] == before
        assert answer["score"] == (before or 0) + answer["value"]
        assert (answer["rank"], answer["offset"] >= offset) == (1, True)
        before, offset = answer["score"], answer["offset"]
    for each in answers:
        scores = [answer["score"] for answer in each]
        assert scores == sorted(scores)
