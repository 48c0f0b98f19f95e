"""A server is killed several times. Afterwards, each event of its source has counted once, and its
sinks have each change once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import laurels
from tests.conftest import Scaled
from tests.http.process import Process
from tests.redis.servers import until

from .killing import BOARD, MEMBERS, Acknowledged, Tally, judge, target
from .sourcing import FOUR_FIELDS, four_fields, written

EVENTS = 600
"""The number of events between two kills."""


def publish(events: Path, load: Acknowledged, random: Random) -> None:
    lines = []
    for _ in range(EVENTS):
        member, value = f"m{random.randrange(MEMBERS)}", random.randrange(1, 100)
        lines.append(four_fields("b", member, value))
        load.events += 1
        load.scores[member] += value
    written(events, lines)


def points(lb: laurels.Leaderboards) -> int:
    scores: list[Any] = [entry.score for entry in lb.export("b")]
    return sum(scores)


def test_a_killed_server_counts_its_source_once_and_its_sinks_miss_nothing(
    tmp_path: Path, scaled: Scaled
) -> None:
    """The source is a file. The sinks are a ledger and a file of lines."""
    random, load = Random("served"), Acknowledged()
    events, settings, boards = tmp_path / "events", tmp_path / "laurels.toml", tmp_path / "boards"
    with laurels.open(boards) as lb:
        lb.create(BOARD)
    with target("sqlite", tmp_path) as ledger, target("lines", tmp_path) as lines:
        settings.write_text(
            f"""
[sources.feed]
from = "{events}"
map = "{FOUR_FIELDS}"
batch = 50
rejects = "{tmp_path}/rejects"
[sinks.ledger]
to = "{ledger.url}"
[sinks.lines]
to = "{lines.url}"
parked = "{tmp_path}/parked"
"""
        )
        kills = [Tally(), Tally()]
        for _ in range(scaled(2, 100)):
            before = [each.progress() for each in (ledger, lines)]
            size = Path(lines.url).stat().st_size + random.randrange(EVENTS * 100)
            publish(events, load, random)
            with Process(boards, "--config", str(settings)) as server:
                until(lambda: Path(lines.url).stat().st_size > size, "the server sends changes")  # noqa: B023
                until(lambda: ledger.progress() not in (None, before[0]), "the ledger grows")  # noqa: B023
                server.kill()
            for tally, to, was in zip(kills, (ledger, lines), before, strict=True):
                tally.count(progressed=to.progress() != was)
        with Process(boards, "--config", str(settings)) as server, laurels.open(server.url) as lb:
            until(lambda: points(lb) == sum(load.scores.values()), "the source is at its end")
            for tally, to in zip(kills, (ledger, lines), strict=True):
                until(lambda: to.has_all(lb), "the sink is at its end")  # noqa: B023
                judge(f"served {to.url}", to, lb, load, tally)
