"""A store and its sink are killed while they close, seal, correct and send: the receiver, which
counts payouts by their ids, has each payout once and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

import laurels
from tests.conftest import Scaled
from tests.forked import Forked

from .paying import DAY_MS, NOON_MS, due_ids
from .sinking import sent
from .test_webhook import Receiver


def run_until_killed(folder: Path, url: str, start_ms: int, seed: int, lines: int) -> int:
    """Run the sender until it has printed this many lines, and kill it a moment later. Return the
    time that its clock had reached."""
    arguments = [str(folder), url, str(start_ms), str(seed)]
    with Forked("tests.flows.payout_sender", arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed: list[str] = []
        for line in process.stdout:
            printed.append(line)
            if len(printed) == lines:
                Timer(Random(seed).random() / 50, process.kill).start()
        process.wait()
    assert process.returncode == -9
    return max([start_ms, *[int(each.split()[1]) for each in printed if each.startswith("at ")]])


def test_a_receiver_has_each_payout_once_after_kills(tmp_path: Path, scaled: Scaled) -> None:
    random, now_ms = Random("payout sink kills"), NOON_MS
    with Receiver() as receiver:
        for seed in range(scaled(8, 200)):
            random_answers: list[tuple[int, dict[str, str]]] = [
                (random.choice([200, 200, 500]), {}) for _ in range(3)
            ]
            receiver.answers = [each for each in random_answers if each[0] != 200]
            lines = random.randint(2, 16)
            now_ms = run_until_killed(tmp_path / "b", receiver.url, now_ms, seed, lines)
            # the killed process may have advanced its clock by a day after the last line that it
            # printed
            now_ms += 2 * DAY_MS
        receiver.answers = []

        async def rest() -> list[str]:
            clock = laurels.ManualClock(now_ms + DAY_MS)
            async with laurels.open_async(tmp_path / "b", clock=clock) as lb:
                await lb.seal()
                clock.advance(DAY_MS)
                await lb.seal()
                await sent(lb, receiver.url, what="payouts")
                await asyncio.to_thread(lb.sync.check)
                return await due_ids(lb)

        wanted = asyncio.run(rest())
        contents: dict[str, Any] = {}
        for each in [each for page in receiver.taken for each in page]:
            what = {**each, "data": {**each["data"], "state": 0, "reference": 0, "confirmed_ms": 0}}
            assert contents.setdefault(each["id"], what) == what
        assert list(contents) == wanted
        print(f"{len(receiver.ids)} messages of {len(wanted)} payouts")
