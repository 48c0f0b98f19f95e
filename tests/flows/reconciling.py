"""Helpers of the tests of `reconcile`: they compare a ledger with its store, and change entries on
one side."""

from __future__ import annotations

from random import Random
from typing import Any

import laurels
from laurels.core.mending import MendedColumns, StoredEntry, entry_columns
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.flows.ledger.reconcile import BoardReconciler, ReconcileResult, Side
from laurels.model.labels import scope_named
from laurels.sql.databases import dialect_of

from .sinking import NOW_MS, rows
from .test_ledger import prefix_of


async def reconciled(
    lb: laurels.AsyncLeaderboards, url: str, mend: Side | None = None, **more: Any
) -> ReconcileResult:
    return await BoardReconciler(lb, *dialect_of(url), mend, **more).run("b")


def stored_rankings(lb: laurels.Leaderboards) -> list[tuple[str, str | None, Any, list[str]]]:
    """Return every ranking of the board: window, period, labels and members."""
    by_name: dict[str, tuple[str, str | None, Any, list[str]]] = {}
    page = lb.changes("b", initial=True)
    while not (page.changes and page[-1].kind == "initial_end"):
        for change in page:
            (each,) = change.rankings
            name = each.window, each.period, each.labels
            by_name.setdefault(str(name), (*name, []))[3].append(str(change.member))
        page = lb.changes("b", after=page.cursor)
    return list(by_name.values())


def corrupt_store(lb: laurels.AsyncLeaderboards, random: Random) -> None:
    """Change an entry of the store without a record in the log, as a bug would."""
    store: Any = lb.sync._store
    state = store.named("b")
    window, period, labels, members = random.choice(stored_rankings(lb.sync))
    member = random.choice(members)
    (entry,) = lb.sync.entries("b", [member], window=window, period=period, labels=labels)
    kind = random.choice(["score", "gone", "time", "new"])
    parts = entry.score if isinstance(entry.score, tuple) else (entry.score,)
    if kind == "gone":
        entry = StoredEntry(member)
    elif kind == "time" and entry.reached_ms is not None:
        entry = StoredEntry(member, entry.score, entry.reached_ms - 5, entry.last_ms)
    elif kind == "new":
        name = f"new{random.random()}"
        entry = StoredEntry(name, entry.score, entry.reached_ms, entry.last_ms)
    else:
        changed = (parts[0] + 1, *parts[1:])  # type: ignore[operator]
        score = changed if len(changed) > 1 else changed[0]
        entry = StoredEntry(member, score, entry.reached_ms, entry.last_ms)
    columns: MendedColumns = entry_columns([entry], state.rules)
    kind_of = state.rules.windows[window]
    instance = kind_of.instance_of(kind_of.period(period)) if period else -(2**60)
    if not period:
        instance = kind_of.period_at(0).start_ms
    scope = ""
    if labels:
        scope = scope_named(state.rules, labels)
    key = RankingKey(state.number, window, instance, scope)
    with store._lock:
        store._fold.index.mend(
            key, MendRanking(0, 0, 0, *key[1:], columns.members, columns.lengths, columns.rows)
        )


def corrupt_ledger(url: str, random: Random) -> None:
    """Change a row of the ledger, as a bug or a person would."""
    table = f"{prefix_of(url)}scores"
    names = "board, member, window_name, period, scope"
    stored = rows(url, f"SELECT {names} FROM {table} ORDER BY {names}")
    chosen = random.choice(stored)
    where = "board = %s AND member = %s AND window_name = %s AND period = %s AND scope = %s"
    kind = random.choice(["score", "gone", "time", "new"])
    if kind == "gone":
        change, more = f"DELETE FROM {table} WHERE {where}", chosen
    elif kind == "score":
        change, more = f"UPDATE {table} SET score_1 = score_1 + 1 WHERE {where}", chosen
    elif kind == "time":
        change = f"UPDATE {table} SET reached_at = 5, last_at = 7 WHERE {where}"
        more = chosen
    else:
        rest = ", ".join(
            ["score_1", "score_2", "score_3", "score_4", "reached_at", "last_at", "period_start"]
        )
        change = (
            f"INSERT INTO {table} ({names}, {rest}, bucket, version) "
            f"SELECT board, %s, window_name, period, scope, {rest}, bucket, version "
            f"FROM {table} WHERE {where}"
        )
        more = (f"new{random.random()}", *chosen)
    dialect, _ = dialect_of(url)
    connection = dialect.connect()
    dialect.execute(connection, change, more)
    connection.commit()
    connection.close()


def some(defined: laurels.Board) -> dict[str, str] | None:
    names = {name for names in defined.scopes for name in names}
    return dict.fromkeys(names, "1") or None


def corrupt_rows(url: str, members: list[str]) -> None:
    """Change the scores of members in every ranking of the ledger."""
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    for member in members:
        statement = f"UPDATE {prefix}scores SET score_1 = 99 WHERE member = %s"
        dialect.execute(connection, statement, (member,))
    connection.commit()
    connection.close()


def corrupt_member(lb: laurels.AsyncLeaderboards, member: str) -> None:
    """Change the scores of a member in every ranking, without a record in the log."""
    store: Any = lb.sync._store
    state = store.named("b")
    columns = entry_columns([StoredEntry(member, 99, 5)], state.rules)
    for window in state.rules.windows.values():
        instance = window.instance_of(window.period_at(NOW_MS))
        key = RankingKey(state.number, window.name, instance)
        with store._lock:
            store._fold.index.mend(
                key, MendRanking(0, 0, 0, *key[1:], columns.members, columns.lengths, columns.rows)
            )


def corrupt_data(lb: laurels.AsyncLeaderboards, member: str, data: bytes | None) -> None:
    """Change the data of a member, without a record in the log."""
    store: Any = lb.sync._store
    with store._lock:
        store._fold.index.set_data(store.named("b").number, member.encode(), data)


def run_in(url: str, statement: str, *row: Any) -> None:
    """Run a statement in a ledger, as a bug or a person would."""
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    dialect.execute(connection, statement.replace("{}", prefix), row)
    connection.commit()
    connection.close()
