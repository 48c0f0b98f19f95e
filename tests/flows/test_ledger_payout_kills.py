"""Processes are killed while they seal, confirm and correct on an index server with a ledger,
sometimes together with the server. No payout is owed twice, and nothing that was acknowledged is
lost."""

from __future__ import annotations

import os
from random import Random
from unittest.mock import patch

from tests.archive.payout_writer import DAY_MS
from tests.archive.test_payout_kills import START_MS, check, run_until_killed
from tests.conftest import Scaled
from tests.redis.servers import Server


def test_nothing_is_owed_twice_after_kills(url: str, scaled: Scaled) -> None:
    random = Random("payout kills on an index server")
    acknowledged: list[str] = []
    server, now_ms = Server(), START_MS
    with patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": url}):
        try:
            for seed in range(scaled(3, 100)):
                acknowledged += run_until_killed(
                    server.url, now_ms, seed, random.randint(2, 40), "tests.redis.payout_writer"
                )
                if random.random() < 0.5:
                    server.kill()
                    server.start()
                at = [int(line.split()[1]) for line in acknowledged if line.startswith("at ")]
                now_ms = max([now_ms, *at]) + DAY_MS
                check(server.url, acknowledged, now_ms)
        finally:
            server.stop()
