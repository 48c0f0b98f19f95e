"""A new query needs a type, a verb, and an entry in the list of awaited verbs. No file of the
stores, of the service or of the command line has to be changed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.growing.patch import Insertion, patched, run
from tests.redis.servers import Server

QUERY: list[Insertion] = [
    ("from typing import Any\n", "from collections.abc import Sequence\n"),
    (
        "from .payout_queries import",
        """from .index import Offset
from .read_plan import final
from .requests import ReadResult
""",
    ),
    (
        "QUERIES: tuple[type[Query[Any]], ...] = (\n",
        '''class LeadAnswer(Struct, frozen=True):
    """Who leads and by how much; null on an empty ranking."""

    member: str | None
    score: Score | None


class Lead(RankingQuery[LeadAnswer], frozen=True, kw_only=True):
    """Who leads, with its score."""

    verb = "lead"
    path = "lead"
    returns = LeadAnswer

    def plan(self, now: QueryContext) -> ReadPlan[LeadAnswer]:
        top = self._view(now).top(1, 0, False, False)

        def finish(results: Sequence[ReadResult], offset: Offset) -> LeadAnswer:
            for entry in final(top.finish(results, offset)):
                return LeadAnswer(entry.member, entry.score)
            return LeadAnswer(None, None)

        return ReadPlan(top.requests, finish)


''',
    ),
    ("    Top,\n    Around,\n    StandingOf,\n    RankOf,\n", "    Lead,\n"),
]
VERB: list[Insertion] = [
    (
        "from laurels.core.queries import AtRank",
        "from laurels.core.queries import Lead, LeadAnswer\n",
    ),
    (
        "    def scopes(\n",
        '''    def lead(
        self,
        board: str,
        *,
        window: str | None = None,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> LeadAnswer:
        """Who leads, with its score. O(log n)."""
        return self._ask(board, Lead(window=window, labels=label_pairs(labels), by=by))

''',
    ),
]
AWAITED: list[Insertion] = [
    ("    scopes = _awaited(", "    lead = _awaited(Leaderboards.lead)\n"),
]
CHANGES = {
    "core/queries.py": QUERY,
    "api/leaderboards.py": VERB,
    "api/aio.py": AWAITED,
}

PROGRAM = """
import asyncio, json, sys, tempfile, warnings
import httpx, laurels, msgspec
from tests.serving import Served

def answers(lb, name="b", **options):
    board = laurels.Board(name, windows=["all", "day"], scopes=[[], ["room"]], rank_by="room")
    lb.create(msgspec.structs.replace(board, **options))
    found = [lb.lead(name)]
    lb.submit_many(name, [("ann", 5, None, None, {"room": "42"}), ("bob", 7)])
    found += lb.lead(name), lb.lead(name, window="day", labels={"room": "42"})
    return [[one.member, one.score] for one in [*found, lb.lead(name, by="room")]]

async def awaited():
    async with await laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b"))
        await lb.submit("b", "ann", 5)
        return (await lb.lead("b")).member

warnings.simplefilter("ignore", laurels.errors.DataAtRisk)
index_server = sys.argv[1]
found = {"awaited": asyncio.run(awaited())}
with tempfile.TemporaryDirectory() as folder:
    for name, url in {"memory": "memory:", "folder": folder, "redis": index_server}.items():
        with laurels.open(url) as lb:
            found[name] = answers(lb)
with laurels.open(index_server) as lb:
    found["shards"] = answers(lb, "c", shards=3)
with Served("memory:") as served:
    with laurels.open(served.url) as lb:
        found["http"] = answers(lb)
    found["sent"] = httpx.get(f"{served.url}/v1/boards/b/lead?labels=room=42").json()
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    described = paths["/v1/boards/{board}/lead"]["get"]
    found["described"] = [described["summary"], [each["name"] for each in described["parameters"]]]
print(json.dumps(found))
"""
ANSWERS = [[None, None], ["bob", 7], ["ann", 5], ["42", 5]]


def test_adding_a_query_changes_three_files(tmp_path: Path) -> None:
    assert len(CHANGES) <= 4
    elsewhere = ("stores/", "server/", "cli/", "wire/")
    assert not [name for name in CHANGES if name.startswith(elsewhere)]
    with Server() as server:
        output = json.loads(run(patched(tmp_path, CHANGES), PROGRAM, server.url))
    assert output.pop("awaited") == "ann"
    assert output.pop("sent") == {"member": "ann", "score": 5}
    summary, parameters = output.pop("described")
    assert summary == "Who leads, with its score"
    assert parameters == ["board", "labels", "by", "window", "period", "revision"]
    assert output == dict.fromkeys(("memory", "folder", "redis", "shards", "http"), ANSWERS)
