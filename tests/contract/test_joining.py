"""Writes that are committed together get the same receipts as writes that are committed one by
one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import laurels
from laurels.errors import LaurelsError
from tests.contract.deployments import EMBEDDED, Deployment

BOARD = laurels.Board(
    "b",
    columns=[laurels.Column("score", min=0, max=100)],
    windows=["all", "day", "3h=rolling:3h/1h"],
)
EVENTS: list[tuple[Any, ...]] = [
    ("ann", 60),
    ("ann", 60),
    ("bob", 5, None, "one"),
    ("ann", -10),
    ("bob", 5, None, "one"),
    ("bob", 5, None, "two"),
    ("cid", 0),
    ("ann", 200),
]


def comparable(answer: Any) -> object:
    """Return the fields of a receipt except ranks and offsets, which depend on the commit."""
    if isinstance(answer, LaurelsError):
        return answer.code
    return answer.member, answer.status, answer.previous_score, answer.score, answer.period


def at_once(deployment: Deployment) -> tuple[list[object], laurels.Page]:
    async def main() -> tuple[list[object], laurels.Page]:
        async with deployment.opened_async() as lb:
            await lb.create(BOARD)
            # While the first commit is in progress, the other writes wait and then form the next
            # commit.
            writes = [asyncio.ensure_future(lb.submit("b", "first", 1))]
            writes += [
                asyncio.ensure_future(
                    lb.submit("b", *event[:2], id=event[3] if len(event) > 3 else None)
                )
                for event in EVENTS
            ]
            answers = await asyncio.gather(*writes, return_exceptions=True)
            await lb.check()
            return list(map(comparable, answers[1:])), await lb.top("b")

    return asyncio.run(main())


@pytest.mark.parametrize("implementation", EMBEDDED, ids=lambda it: it.name)
def test_joined_writes_get_the_receipts_of_single_commits(deployment: Deployment) -> None:
    answers, page = at_once(deployment)
    with laurels.open("memory:", clock=deployment.clock) as alone:
        alone.create(BOARD)
        alone.submit("b", "first", 1)
        expected: list[object] = []
        for event in EVENTS:
            try:
                receipt = alone.submit("b", *event[:2], id=event[3] if len(event) > 3 else None)
                expected.append(comparable(receipt))
            except LaurelsError as error:
                expected.append(error.code)
        assert answers == expected
        assert page.entries == alone.top("b").entries


def test_receipts_of_joined_writes_have_the_ranks_of_the_commit(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many("b", [("ann", 1), ("bob", 2)], ranks=True)
    assert [(each.previous_rank, each.rank) for each in receipts] == [(None, 2), (None, 1)]
