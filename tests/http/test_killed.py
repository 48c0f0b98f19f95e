"""A server may be killed at any moment: it loses no acknowledged event, and counts no event
twice."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from random import Random

import httpx

import laurels
from tests.conftest import Scaled
from tests.http.process import Process

WRITERS = 4


def _write(url: str, writer: int, numbers: count[int], acknowledged: list[str]) -> None:
    """Submit events of new members until the server has ended. Record the acknowledged members."""
    with httpx.Client(base_url=url, timeout=60) as client:
        for number in numbers:
            members = [f"w{writer}-{number}", f"w{writer}-{number}-b"][: 1 + number % 2]
            events = [{"member": member, "value": 1, "id": member} for member in members]
            body = events if len(events) > 1 else events[0]
            try:
                answer = client.post("/v1/boards/kills/scores", json=body)
            except httpx.HTTPError:
                return
            assert answer.status_code == 200, answer.text
            acknowledged += members


def test_every_acknowledged_event_counts_once_after_each_kill(
    tmp_path: Path, scaled: Scaled
) -> None:
    random, acknowledged = Random(7), list[str]()
    numbers = [count() for _ in range(WRITERS)]
    with laurels.open(tmp_path) as lb:
        lb.create(laurels.Board("kills", windows=["all", "3s=rolling:3s/1s"]))
    for _ in range(scaled(2, 60)):
        with Process(tmp_path) as server:
            wanted = len(acknowledged) + random.randrange(50, 600)
            writers = [
                threading.Thread(target=_write, args=(server.url, i, numbers[i], acknowledged))
                for i in range(WRITERS)
            ]
            for writer in writers:
                writer.start()
            while len(acknowledged) < wanted and any(writer.is_alive() for writer in writers):
                writers[0].join(0.005)
            server.kill()
            for writer in writers:
                writer.join()
        with laurels.open(tmp_path) as lb:
            lb.check()
            there = {entry.member: entry.score for entry in lb.export("kills")}
            assert set(acknowledged) <= there.keys()
            assert set(there.values()) == {1}
            again = lb.submit_many("kills", [(member, 1, None, member) for member in acknowledged])
            assert again.duplicates == len(acknowledged)
