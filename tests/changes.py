"""Compare the changes of a board with the list of the oracle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import laurels
from laurels.core.changes.answers import Change
from tests.definitions import Changed, ColumnDef, Definition, Score, duration_ms
from tests.ends_of_hidings import without_ends
from tests.oracle import Oracle

UNCOMPARED = frozenset(
    ("create", "change", "close", "seal", "erase", "payout", "delete", "undelete")
)
"""Kinds of changes that the oracle does not note."""


def score_of(score: Score, columns: tuple[ColumnDef, ...]) -> Any:
    parts = [
        Decimal(part).scaleb(-column.scale) if column.scale else part
        for part, column in zip(score, columns, strict=True)
    ]
    return parts[0] if len(parts) == 1 else tuple(parts)


def expected(changed: Changed, definition: Definition) -> dict[str, Any]:
    """Return the fields of a change without its id, as plain values."""
    all_window = next((w.called for w in definition.windows if w.unit == "all"), None)
    columns = definition.columns
    sums = [column.op == "sum" for column in columns]
    delta: Any = None
    if changed.values is not None and any(sums):
        exact = score_of(changed.values, columns)
        parts = exact if isinstance(exact, tuple) else (exact,)
        kept = tuple(part if is_sum else None for part, is_sum in zip(parts, sums, strict=True))
        delta = kept[0] if len(kept) == 1 else kept
    resolution_ms = duration_ms(definition.tie_resolution)
    has_last = any(column.op == "last" for column in columns)
    rankings = {}
    for (window, period, labels), (row, newest_ms) in changed.entries.items():
        rankings[window, period, labels] = (
            score_of(row.score, columns),
            None if definition.tie == "member" else row.stamp * resolution_ms,
            newest_ms if has_last else None,
        )
    totals = [
        score
        for (name, _, labels), (score, _, _) in rankings.items()
        if name == all_window and not labels
    ]
    return {
        "kind": changed.kind,
        "at_ms": changed.at_ms,
        "event_id": changed.id,
        "labels": dict(changed.labels),
        "delta": delta,
        "score": totals[0] if totals else None,
        "rankings": rankings,
        "data": changed.data,
    }


def as_dict(change: Change) -> dict[str, Any]:
    rankings = {
        (each.window, each.period, tuple(sorted((each.labels or {}).items()))): (
            each.score,
            each.reached_ms,
            each.last_ms,
        )
        for each in change.rankings
    }
    assert len(rankings) == len(change.rankings)
    return {
        "kind": change.kind,
        "at_ms": change.at_ms,
        "event_id": change.event_id,
        "labels": change.labels,
        "delta": change.delta,
        "score": change.score,
        "rankings": rankings,
        "data": _data(change),
    }


def _data(change: Change) -> object:
    """Return the data of a change, without digests and without the uid of the board."""
    data = change.data
    if change.kind == "confirm":
        return {**data, "payout": data["payout"].partition("/")[2]}
    if change.kind == "disqualify":
        return {name: value for name, value in data.items() if name != "digest"}
    return data


def of_ledger(changes: Iterable[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the changes that a board with a ledger records in its first shard. If it has several
    shards, their order to the other changes of a member is not defined."""
    return [each for each in changes if each[1]["kind"] in {"confirm", "disqualify"}]


def by_member(changes: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the changes of each member, in their order. Changes of different members have no
    common order if the board has several shards."""
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for member, change in changes:
        grouped[member].append(change)
    return dict(grouped)


def all_changes(
    lb: laurels.Leaderboards, board: str, limit: int = 7, **begin: Any
) -> Iterator[Change]:
    """Yield all changes, read in small pages."""
    page = lb.changes(board, limit=limit, **begin)
    while True:
        assert len(page) <= limit
        yield from page
        if not page.more:
            return
        page = lb.changes(board, after=page.cursor, limit=limit)


def assert_changes(
    lb: laurels.Leaderboards,
    oracle: Oracle,
    board: str,
    limit: int = 7,
    *,
    complete: bool = False,
) -> list[Change]:
    """Assert that the changes of a board's members equal the oracle's; return them. With
    `complete`, the ends of all hidings that have ended must be among them."""
    events = [c for c in all_changes(lb, board, limit) if c.kind not in UNCOMPARED]
    listed = oracle.boards[board]
    wanted = [
        (each.member, expected(each, listed.definition)) for each in listed.changes if each.kind
    ]
    actual = without_ends(
        [(str(change.member), as_dict(change)) for change in events],
        listed,
        oracle.now_ms(),
        complete=complete,
    )
    assert by_member(of_ledger(actual)) == by_member(of_ledger(wanted))
    if oracle.ledger_of(board):
        actual, wanted = (
            [each for each in changes if each not in of_ledger(changes)]
            for changes in (actual, wanted)
        )
    assert by_member(actual) == by_member(wanted)
    return events
