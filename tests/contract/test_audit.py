"""The audit log: every store returns it in pages, and refuses the same arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import laurels
from laurels.errors import InvalidCursor, InvalidLimit
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
def test_a_page_goes_on_from_the_next_of_another(lb: laurels.Leaderboards, before: str) -> None:
    with pytest.raises(InvalidCursor, match="expected the `next` of an answer for before"):
        lb.audit(before=before)


def test_event_loops_have_the_same_verb(deployment: Deployment) -> None:
    async def main() -> laurels.AuditPage:
        async with deployment.opened_async() as lb:
            return await lb.audit("gifts", limit=5)

    assert asyncio.run(main()) == laurels.AuditPage([], None)
