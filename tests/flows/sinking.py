"""Helpers of the sink tests: they run a sink in this process and read the content of a ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import msgspec
import nats

import laurels
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.parking import Parking
from laurels.flows.sinks.runner import SinkRunner
from laurels.model.labels import labels_text
from laurels.sql.databases import dialect_of
from laurels.sql.texts import unescape

NOW_MS = 1_790_000_000_000
Rankings = dict[tuple[str, str, str], dict[str, tuple[Any, ...]]]
"""The scores of members by window, period and scope."""


async def nothing(_seconds: float) -> None:
    """A sleep that returns at once."""


def sink_of(
    lb: laurels.AsyncLeaderboards,
    url: str,
    *,
    name: str = "sink",
    delivery: DeliveryOptions = DeliveryOptions(allows_private=True),  # noqa: B008 (immutable)
    sleep: Callable[[float], Awaitable[None]] = nothing,
    parking: Parking | None = None,
    report: Callable[[str], None] = lambda _: None,
    now_ms: Callable[[], int] = lambda: NOW_MS,
    **options: Any,
) -> SinkRunner:
    """Return a sink that ends as soon as it has sent everything."""
    settings = SinkOptions(name, **{"until_end": True, **options})
    target = open_target(url, name, delivery, lb, now_ms)
    return SinkRunner(
        lb, target, settings, now_ms=now_ms, parking=parking, report=report, sleep=sleep
    )


async def sent(lb: laurels.AsyncLeaderboards, url: str, **options: Any) -> SinkRunner:
    """Run a sink until it has sent everything; return the sink."""
    sink = sink_of(lb, url, **options)
    await sink.run()
    assert not sink.failed
    return sink


def rows(url: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query in a database."""
    dialect, _ = dialect_of(url)
    connection = dialect.connect()
    try:
        fetched = dialect.execute(connection, statement, parameters).fetchall()
        connection.commit()
        return [tuple(row) for row in fetched]
    finally:
        connection.close()


def drop(url: str) -> None:
    """Drop the views and tables of a ledger in PostgreSQL or MariaDB."""
    dialect, prefix = dialect_of(url)
    found = rows(
        url,
        "SELECT table_type, table_name FROM information_schema.tables WHERE table_name LIKE %s "
        # list views first, since they are dropped before the tables that they read
        "ORDER BY table_type DESC",
        f"{prefix}%",
    )
    connection = dialect.connect()
    for kind, name in found:
        dialect.execute(connection, f"DROP {kind.removeprefix('BASE ')} {dialect.quote(name)}")
    connection.commit()
    connection.close()


def ledger(url: str, board: laurels.Board, prefix: str = "laurels_") -> Rankings:
    """Return the rankings of a board as a ledger stores them."""
    dialect, _ = dialect_of(url)
    scales = [column.scale for column in board.columns]
    stored: Rankings = {}
    for window, period, scope, member, *scores in rows(
        url,
        "SELECT window_name, period, scope, member, score_1, score_2, score_3, score_4 "
        f"FROM {prefix}scores WHERE board = %s",
        board.name,
    ):
        score = tuple([dialect.score(s, scale) for s, scale in zip(scores, scales, strict=False)])
        assert scores[len(scales) :] == [None] * (4 - len(scales))
        stored.setdefault((window, period, unescape(scope)), {})[unescape(member)] = score
    return stored


def _parts(score: Any) -> tuple[int | Decimal, ...]:
    return score if isinstance(score, tuple) else (score,)


def rankings(lb: laurels.Leaderboards, board: laurels.Board) -> Rankings:
    """Return the rankings of a board as the verbs of its store report them."""
    stored: Rankings = {}
    for window in ("all", "day", "month"):
        if window not in board.windows:
            continue
        for labels in _scopes(lb, board):
            text = labels_text(labels)
            for period in lb.periods(board.name, window=window, labels=labels):
                scores = {
                    entry.member: _parts(entry.score)
                    for entry in lb.export(
                        board.name,
                        window=window,
                        period=None if window == "all" else period.label,
                        labels=labels,
                    )
                }
                if scores:
                    stored[window, "" if window == "all" else period.label, text] = scores
    return stored


def _scopes(lb: laurels.Leaderboards, board: laurels.Board) -> list[dict[str, str]]:
    scopes: list[dict[str, str]] = []
    for names in board.scopes:
        if not names:
            scopes.append({})
        else:
            scopes += [dict(scope) for scope in lb.scopes(board.name, *names)]
    return scopes


async def create_stream(url: str) -> None:
    """Create the JetStream stream to which a sink sends. It detects repeated message ids for an
    hour."""
    client = await nats.connect(url)
    try:
        await client.jetstream().add_stream(
            name="changes", subjects=["changes.>"], duplicate_window=3_600
        )
    finally:
        await client.close()


async def messages(url: str) -> list[Any]:
    """Return all messages of the stream `changes`."""
    client = await nats.connect(url)
    try:
        stream = client.jetstream()
        count = (await stream.stream_info("changes")).state.messages
        reader = await stream.subscribe("changes.>", ordered_consumer=True)
        return [msgspec.json.decode((await reader.next_msg(60)).data) for _ in range(count)]
    finally:
        await client.close()
