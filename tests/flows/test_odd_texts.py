"""Ids with quotes, slashes, NUL and characters of four bytes reach every target unchanged. They
never become part of an SQL statement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laurels
from laurels.errors.sinks import InvalidTarget
from laurels.sql.databases import dialect_of
from tests.redis.servers import Server

from .databases import Nats
from .sinking import NOW_MS, create_stream, ledger, messages, rankings, rows, sent
from .test_ledger import ODD_MEMBERS
from .test_webhook import OPEN, Receiver

MEMBERS = [
    *ODD_MEMBERS,
    *('"', "'", "`", "a/b", "../..", "\x01\x1f\x7f", "\u2028", "\ufffe", "a\nb", "%d %", "$1", "?"),
    *(
        "🏆" * 32,
        "\0" * 128,
        "\\" * 128,
        "'" * 128,
        ".",
        "*",
        ">",
        "a.b",
        "{board}",
        "\u00a0",
        "e\u0301",
    ),
]
TITLE = "a\0'\"\\🏆"
BOARD = laurels.Board("b", windows=["all"], changes="7d", scopes=[[], ["room"]], title=TITLE)


async def opened() -> laurels.AsyncLeaderboards:
    lb = await laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS))
    await lb.create(BOARD)
    receipts = await lb.submit_many(
        "b",
        [(member, 1 + i, None, member, {"room": member[:20]}) for i, member in enumerate(MEMBERS)],
    )
    assert receipts.applied == len(MEMBERS)
    for member in MEMBERS:
        await lb.set_data("b", member, {"id": [member[:40]]})
    await lb.submit_many("b", [], position=("feed'\"\\\0🏆", "at'\"\\\0🏆"))
    return lb


def test_every_database_stores_odd_texts_unchanged(url: str) -> None:
    prefix = dialect_of(url)[1]

    async def play() -> None:
        lb = await opened()
        await sent(lb, url)
        assert ledger(url, BOARD, prefix) == rankings(lb.sync, BOARD)
        title = TITLE.replace("\\", "\\\\").replace("\0", "\\0")
        assert rows(url, f"SELECT title FROM {prefix}boards") == [(title,)]
        for member in MEMBERS:
            await lb.remove("b", member)
        await sent(lb, url)
        assert rows(url, f"SELECT count(*) FROM {prefix}scores") == [(0,)]
        await lb.close()

    asyncio.run(play())


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize("kind", ["redis", "nats", "webhook", "lines"])
def test_every_stream_carries_odd_texts_unchanged(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def play(url: str) -> list[tuple[Any, ...]]:
        lb = await opened()
        await sent(lb, url, delivery=OPEN)
        page = await lb.changes("b", limit=10_000)
        await lb.close()
        return sorted([facts(msgspec.to_builtins(c)) for c in page if c.member is not None])

    if kind == "redis":
        server: Server = request.getfixturevalue("redis")
        wanted = asyncio.run(play(f"{server.url}/0/odd%22%27%2F%00"))
        entries = server.call("XRANGE", "odd\"'/\0", "-", "+")
        delivered = [msgspec.json.decode(fields[3]) for _, fields in entries]
    elif kind == "nats":
        with Nats() as broker:
            asyncio.run(create_stream(broker.url))
            wanted = asyncio.run(play(f"{broker.url}/changes.{{member}}.{{labels.room}}"))
            delivered = asyncio.run(messages(broker.url))
    elif kind == "webhook":
        with Receiver() as receiver:
            wanted = asyncio.run(play(receiver.url))
            delivered = [change for page in receiver.taken for change in page]
    else:
        path = tmp_path / "lines"
        wanted = asyncio.run(play(str(path)))
        delivered = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert sorted([facts(each) for each in delivered if each["member"] is not None]) == wanted


def facts(change: dict[str, Any]) -> tuple[Any, ...]:
    return (
        *(change["id"], change["kind"], change["member"], change["event_id"] or ""),
        *(sorted(change["labels"].items()), str(change["data"])),
    )


@pytest.mark.parametrize(
    "prefix", ["a b", "a;", "a'", 'a"', "a-", "1a", "é", "a.b", "x" * 33, "a%00", "a`", "a("]
)
def test_an_invalid_table_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidTarget):
        dialect_of(f"sqlite:///ledger.db?prefix={prefix}")
