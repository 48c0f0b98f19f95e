"""Rebuilding a store from a ledger."""

from __future__ import annotations

import asyncio
from typing import Any

import laurels
from laurels.flows.ledger.reading import LedgerReader
from laurels.flows.ledger.rebuild import RebuiltBoard, rebuild
from laurels.sql.databases import dialect_of
from tests.internals import copies_of


def reading(url: str) -> LedgerReader:
    """Open the reader of a ledger."""
    reader = LedgerReader(*dialect_of(url))
    reader.open()
    return reader


async def rebuilt(
    lb: laurels.AsyncLeaderboards, url: str, patterns: list[str] | None = None
) -> list[RebuiltBoard]:
    """Rebuild the boards of a ledger in a store. Return a report for each board."""
    reader = reading(url)
    try:
        return await asyncio.to_thread(rebuild, reader, copies_of(lb), patterns)
    finally:
        reader.close()


def everything(lb: laurels.Leaderboards, name: str) -> dict[str, Any]:
    """Return every ranking of a board that keeps its changes, with the order and times of its
    entries."""
    rankings: dict[str, Any] = {}
    page = lb.changes(name, initial=True)
    while not (page.changes and page[-1].kind == "initial_end"):
        for change in page:
            (ranking,) = change.rankings
            place = f"{ranking.window} {ranking.period} {ranking.labels}"
            times = ranking.reached_ms, ranking.last_ms
            rankings.setdefault(place, []).append(
                (change.member, ranking.score, times, change.data)
            )
        page = lb.changes(name, after=page.cursor)
    return rankings
