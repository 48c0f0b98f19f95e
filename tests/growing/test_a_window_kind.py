"""A new window kind needs a class, an entry in the union of kinds, and its form in a definition. No
file of the stores, of the service or of the command line has to be changed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.growing.patch import Insertion, patched, run
from tests.redis.servers import Server

KIND: list[Insertion] = [
    (
        "",
        '''"""The window of all events from an instant on. Pure."""

from typing import ClassVar

from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

from .bases import Endless
from .weighing import Weighing


class Since(Endless, frozen=True):
    """The window in which every event from an instant on counts, for ever."""

    from_ms: int

    holds_totals: ClassVar[bool] = False
    weighing: ClassVar[Weighing | None] = None

    def period_at(self, at_ms: int) -> Period:
        """Return the period from the instant on, or the one before it, which takes nothing."""
        if at_ms < self.from_ms:
            return Period("", MIN_MS, self.from_ms)
        return Period("", self.from_ms, MAX_MS)

    def period_of(self, instance: int) -> Period:
        """Return the period stored by a number: the one in which that instant lies."""
        return self.period_at(instance)

    def takes(self, floor_ms: int, now_ms: int, period: Period) -> bool:
        """Return whether a period is the one from the instant on."""
        return period.start_ms == self.from_ms

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the period from the instant on."""
        return [self.period_at(self.from_ms)]
''',
    )
]
UNION: list[Insertion] = [
    ("\nWindow = All", "from .since import Since\n"),
    ("Calendar | Rolling | Decay", "Since | "),
]
FORM: list[Insertion] = [
    ("from typing import Literal", "from datetime import datetime\n"),
    ("\nfrom .all import All\n", "from laurels.timeline.zones import zone\n"),
    ("\nType = Literal", "from .since import Since\n"),
    ('"rolling", "decay"] | Unit\n', '"since", '),
    ('"rolling", "decay")\nOPTIONS', '"since", '),
    ('"half_life")\n', '"start", '),
    ("    refresh_ms: int | None = None\n", "    start: str | None = None\n"),
    ("self.half_life\n        return f", "self.start or "),
    (
        '        if self.type == "decay":\n',
        """        if self.type == "since":
            midnight = datetime.fromisoformat(self.start or "")
            return Since(self.name, zone(defaults.tz).first_instant(midnight))
""",
    ),
    (
        "        if self.half_life:\n",
        """        if self.start:
            options.insert(0, self.start)
""",
    ),
]
PARSING: list[Insertion] = [
    ("from functools import partial\n", "from datetime import date\n"),
    (
        "    for option in options:\n",
        """    if match["type"] == "since":
        fields["start"] = options.pop(0) if options and "=" not in options[0] else None
""",
    ),
    ('        half_life=option("half_life"', '        start=option("start", _date),\n'),
    (
        '    own_name = fields.get("name")\n',
        """    if type == "since" and fields.get("start") is None:
        errors.add("a window of type since has a start: write since:2026-12-01")
""",
    ),
    (
        '    if type == "decay":\n        return ("half_life",)\n',
        """    if type == "since":
        return ("start",)
""",
    ),
    (
        "def _written(",
        """def _date(value: object) -> str:
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError as error:
        raise BoardInvalid(f"start is {safe_repr(value)}, not a date as in 2026-12-01") from error


""",
    ),
]
CHANGES = {
    "model/windows/since.py": KIND,
    "model/windows/kinds.py": UNION,
    "model/windows/forms.py": FORM,
    "model/windows/parsing.py": PARSING,
}

PROGRAM = """
import json, sys, tempfile, warnings
import laurels
from tests.serving import Served

START_MS = 1_796_083_200_000  # 2026-12-01, UTC
HOUR_MS = 3_600_000
SINCE = "since:2026-12-01"

def new_clock():
    return laurels.ManualClock(START_MS - HOUR_MS)

def scores(lb, board, window, **options):
    return [[entry.member, entry.score] for entry in lb.top(board, window=window, **options)]

def answers(lb, clock, board="b", **options):
    windows = ["all", SINCE, "rolling:2d/1h"]
    lb.create(laurels.Board(board, windows=windows, scopes=[[], ["room"]], **options))
    lb.submit(board, "ann", 5)
    found = {"before": scores(lb, board, SINCE), "members": lb.periods(board, SINCE)[0].total}
    clock.advance(2 * HOUR_MS)
    late = START_MS - 1
    lb.submit_many(board, [("ann", 3), ("bob", 4, None, None, {"room": "42"}), ("cid", 9, late)])
    found |= {
        "since": scores(lb, board, SINCE),
        "room": scores(lb, board, SINCE, labels={"room": "42"}),
        "all": scores(lb, board, "all"),
        "starts": lb.periods(board, SINCE)[0].start_ms == START_MS,
        "next": next_page(lb, board),
    }
    lb.check()
    return found

def next_page(lb, board):
    first = lb.top(board, window=SINCE, limit=1)
    return scores(lb, board, SINCE, limit=1, after=first.next)

def refused():
    for text in "since", "since:tomorrow", "since:2026-12-01,keep=3":
        try:
            laurels.Board("b", windows=[text])
        except laurels.errors.BoardInvalid:
            continue
        return text

warnings.simplefilter("ignore", laurels.errors.DataAtRisk)
index_server = sys.argv[1]
found = {}
with tempfile.TemporaryDirectory() as folder:
    for name, url in {"memory": "memory:", "folder": folder, "redis": index_server}.items():
        clock = new_clock()
        with laurels.open(url, clock=clock) as lb:
            found[name] = answers(lb, clock)
    with laurels.open(folder, clock=clock) as lb:
        again = scores(lb, "b", SINCE)
clock = new_clock()
with laurels.open(index_server, clock=clock) as lb:
    found["shards"] = answers(lb, clock, "c", shards=3)
clock = new_clock()
with Served("memory:", clock) as served, laurels.open(served.url) as lb:
    found["http"] = answers(lb, clock)
found |= {"again": again, "accepted": refused()}
print(json.dumps(found))
"""
SINCE = [["bob", 4], ["ann", 3]]
ANSWERS = {
    "before": [],
    "members": 0,
    "since": SINCE,
    "room": [["bob", 4]],
    "all": [["cid", 9], ["ann", 8], ["bob", 4]],
    "starts": True,
    "next": [["ann", 3]],
}


def test_adding_a_window_kind_changes_three_files_of_one_folder(tmp_path: Path) -> None:
    assert {Path(name).parent for name in CHANGES} == {Path("model/windows")}
    with Server() as server:
        output = json.loads(run(patched(tmp_path, CHANGES), PROGRAM, server.url))
    assert output.pop("accepted") is None
    assert output.pop("again") == SINCE
    assert output == dict.fromkeys(("memory", "folder", "redis", "shards", "http"), ANSWERS)
