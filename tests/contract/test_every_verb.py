"""Each verb is called on each store. It has the same outcome as in memory (an answer, or an error
with the same code), unless an index server does not support the verb and says so by its error
code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import LaurelsError
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation

Call = Callable[[laurels.Leaderboards], object]
ROOM = {"room": "1"}
MENDED = RankingEntries("all", None, {}, [StoredEntry("dan", 3, NOW_MS)])

CALLS: dict[str, Call] = {
    "create": lambda lb: lb.create(laurels.Board("new", windows=["all", "day"])),
    "change": lambda lb: lb.change("b", title="Changed"),
    "get": lambda lb: lb.get("b"),
    "boards": lambda lb: lb.boards(),
    "submit": lambda lb: lb.submit("b", "ann", 3, labels=ROOM),
    "submit_many": lambda lb: lb.submit_many("b", [("bob", 2), ("cid", 1)], ranks=True),
    "set": lambda lb: lb.set("sums", "ann", 7),
    "set_data": lambda lb: lb.set_data("b", "ann", {"name": "Ann"}),
    "remove": lambda lb: lb.remove("b", "cid"),
    "mend": lambda lb: lb.mend("sums", [MENDED]),
    "hide": lambda lb: lb.hide("b", "bob", "a bot"),
    "hidden": lambda lb: lb.hidden("b"),
    "show": lambda lb: lb.show("b", "bob"),
    "position": lambda lb: lb.position("b", "source"),
    "positions": lambda lb: lb.positions("b"),
    "top": lambda lb: lb.top("b", limit=2),
    "around": lambda lb: lb.around("b", "ann"),
    "standing": lambda lb: lb.standing("b", "ann", to_rank=1),
    "standings": lambda lb: lb.standings("b", ["ann", "bob"]),
    "rank": lambda lb: lb.rank("b", "ann"),
    "ranks": lambda lb: lb.ranks("b", ["ann", "nobody"]),
    "card": lambda lb: lb.card("b", "ann"),
    "needed": lambda lb: lb.needed("b", "bob", 1),
    "entries": lambda lb: lb.entries("b", ["ann"]),
    "range": lambda lb: lb.range("b", low=1),
    "at_rank": lambda lb: lb.at_rank("b", 1),
    "score_at_percentile": lambda lb: lb.score_at_percentile("b", 50),
    "count": lambda lb: lb.count("b", low=2),
    "periods": lambda lb: lb.periods("b", "day"),
    "scopes": lambda lb: lb.scopes("b", "room"),
    "export": lambda lb: list(lb.export("b")),
    "changes": lambda lb: lb.changes("b", limit=10),
    "watch_changes": lambda lb: next(iter(lb.watch_changes("b", limit=1))),
    "changed_boards": lambda lb: lb.changed_boards(),
    "settle": lambda lb: lb.settle("b", window="day"),
    "payouts": lambda lb: lb.payouts("b"),
    "due_payouts": lambda lb: lb.due_payouts(),
    "waiting_payouts": lambda lb: lb.waiting_payouts(),
    "payout_positions": lambda lb: lb.payout_positions(),
    "move_payout_position": lambda lb: lb.move_payout_position("sink:s", None, None),
    "confirm": lambda lb: lb.confirm("b", "none", "paid"),
    "disqualify": lambda lb: lb.disqualify("b", "ann", "a bot", window="day", period="2026-11-19"),
    "archived": lambda lb: lb.archived("b"),
    "archive_pieces": lambda lb: lb.archive_pieces("b", "day", "2026-11-19"),
    "verify": lambda lb: lb.verify("b", window="day", period="2026-11-19"),
    "seal": lambda lb: lb.seal(),
    "erase": lambda lb: lb.erase("cid", "asked for it"),
    "stats": lambda lb: lb.stats("b"),
    "check": lambda lb: lb.check(),
    "rebuild": lambda lb: lb.rebuild(),
    "clear": lambda lb: lb.clear("sums"),
    "delete": lambda lb: lb.delete("new"),
    "undelete": lambda lb: lb.undelete("new"),
    "restorable_boards": lambda lb: lb.restorable_boards(),
    "deleted_boards": lambda lb: lb.deleted_boards(),
    "snapshot": lambda lb: lb.snapshot(),
    "hot": lambda lb: lb.hot(),
    "audit": lambda lb: lb.audit(),
    "clock_status": lambda lb: lb.clock_status(),
    "accept_clock": lambda lb: lb.accept_clock(),
    "close": lambda lb: lb.close(),
}
"""A call of each verb, in the order in which they are called."""
REFUSED = "not_on_index_server"
"""The code with which an index server refuses a verb."""


def outcome(lb: laurels.Leaderboards, call: Call) -> str:
    """Return the code of the error that a call raises, or `answered`."""
    try:
        call(lb)
    except LaurelsError as error:
        return error.code
    return "answered"


def outcomes(lb: laurels.Leaderboards) -> dict[str, Any]:
    """Call each verb. Return the outcomes, and the content of the boards before `erase`, since an
    index server refuses this verb and some later ones."""
    scopes = [[], ["room"]]
    lb.create(laurels.Board("b", windows=["all", "day"], scopes=scopes, changes="1h", tie="member"))
    lb.create(laurels.Board("sums", tie="member"))
    found: dict[str, Any] = {}
    for verb, call in CALLS.items():
        if verb == "erase":
            found["content"] = everything(lb)
        found[verb] = outcome(lb, call)
    return found


def test_the_calls_are_those_of_all_verbs() -> None:
    verbs = {name for name in vars(laurels.Leaderboards) if not name.startswith("_")}
    assert {*CALLS} == verbs


@pytest.mark.every_implementation
def test_each_verb_has_the_same_outcome_as_in_memory(
    implementation: Implementation, tmp_path: Path, clock: laurels.ManualClock
) -> None:
    with laurels.open("memory:", clock=laurels.ManualClock(clock.now_ms())) as lb:
        expected = outcomes(lb)
    with Deployment(implementation, tmp_path, clock) as deployment:
        found = outcomes(deployment.lb)
    differing = {verb: found[verb] for verb in expected if found[verb] != expected[verb]}
    differing.pop("snapshot", None)  # a store in memory takes no snapshots
    assert all(each == REFUSED for each in differing.values()), differing
