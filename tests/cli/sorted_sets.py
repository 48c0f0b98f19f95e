"""Sorted sets in Redis to import, and functions that import them."""

import csv
import random
from pathlib import Path
from typing import Any

from tests.redis.servers import Server

KEY = "highscores"
DATA = f"{KEY}:member_data"


def fill(server: Server, scores: dict[Any, Any], key: str = KEY) -> None:
    flat = [part for member, score in scores.items() for part in (score, member)]
    for first in range(0, len(flat), 10_000):
        server.call("ZADD", key, *flat[first : first + 10_000])


def importing(server: Server, *options: str) -> list[str]:
    return ["import", "gifts", "--from", server.url, "--key", KEY, *options]


def many(size: int, seed: int = 7) -> dict[str, int]:
    chance = random.Random(seed)
    return {f"member-{number}": chance.randrange(-500, 5_000) for number in range(size)}


def rejects_in(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["code"], row["text"]) for row in csv.DictReader(file)]
