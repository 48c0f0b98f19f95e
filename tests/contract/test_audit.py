"""The audit log: every store returns it in pages, and refuses the same arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import laurels
from laurels.core.mending import RankingEntries, StoredEntry
from laurels.errors import BoardExists, InvalidCursor, InvalidLimit, MemberEmpty
from tests.contract.deployments import Deployment


def test_a_store_that_nobody_administered_has_no_entries(lb: laurels.Leaderboards) -> None:
    page = lb.audit()
    assert (page.entries, page.next, len(page), list(page)) == ([], None, 0, [])
    assert lb.audit("gifts").to_dict() == {"entries": [], "next": None}


@pytest.mark.parametrize("limit", [0, 1_001, -1])
def test_a_page_has_1_to_1000_entries(lb: laurels.Leaderboards, limit: Any) -> None:
    with pytest.raises(InvalidLimit, match="expected an integer from 1 to 1,000 for limit"):
        lb.audit(limit=limit)


@pytest.mark.parametrize("before", ["x", "1;2", "9" * 20, ""])
def test_a_page_continues_where_the_previous_one_ended(
    lb: laurels.Leaderboards, before: str
) -> None:
    with pytest.raises(InvalidCursor, match="expected the `next` of an answer for before"):
        lb.audit(before=before)


def administer(lb: laurels.Leaderboards) -> None:
    """Call each verb that the audit log records, some that it does not record, and some that are
    refused."""
    lb.create(laurels.Board("gifts", title="Gifts"))
    lb.change("gifts", title="More")
    with pytest.raises(BoardExists):
        lb.create(laurels.Board("gifts"))
    lb.submit("gifts", "ann", 1)
    lb.set("gifts", "ann", 5, id="e1")
    with pytest.raises(MemberEmpty):
        lb.set("gifts", "", 5)
    lb.set_data("gifts", "ann", {"name": "Ann"})
    lb.mend("gifts", [RankingEntries("all", None, None, [StoredEntry("ann")])])
    lb.remove("gifts", "ann")
    lb.rebuild()
    lb.delete("gifts")


ADMINISTERED = ["create", "change", "set", "mend", "remove", "rebuild", "delete"]


def test_each_call_that_administers_is_one_entry(lb: laurels.Leaderboards) -> None:
    administer(lb)
    entries = lb.audit().entries[::-1]
    assert [entry.verb for entry in entries] == ADMINISTERED
    assert [entry.board for entry in entries] == [
        None if verb == "rebuild" else "gifts" for verb in ADMINISTERED
    ]
    requests = {entry.verb: entry.request for entry in entries}
    assert requests["change"] == {"title": "More"}
    assert requests["set"] == {"member": "ann", "value": 5, "id": "e1"}
    assert requests["remove"] == {"member": "ann"}
    assert requests["create"]["title"] == "Gifts"
    assert {entry.status for entry in entries} <= {200, 201, 204}
    assert len({entry.by for entry in entries}) == 1


def test_calls_on_an_event_loop_are_recorded(deployment: Deployment) -> None:
    async def main() -> laurels.AuditPage:
        async with deployment.opened_async() as lb:
            await lb.create(laurels.Board("gifts"))
            await asyncio.gather(*[lb.set("gifts", f"m{n}", n) for n in range(8)])
            await lb.remove("gifts", "m0")
            await asyncio.to_thread(lb.sync.remove, "gifts", "m1")
            await lb.rebuild()
            return await lb.audit()

    verbs = [entry.verb for entry in asyncio.run(main()).entries[::-1]]
    assert verbs == ["create", *["set"] * 8, "remove", "remove", "rebuild"]


def test_the_audit_log_is_read_on_an_event_loop(deployment: Deployment) -> None:
    async def main() -> laurels.AuditPage:
        async with deployment.opened_async() as lb:
            return await lb.audit("gifts", limit=5)

    assert asyncio.run(main()) == laurels.AuditPage([], None)
