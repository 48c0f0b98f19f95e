"""A new column operator needs a name, a function from the values of events to the values that are
summed or kept, and the rule of the engine that it uses. No script and no query has to be
changed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.growing.patch import Insertion, patched, run
from tests.redis.servers import Server

OPERATOR: list[Insertion] = [
    ('"last", "best"]\n', '"gain", '),
    ('"sum"})\n', '"gain", '),
]
VALUE: list[Insertion] = [
    ("from collections.abc import Mapping, Sequence\n", "from array import array\n"),
    (
        "        if columns.groups is not None:\n",
        """        columns.values = tuple(
            [
                array("q", [max(value, 0) for value in values]) if rule.op == "gain" else values
                for rule, values in zip(self._columns, columns.values, strict=True)
            ]
        )
""",
    ),
]
ENGINE: list[Insertion] = [('"last": fold.LAST', '"gain": fold.SUM, ')]
DESCRIPTION: list[Insertion] = [('"last", "best"] = "sum"\n', '"gain", ')]
CHANGES = {
    "model/rules.py": OPERATOR,
    "model/event.py": VALUE,
    "stores/local/index/memory.py": ENGINE,
    "server/verbs/boards.py": DESCRIPTION,
}

PROGRAM = """
import json, sys, tempfile, warnings
import laurels
from tests.serving import Served

MIDNIGHT_MS = 1_796_083_200_000
DAY_MS = 86_400_000

def new_clock():
    return laurels.ManualClock(MIDNIGHT_MS)

def scores(lb, board, window):
    return [[entry.member, entry.score] for entry in lb.top(board, window=window)]

def answers(lb, clock, name="b", **options):
    column = laurels.Column(op="gain")
    lb.create(laurels.Board(name, columns=[column], windows=["all", "rolling:2d/1d"], **options))
    lb.submit_many(name, [("ann", 5), ("bob", 2), ("ann", -3)])
    clock.advance(DAY_MS)
    lb.submit(name, "ann", 4)
    lb.submit(name, "bob", -1)
    found = {"all": scores(lb, name, "all"), "rolling": scores(lb, name, "rolling:2d/1d")}
    found["needed"] = lb.needed(name, "bob", 1).value
    clock.advance(DAY_MS)
    found["later"] = scores(lb, name, "rolling:2d/1d")
    lb.set(name, "bob", 9)
    found["set"] = scores(lb, name, "all")
    lb.check()
    return found

warnings.simplefilter("ignore", laurels.errors.DataAtRisk)
index_server = sys.argv[1]
found = {}
with tempfile.TemporaryDirectory() as folder:
    for name, url in {"memory": "memory:", "folder": folder, "redis": index_server}.items():
        clock = new_clock()
        with laurels.open(url, clock=clock) as lb:
            found[name] = answers(lb, clock)
    with laurels.open(folder, clock=clock) as lb:
        again = scores(lb, "b", "all")
clock = new_clock()
with laurels.open(index_server, clock=clock) as lb:
    found["shards"] = answers(lb, clock, "c", shards=3)
clock = new_clock()
with Served("memory:", clock) as served, laurels.open(served.url) as lb:
    found["http"] = answers(lb, clock)
print(json.dumps(found | {"again": again}))
"""
SET = [["ann", 9], ["bob", 9]]
ANSWERS = {
    "all": [["ann", 9], ["bob", 2]],
    "rolling": [["ann", 9], ["bob", 2]],
    "needed": 8,
    "later": [["ann", 4], ["bob", 0]],
    "set": SET,
}


def test_adding_a_column_operator_changes_four_files(tmp_path: Path) -> None:
    with Server() as server:
        output = json.loads(run(patched(tmp_path, CHANGES), PROGRAM, server.url))
    assert output.pop("again") == SET
    assert output == dict.fromkeys(("memory", "folder", "redis", "shards", "http"), ANSWERS)
