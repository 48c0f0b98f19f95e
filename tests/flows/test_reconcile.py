"""A ledger is compared with its store, and differences are mended, while writes continue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
from laurels.flows.ledger.locked import LockedRows
from laurels.flows.ledger.reconcile import BoardReconciler, ReconcileResult, Side
from laurels.flows.ledger.rows import escape
from laurels.model.labels import scope_named
from tests.conftest import Scaled
from tests.counts import covering
from tests.redis.servers import Server
from tests.serving import Served

from .sinking import NOW_MS, ledger, rankings, rows, sent
from .test_ledger import BOARDS, ODD_MEMBERS, board, prefix_of, step, values

Corrupt = Callable[[Random], None]


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


@pytest.mark.parametrize(("kind", "mend"), covering([*BOARDS], ["ledger", "store"]))
def test_corruptions_are_found_and_repaired(
    kind: str, mend: Side, url: str, scaled: Scaled
) -> None:
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


@pytest.mark.parametrize("mend", ["ledger", "store"])
def test_zeros_that_are_not_ranked_are_compared_and_repaired(
    mend: Side, url: str, scaled: Scaled
) -> None:
    """The ledger of a board with `hide_zero` has the members whose score is 0, too, because the
    board counts them."""
    defined, random = board(hide_zero=True, windows=["all", "day"]), Random(mend)
    clock = laurels.ManualClock(NOW_MS)
    members = [f"m{i}" for i in range(30)]

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            for _ in range(4):
                await lb.submit_many("b", [(m, random.randrange(-1, 2)) for m in members])
                clock.advance(86_400_000)
            await sent(lb, url)
            for _ in range(scaled(5, 60)):
                if mend == "store":
                    corrupt_store(lb, random)
                else:
                    corrupt_ledger(url, random)
            assert (await reconciled(lb, url, mend)).mended > 0
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            written = ledger(url, defined, prefix_of(url))
            ranked = rankings(lb.sync, defined)
            await lb.change("b", hide_zero=False)
            assert rankings(lb.sync, defined) == written
            assert ranked != written
            assert ranked == {
                name: {member: score for member, score in entries.items() if any(score)}
                for name, entries in written.items()
            }

    asyncio.run(play())


def some(defined: laurels.Board) -> dict[str, str] | None:
    names = {name for names in defined.scopes for name in names}
    return dict.fromkeys(names, "1") or None


class Beside:
    """The verbs of a store. `act` is called before and after each verb. Two calls of `act` never
    overlap."""

    def __init__(self, lb: laurels.AsyncLeaderboards, act: Callable[[], Awaitable[None]]) -> None:
        self._lb = lb
        self._act = act
        self._turn = asyncio.Lock()

    async def _take_turn(self) -> None:
        async with self._turn:
            await self._act()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._lb, name)

        async def call(*args: Any, **more: Any) -> Any:
            await self._take_turn()
            result = await verb(*args, **more)
            await self._take_turn()
            return result

        return call


class History:
    """Writes to a board during a comparison, and the values that its members must have in the end.
    Only the members in `busy` get events."""

    def __init__(self, lb: laurels.AsyncLeaderboards, url: str, random: Random) -> None:
        self.members = [*ODD_MEMBERS, *[f"m{i}" for i in range(400)]]
        self.busy = self.members[:100]
        self.totals = dict.fromkeys(self.members, 3)
        self.data: dict[str, Any] = {member: {"n": 1} for member in self.members[::3]}
        self.is_locked = False
        self._lb = lb
        self._url = url
        self._random = random

    async def begin(self) -> None:
        await self._lb.submit_many("b", [(member, 3) for member in self.members])
        for member, data in self.data.items():
            await self._lb.set_data("b", member, data)
        await sent(self._lb, self._url)

    async def act(self) -> None:
        """Submit some events. Sometimes also run the sink, unless the comparison has paused it."""
        random, lb = self._random, self._lb
        some = [
            (random.choice(self.busy), random.randrange(1, 9))
            for _ in range(random.choice([0, 1, 20]))
        ]
        for member, value in some:
            self.totals[member] += value
        await lb.submit_many("b", some)
        if random.random() < 0.1:
            member = random.choice(self.busy)
            self.data[member] = random.choice([[1, 2.5], "t", {"n": "\0"}])
            await lb.set_data("b", member, self.data[member])
        if not self.is_locked and random.random() < 0.2:
            await sent(lb, self._url)

    async def pause(self, _seconds: float) -> None:
        await self.act()
        await sent(self._lb, self._url)

    def corrupt(self, mend: Side) -> None:
        """Change a member's values on the side that the comparison mends. If that is the store,
        choose a member without events, because events would be added to the wrong score."""
        if mend == "store":
            member = self._random.choice(self.members[100:])
            if self._random.random() < 0.3:
                corrupt_data(self._lb, member, self._random.choice([None, b"[9]"]))
            else:
                corrupt_member(self._lb, member)
            return
        member = self._random.choice(self.members)
        table, change = self._random.choice(
            [
                ("scores", "UPDATE {} SET score_1 = score_1 + 99"),
                ("scores", "UPDATE {} SET reached_at = 5"),
                ("scores", "DELETE FROM {}"),
                ("member_data", "UPDATE {} SET data = '9'"),
                ("member_data", "DELETE FROM {}"),
            ]
        )
        change = change.replace("{}", f"{{}}{table}")
        run_in(self._url, f"{change} WHERE board = 'b' AND member = %s", escape(member))


@pytest.mark.parametrize("mend", ["ledger", "store"])
def test_only_corruptions_are_repaired_during_writes(
    mend: Side, url: str, scaled: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, writes of member data and runs of the sink happen between any two steps of the
    comparison. In the end, both the store and the ledger have the totals of the events."""
    defined, random = board(windows=["all", "day"]), Random(mend)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            await sent(lb, url)
            history = History(lb, url, random)
            lock, unlock = LockedRows.lock, LockedRows.unlock

            def locking(rows: LockedRows) -> Any:
                history.is_locked = True
                return lock(rows)

            def unlocking(rows: LockedRows) -> None:
                unlock(rows)
                history.is_locked = False

            monkeypatch.setattr(LockedRows, "lock", locking)
            monkeypatch.setattr(LockedRows, "unlock", unlocking)
            await history.begin()
            beside: Any = Beside(lb, history.act)
            for _ in range(scaled(2, 20)):
                for _ in range(scaled(10, 50)):
                    history.corrupt(mend)
                done = await reconciled(beside, url, mend, sleep=history.pause)
                assert done.mended == done.differing > 0
            await sent(lb, url)
            await reconciled(lb, url, mend)
            await sent(lb, url)
            last = await reconciled(lb, url)
            assert (last.differing, last.waiting) == (0, 0)
            totals = {e.member: e.score for e in lb.sync.export("b", window="all")}
            assert totals == history.totals
            written = ledger(url, defined, prefix_of(url))
            for ranking in written.values():
                assert ranking == {m: (v,) for m, v in history.totals.items()}
            entries = await lb.entries("b", history.members, with_data=True)
            assert {e.member: e.data for e in entries if e.data is not None} == history.data
            await lb.check()

    asyncio.run(play())


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


def run_in(url: str, statement: str, *row: Any) -> None:
    """Run a statement in a ledger, as a bug or a person would."""
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    dialect.execute(connection, statement.replace("{}", prefix), row)
    connection.commit()
    connection.close()


def corrupt_data(lb: laurels.AsyncLeaderboards, member: str, data: bytes | None) -> None:
    """Change the data of a member, without a record in the log."""
    store: Any = lb.sync._store
    with store._lock:
        store._fold.index.set_data(store.named("b").number, member.encode(), data)


@pytest.mark.parametrize("mend", ["ledger", "store"])
@pytest.mark.parametrize("kind", ["sums", "rooms"])
def test_member_data_is_compared_and_repaired(kind: str, mend: Side, url: str) -> None:
    defined = BOARDS[kind]

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            # a sink that starts later would not send the data of members that are not ranked
            await sent(lb, url)
            members = [*ODD_MEMBERS, *[f"m{i}" for i in range(8)]]
            events = [(member, 1, None, None, some(defined)) for member in members]
            await lb.submit_many("b", events)
            wanted = {member: {"n": i, "t": "a\0"} for i, member in enumerate(members)}
            for member, data in wanted.items():
                await lb.set_data("b", member, data)
            await lb.set_data("b", "unranked", [1.5])
            wanted |= {"unranked": [1.5]}  # type: ignore[dict-item]
            await sent(lb, url)
            sound = await reconciled(lb, url)
            assert (sound.data, sound.differing, sound.waiting) == (len(wanted), 0, 0)
            if mend == "ledger":
                where = "WHERE board = 'b' AND member = %s"
                run_in(url, f"UPDATE {{}}member_data SET data = '[7]' {where}", "m1")
                run_in(url, f"UPDATE {{}}member_data SET data = 'no' {where}", "m2")
                run_in(url, f"DELETE FROM {{}}member_data {where}", "a")
                run_in(
                    url,
                    "INSERT INTO {}member_data VALUES ('b', %s, '2', 5)",
                    "stranger" + "x" * 200,
                )
            else:
                corrupt_data(lb, "m1", b"[7]")
                corrupt_data(lb, "a", None)
                corrupt_data(lb, "unranked", b'"other"')
                await lb.remove("b", "m2")
                await lb.submit_many("b", [("m2", 1, None, None, some(defined))])
                await sent(lb, url)
                del wanted["m2"]
                corrupt_data(lb, "m2", b'"from nowhere"')
            seen = await reconciled(lb, url)
            assert (seen.differing, seen.mended, len(seen.data_differences)) == (4, 0, 4)
            done = await reconciled(lb, url, mend)
            assert (done.differing, done.mended, done.remaining) == (4, 4, 0)
            await sent(lb, url)
            again = await reconciled(lb, url)
            assert (again.differing, again.waiting, again.data) == (0, 0, len(wanted))
            names = [*members, "unranked"]
            entries = await lb.entries("b", names, labels=some(defined), with_data=True)
            assert {e.member: e.data for e in entries if e.data is not None} == wanted

    asyncio.run(play())


def test_invalid_member_data_remains_a_difference(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await lb.set_data("b", "ann", 1)
            await sent(lb, url)
            for wrong in ("no json", '"' + "x" * 2_000 + '"'):
                run_in(url, "UPDATE {}member_data SET data = %s", wrong)
                done = await reconciled(lb, url, "store")
                assert (done.differing, done.mended, done.remaining) == (1, 0, 1)
                assert done.data_differences[0].store == "1"

    asyncio.run(play())


def test_a_source_with_a_very_long_name_does_not_stop_the_ledger(url: str) -> None:
    """The ledger leaves out its position, but has its events and the positions of other sources."""

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            for source in ("s", "x" * 300, "x" * 301, "\\" * 151):
                await lb.submit_many("b", [("ann", 1)], position=(source, "7"))
            await sent(lb, url)
            stored = rows(url, f"SELECT source FROM {prefix_of(url)}source_positions")
            assert {source for (source,) in stored} == {"s", "x" * 300}
            assert ledger(url, board(), prefix_of(url))["all", "", ""] == {"ann": (4,)}
            result = await reconciled(lb, url)
            assert (result.differing, result.position_differences) == (0, ())

    asyncio.run(play())


def test_positions_are_compared_and_repaired_in_the_ledger(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            for source in ("s1", "s\0", "s3"):
                await lb.submit_many("b", [("ann", 1)], position=(source, "7 \\"))
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            run_in(url, "UPDATE {}source_positions SET position = '9' WHERE source = 's1'")
            run_in(url, "DELETE FROM {}source_positions WHERE source = 's3'")
            run_in(url, "INSERT INTO {}source_positions VALUES ('b', 'other', '1', 1)")
            for mend, mended in ((None, 0), ("store", 0), ("ledger", 3)):
                done = await reconciled(lb, url, mend)  # type: ignore[arg-type]
                assert (done.differing, done.mended) == (3, mended)
                assert len(done.position_differences) == 3
            assert await lb.position("b", "s1") == "7 \\"
            assert await lb.position("b", "other") is None
            assert (await reconciled(lb, url)).differing == 0
            await lb.submit_many("b", [("ann", 1)], position=("s1", "8"))

            async def nothing(_seconds: float) -> None:
                pass

            first = await reconciled(lb, url, "ledger", sleep=nothing)
            assert (first.differing, first.waiting > 0) == (0, True)
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0

    asyncio.run(play())


def test_changes_that_are_not_sent_yet_are_not_a_difference(url: str) -> None:
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
                report = await reconciled(lb, url, mend, sleep=nothing)
                assert (report.differing, report.mended, report.waiting) == (0, 0, 9)
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
    with laurels.open(folder) as lb:
        lb.submit_many("b", [("ann", 1), ("bob", 1)])
    capsys.readouterr()
    assert main(command) == 1, "a lagging sink leaves entries that cannot be compared"
    assert "0 differ; 6 could not be checked" in capsys.readouterr().out


def mends(lb: laurels.AsyncLeaderboards) -> int:
    """Return how many calls of `mend` are in the audit log."""
    return sum(entry.verb == "mend" for entry in lb.sync.audit(limit=1_000).entries)


def test_a_store_is_mended_in_batches(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"

    async def play() -> None:
        async with laurels.open_async(str(tmp_path / "boards")) as lb:
            await lb.create(board(windows=["all"]))
            members = [f"m{i}" for i in range(500)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            done = await reconciled(lb, url, "store")
            assert (done.differing, done.mended, done.waiting) == (500, 500, 0)
            assert {e.score for e in lb.sync.export("b")} == {99}
            assert mends(lb) == 3

    asyncio.run(play())


class MovedBefore:
    """The verbs of a store. Just before the first call of `mend`, each of `members` gets an
    event."""

    def __init__(self, lb: laurels.AsyncLeaderboards, members: list[str]) -> None:
        self._lb = lb
        self._members = members

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lb, name)

    async def mend(self, *args: Any, **more: Any) -> Any:
        members, self._members = self._members, []
        await self._lb.submit_many("b", [(member, 1) for member in members])
        return await self._lb.mend(*args, **more)


def test_an_entry_that_changed_is_skipped_and_the_others_of_its_batch_are_mended(url: str) -> None:
    async def pause(_seconds: float) -> None:
        pass

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board(windows=["all", "day"]))
            members = [f"m{i}" for i in range(50)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            moved: Any = MovedBefore(lb, ["m7", "m8"])
            done = await reconciled(moved, url, "store", sleep=pause)
            assert (done.differing, done.mended) == (100, 96)
            scores = {e.member: e.score for e in lb.sync.export("b")}
            assert scores == dict.fromkeys(members, 99) | {"m7": 2, "m8": 2}
            assert mends(lb) == 1

    asyncio.run(play())


def test_an_entry_that_no_ranking_can_have_is_skipped(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board(columns=[laurels.Column("score", max=200)], windows=["all"]))
            members = [f"m{i}" for i in range(60)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            for member in ("m7", "m41"):
                run_in(url, "UPDATE {}scores SET score_1 = 201 WHERE member = %s", member)
            done = await reconciled(lb, url, "store")
            assert (done.differing, done.mended, done.waiting) == (60, 58, 0)
            scores = {e.member: e.score for e in lb.sync.export("b")}
            assert scores == dict.fromkeys(members, 99) | {"m7": 1, "m41": 1}

    asyncio.run(play())


def corrupt_rows(url: str, members: list[str]) -> None:
    """Change the scores of members in every ranking of the ledger."""
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
    """With `mend="store"`, wrong scores in the ledger are written into the store."""
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
