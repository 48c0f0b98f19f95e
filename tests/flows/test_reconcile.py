"""A ledger and its store are compared, and what differs is mended, while writes go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.cli import main
from laurels.core.mending import EntryColumns, StoredEntry, entry_columns
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.errors.ledger import LedgerIncomplete, NoLedger
from laurels.errors.sinks import SinkBehind
from laurels.flows.ledger.databases import dialect_of
from laurels.flows.ledger.reconcile import Reconciled, Reconciling, Side
from laurels.model.labels import scope_named
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import Served

from .sinking import NOW_MS, ledger, rankings, rows, sent
from .test_ledger import BOARDS, ODD_MEMBERS, board, prefix_of, step, values

Corrupt = Callable[[Random], None]


async def reconciled(
    lb: laurels.AsyncLeaderboards, url: str, mend: Side | None = None, **more: Any
) -> Reconciled:
    return await Reconciling(lb, *dialect_of(url), mend, **more).run("b")


def stored_rankings(lb: laurels.Leaderboards) -> list[tuple[str, str | None, Any, list[str]]]:
    """Every ranking of the board: window, period, labels and members."""
    found: dict[str, tuple[str, str | None, Any, list[str]]] = {}
    page = lb.changes("b", initial=True)
    while not (page.changes and page[-1].kind == "initial_end"):
        for change in page:
            (each,) = change.rankings
            name = each.window, each.period, each.labels
            found.setdefault(str(name), (*name, []))[3].append(str(change.member))
        page = lb.changes("b", after=page.cursor)
    return list(found.values())


def corrupt_store(lb: laurels.AsyncLeaderboards, random: Random) -> None:
    """Change an entry without a record in the log, as a fault of the program would."""
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
    columns: EntryColumns = entry_columns([entry], state.rules)
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
    """Change a row, as a fault or a person would."""
    table = f"{prefix_of(url)}scores"
    names = "board, member, window_name, period, scope"
    found = rows(url, f"SELECT {names} FROM {table} ORDER BY {names}")
    chosen = random.choice(found)
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


@pytest.mark.parametrize("mend", ["ledger", "store"])
@pytest.mark.parametrize("kind", BOARDS)
def test_corruptions_are_found_and_mended(kind: str, mend: Side, url: str, scaled: Scaled) -> None:
    defined, random = BOARDS[kind], Random(f"{kind} {mend}")
    clock = laurels.ManualClock(NOW_MS)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            for _ in range(12):
                await step(lb, defined, random)
                clock.advance(3_600_000)
            await lb.submit_many("b", [("z", values(defined, random), None, None, some(defined))])
            await sent(lb, url)
            before = rankings(lb.sync, defined)
            sound = await reconciled(lb, url)
            assert (sound.differing, sound.waiting) == (0, 0)
            assert sound.entries == sum(map(len, before.values()))
            for _ in range(scaled(6, 200)):
                if mend == "store":
                    corrupt_store(lb, random)
                else:
                    corrupt_ledger(url, random)
            seen = await reconciled(lb, url)
            assert seen.differing > 0
            assert seen.mended == 0
            assert len(seen.differences) == min(20, seen.differing)
            done = await reconciled(lb, url, mend)
            assert done.differing == done.mended == seen.differing
            assert rankings(lb.sync, defined) == before
            assert ledger(url, defined, prefix_of(url)) == before
            again = await reconciled(lb, url)
            assert again.differing == again.waiting == 0 or mend == "store"
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            await lb.check()

    asyncio.run(play())


def some(defined: laurels.Board) -> dict[str, str] | None:
    names = {name for names in defined.scopes for name in names}
    return dict.fromkeys(names, "1") or None


@pytest.mark.parametrize("mend", ["ledger", "store"])
def test_writes_that_go_on_are_left_alone(mend: Side, url: str, scaled: Scaled) -> None:
    """Corruptions of either side beside a sink and events: nothing changes that was right."""
    defined, random = board(windows=["all", "day"]), Random(mend)
    members = [*ODD_MEMBERS, *[f"m{i}" for i in range(400)]]
    expected: dict[str, int] = {}

    async def events(lb: laurels.AsyncLeaderboards, count: int) -> None:
        some = [(random.choice(members[:100]), random.randrange(1, 9)) for _ in range(count)]
        for member, value in some:
            expected[member] = expected.get(member, 0) + value
        await lb.submit_many("b", some)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            for member in members:
                expected[member] = 3
            await lb.submit_many("b", [(member, 3) for member in members])
            await sent(lb, url)
            quiet = members[100:]
            for each in random.sample(quiet, scaled(40, 300)):
                if mend == "ledger":
                    statement = f"UPDATE {prefix_of(url)}scores SET score_1 = 99 WHERE member = %s"
                    dialect, _ = dialect_of(url)
                    connection = dialect.connect()
                    dialect.execute(connection, statement, (each,))
                    connection.commit()
                    connection.close()
                else:
                    corrupt_member(lb, each)

            async def pause(_seconds: float) -> None:
                await events(lb, 20)
                await sent(lb, url)

            await events(lb, 50)
            done = await reconciled(lb, url, mend, sleep=pause)
            assert done.mended == done.differing == 2 * scaled(40, 300)
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            totals = {e.member: e.score for e in lb.sync.export("b", window="all")}
            assert totals == expected
            held = ledger(url, defined, prefix_of(url))
            assert held["all", "", ""] == {m: (v,) for m, v in expected.items()}

    asyncio.run(play())


def corrupt_member(lb: laurels.AsyncLeaderboards, member: str) -> None:
    """Give a member other scores in every ranking, without a record."""
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


def test_what_the_sink_has_not_written_is_no_difference(url: str) -> None:
    async def nothing(_seconds: float) -> None:
        pass

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit_many("b", [("ann", 1), ("bob", 2)])
            await sent(lb, url)
            await lb.submit_many("b", [("ann", 5), ("cid", 1)])
            await lb.remove("b", "bob")
            for mend in (None, "ledger", "store"):
                found = await reconciled(lb, url, mend, sleep=nothing)
                assert (found.differing, found.mended, found.waiting) == (0, 0, 9)
            await sent(lb, url)
            assert (await reconciled(lb, url)).waiting == 0

    asyncio.run(play())


def test_a_ledger_that_cannot_be_compared_is_refused(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            with pytest.raises(NoLedger):
                await reconciled(lb, url)
            await sent(lb, url)
            await lb.delete("b")
            await lb.create(board())
            await lb.submit("b", "bob", 1)
            with pytest.raises(SinkBehind):
                await reconciled(lb, url)
            dialect, prefix = dialect_of(url)
            connection = dialect.connect()
            dialect.execute(connection, f"UPDATE {prefix}sinks SET position = NULL")
            connection.commit()
            connection.close()
            with pytest.raises(LedgerIncomplete):
                await reconciled(lb, url)

    asyncio.run(play())


def test_the_command_ends_with_1_where_differences_remain(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = f"sqlite:///{tmp_path}/ledger.db", str(tmp_path / "boards")

    async def play() -> None:
        async with laurels.open_async(folder) as lb:
            await lb.create(board())
            await lb.submit_many("b", [("ann", 5), ("bob", 7)])
            await sent(lb, url)

    asyncio.run(play())
    command = ["reconcile", "b", "--with", url, "--at", folder]
    assert main(command) == 0
    assert "b: 6 entries, 0 differ" in capsys.readouterr().out
    corrupt_ledger(url, Random(1))
    assert main([*command, "--json"]) == 1
    assert '"differing":1' in capsys.readouterr().out
    assert main([*command, "--mend", "ledger"]) == 0
    assert "1 differ; 1 mended" in capsys.readouterr().out
    assert main(command) == 0


def corrupt_rows(url: str, members: list[str]) -> None:
    """Give members other scores in the ledger, in every ranking."""
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    for member in members:
        statement = f"UPDATE {prefix}scores SET score_1 = 99 WHERE member = %s"
        dialect.execute(connection, statement, (member,))
    connection.commit()
    connection.close()


@pytest.mark.parametrize("mend", ["ledger", "store"])
@pytest.mark.parametrize("kind", ["redis", "shards", "http"])
def test_every_kind_of_store_is_compared(kind: str, mend: Side, tmp_path: Path) -> None:
    """Where the store is told to be wrong, it gets what the ledger has."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    defined = board(windows=["all", "day"], shards=3 if kind == "shards" else 1)

    async def play(at: str) -> None:
        async with laurels.open_async(at) as lb:
            await lb.create(defined)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(200)])
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            corrupt_rows(url, ["m3", "m77", "m150"])
            done = await reconciled(lb, url, mend)
            assert (done.differing, done.mended, done.waiting) == (6, 6, 0)
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            entries = await lb.entries("b", ["m3", "m77", "m150", "m4"])
            wanted = [3, 77, 150, 4] if mend == "ledger" else [99, 99, 99, 4]
            assert [entry.score for entry in entries] == wanted
            await lb.check()

    if kind == "http":
        with Served(tmp_path / "served") as served:
            asyncio.run(play(served.url))
    else:
        server = Server()
        try:
            asyncio.run(play(server.url))
        finally:
            server.stop()
