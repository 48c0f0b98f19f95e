"""Rebuilding a store from a ledger: members per second, for a board with one window and one column,
in which each member has one entry."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from random import Random

import laurels
from bench.flows.ledger import sink
from laurels import config
from laurels.flows.ledger.reading import LedgerReader
from laurels.flows.ledger.rebuild import rebuild
from laurels.sql.databases import dialect_of
from laurels.sql.dialects import Row
from laurels.sql.tables import Tables
from laurels.sql.texts import bucket_of

PAGE = 5_000
AT_MS = 1_790_000_000_000


async def _begin(url: str) -> None:
    """Run a sink once, so that it creates the tables for a board."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", changes="1d"))
        await sink(lb, url, until_end=True)[0].run()


def _rows(members: int) -> Iterator[list[Row]]:
    random = Random(1)
    for first in range(0, members, PAGE):
        names = [f"member-{i:08}" for i in range(first, first + PAGE)]
        yield [
            (
                *("b", name, "all", "", "", random.randrange(1_000_000), None, None, None),
                *(AT_MS + random.randrange(10**9), None, None, bucket_of(name), 1),
            )
            for name in names
        ]


def fill(url: str, members: int) -> None:
    """Write entries directly into the table, without events."""
    asyncio.run(_begin(url))
    dialect, prefix = dialect_of(url)
    tables = Tables(dialect, prefix)
    connection = dialect.connect()
    for rows in _rows(members):
        dialect.upsert(connection, tables.name("scores"), tables.scores, 5, rows)
        connection.commit()
    connection.close()


def timed(url: str, into: str) -> tuple[int, float, float]:
    """Rebuild the board; return its number of members, the elapsed seconds, and the processor
    seconds of this process."""
    with closing(LedgerReader(*dialect_of(url))) as reader:
        reader.open()
        with closing(config.portable(into, create=True)) as store:
            began, spent = time.perf_counter(), time.process_time()
            (made,) = rebuild(reader, store.copies)
            assert not made.was_done, f"{into} already has the board"
            return made.entries, time.perf_counter() - began, time.process_time() - spent
