"""A ledger has the same content as its store, in every database and after every kind of change."""

from __future__ import annotations

import asyncio
import os
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

import laurels
from laurels.errors.sinks import LedgerTaken, SinkOvertaken, TargetUnavailable
from laurels.flows.ledger import target as ledger_target
from laurels.flows.ledger.rows import GENERATION_BITS
from laurels.flows.ledger.season_rows import SeasonRows
from laurels.flows.ledger.target import LedgerTarget
from laurels.flows.sinks.target import SinkPage
from laurels.sql.databases import dialect_of
from laurels.sql.texts import escape, unescape

from .sinking import NOW_MS, ledger, rankings, rows, sent, sink_of

DAY_MS = 86_400_000
ODD_MEMBERS = [
    "a\0b",
    "a\\0b",
    "\\",
    "a",
    "A",
    "a ",
    "'; DROP TABLE x; --",
    "é",
    "%s",
    "🏆",
    "x" * 128,
]


def prefix_of(url: str) -> str:
    return dialect_of(url)[1]


def board(**more: Any) -> laurels.Board:
    return laurels.Board(
        **{
            "name": "b",
            "windows": ["all", "day", "month"],
            "changes": "7d",
            "keep": 3,
            "grace": "1d",
            **more,
        }
    )


BOARDS = {
    "sums": board(),
    "decimals": board(columns=[laurels.Column("s", scale=4)], tie="last"),
    "several": board(columns=[laurels.Column("a"), laurels.Column("t", op="last", scale=2)]),
    "best": board(columns=[laurels.Column("m", op="best"), laurels.Column("n", op="best")]),
    "scopes": board(scopes=[[], ["room"], ["room", "kind"]], tie="member"),
    "rooms": board(scopes=[["room"]]),
    "head": board(head=100),
}


def values(board: laurels.Board, random: Random) -> Any:
    numbers = []
    for column in board.columns:
        value = random.randrange(-5_000, 9_000)
        numbers.append(Decimal(value).scaleb(-column.scale) if column.scale else value)
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


async def step(lb: laurels.AsyncLeaderboards, board: laurels.Board, random: Random) -> None:
    members = [*ODD_MEMBERS, *[f"m{i}" for i in range(40)]]
    kind = random.choice(["many", "many", "many", "one", "remove", "data", "set"])
    labels: dict[str, str] = {}
    if any(board.scopes):
        labels = {"room": random.choice("12 /"), "kind": random.choice("xy")}
        labels = {name: value for name, value in labels.items() if name in str(board.scopes)}
    if kind == "many":
        events = [
            (random.choice(members), values(board, random), None, None, labels or None)
            for _ in range(random.randrange(1, 60))
        ]
        await lb.submit_many("b", events)
    elif kind == "one":
        await lb.submit("b", random.choice(members), values(board, random), labels=labels or None)
    elif kind == "remove":
        await lb.remove("b", random.choice(members))
    elif kind == "data":
        data = random.choice([None, {"name": "n\0"}, [1, 2.5], "t"])
        await lb.set_data("b", random.choice(members), data)
    elif not any(board.scopes):
        await lb.set("b", random.choice(members), values(board, random))


@pytest.mark.parametrize("kind", BOARDS)
def test_a_ledger_has_the_same_content_as_the_store(
    kind: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history has periods that end and expire, removals, and member data. Some sinks start
    again from the current entries. Pages are written in shares of different sizes."""
    defined, random = BOARDS[kind], Random(kind)
    clock = laurels.ManualClock(NOW_MS)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            await sent(lb, url)
            for _round in range(12):
                monkeypatch.setattr(ledger_target, "CHANGES_A_SHARE", random.choice([1, 8, 2_500]))
                for _ in range(random.randrange(8)):
                    await step(lb, defined, random)
                clock.advance(random.choice([0, 3_600_000, DAY_MS, 3 * DAY_MS]))
                await lb.submit("b", "last", values(defined, random), labels=_some(defined))
                await sent(lb, url)
                written, expected = ledger(url, defined, prefix_of(url)), rankings(lb.sync, defined)
                assert written.keys() - expected.keys() == set()
                assert written == expected
            data_of_members = {
                entry.member: entry.data
                async for entry in lb.export("b", with_data=True, labels=_some(defined))
                if entry.data is not None
            }
            if not any(defined.scopes):
                stored = rows(url, f"SELECT member, data FROM {prefix_of(url)}member_data")
                assert {
                    unescape(member): msgspec.json.decode(data) for member, data in stored
                } == data_of_members

    asyncio.run(play())


def _some(board: laurels.Board) -> dict[str, str] | None:
    names = {name for names in board.scopes for name in names}
    if () in board.scopes and not names:
        return None
    return dict.fromkeys(names, "1")


def test_a_ledger_is_rewritten_when_changes_are_missing(url: str) -> None:
    """The sink writes all current entries again. The change `initial_end` after them makes the
    ledger remove all other rows."""
    defined = board(changes="1d")

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(50)])
            await sent(lb, url)
            await lb.remove("b", "m7")
            await lb.change("b", changes="")
            await lb.submit_many("b", [(f"m{j}", j) for j in range(8, 48)])
            await lb.change("b", changes="1d")
            stored = rows(url, f"SELECT position FROM {prefix_of(url)}sinks")[0][0]
            with pytest.raises(laurels.errors.ChangesExpired):
                await lb.changes("b", after=stored)
            notes: list[str] = []
            sink = await sent(lb, url, report=notes.append)
            assert sink.metrics.boards["b"].restarts == 1
            assert "all current entries" in notes[0]
            assert ledger(url, defined, prefix_of(url)) == rankings(lb.sync, defined)
            assert rows(url, f"SELECT generation FROM {prefix_of(url)}sinks") == [(2,)]
            versions = rows(url, f"SELECT min(version) FROM {prefix_of(url)}scores")
            assert int(versions[0][0]) >> GENERATION_BITS == 2

    asyncio.run(play())


def test_a_recreated_board_replaces_the_old_one_in_the_ledger(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit_many("b", [("old", 1), ("both", 2)])
            await sent(lb, url)
            await lb.delete("b")
            await lb.create(board(title="anew"))
            await lb.submit_many("b", [("new", 3), ("both", 5)])
            await sent(lb, url)
            written = ledger(url, board(), prefix_of(url))
            assert written["all", "", ""] == {"new": (3,), "both": (5,)}
            assert rows(url, f"SELECT title FROM {prefix_of(url)}boards") == [("anew",)]

    asyncio.run(play())


def test_a_runner_that_another_has_replaced_writes_nothing(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            before = rows(url, f"SELECT position FROM {prefix_of(url)}sinks")[0][0]
            await lb.submit("b", "ann", 10)
            page = await lb.changes("b", after=before)
            await lb.submit("b", "ann", 100)
            await sent(lb, url)
            dialect, prefix = dialect_of(url)
            late = LedgerTarget(dialect, prefix, "sink", lb, lambda: NOW_MS)
            await late.open()
            with pytest.raises(SinkOvertaken):
                await late.deliver(SinkPage("b", page.changes, before, page.cursor))
            await late.close()
            assert ledger(url, board(), prefix)["all", "", ""] == {"ann": (111,)}

    asyncio.run(play())


def test_a_page_whose_answer_was_lost_is_written_once(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            page = await lb.changes("b")
            dialect, prefix = dialect_of(url)
            target = LedgerTarget(dialect, prefix, "sink", lb, lambda: NOW_MS)
            await target.open()
            for _ in range(2):
                await target.deliver(SinkPage("b", page.changes, None, page.cursor))
            assert await target.position("b") == page.cursor
            await target.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("owner", "step"), [(LedgerTarget, "_write"), (SeasonRows, "delete_expired")]
)
def test_an_interrupted_page_is_rolled_back(url: str, owner: type, step: str) -> None:
    """A page is interrupted after its position was written, or after its rows were written. In both
    cases the transaction is undone, and the page is written when the sink sends it again."""

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            dialect, prefix = dialect_of(url)
            positions = f"SELECT position FROM {prefix}sinks"
            before = rows(url, positions)[0][0]
            await lb.submit("b", "ann", 10)
            page = await lb.changes("b", after=before)
            to_send = SinkPage("b", page.changes, before, page.cursor)
            target = LedgerTarget(dialect, prefix, "sink", lb, lambda: NOW_MS)
            await target.open()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, step, Mock(side_effect=RuntimeError("broke off")))
                with pytest.raises(RuntimeError, match="broke off"):
                    await target.deliver(to_send)
            assert rows(url, positions)[0][0] == before
            assert ledger(url, board(), prefix)["all", "", ""] == {"ann": (1,)}
            await target.deliver(to_send)
            assert rows(url, positions)[0][0] == page.cursor
            assert ledger(url, board(), prefix)["all", "", ""] == {"ann": (11,)}
            await target.close()

    asyncio.run(play())


def test_another_sink_cannot_write_to_the_same_tables(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url, name="one")
            with pytest.raises(LedgerTaken, match="'one'"):
                await sink_of(lb, url, name="other").run()

    asyncio.run(play())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_database_that_is_down_delays_changes_and_loses_none(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    url = f"{server.url}?prefix=down_"
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            await asyncio.to_thread(server.start)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            server.kill()
            await lb.submit("b", "ann", 2)
            notes: list[str] = []
            await sent(lb, url, sleep=sleep, report=notes.append)
            assert ledger(url, board(), "down_")["all", "", ""] == {"ann": (3,)}
            assert len(waits) == 3
            assert waits == sorted(waits) or waits[0] < waits[2]
            assert len(notes) == 1
            assert TargetUnavailable.advice in notes[0]

    asyncio.run(play())


@pytest.mark.parametrize("text", [*ODD_MEMBERS, "", "\\\\0", "\\0\0", "\0\\"])
def test_escaped_texts_round_trip(text: str) -> None:
    assert unescape(escape(text)) == text
    assert "\0" not in escape(text)


def test_a_file_of_sqlite_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Only the owner may read the new file, even if the umask of the process would allow others. If
    somebody changes its mode later, that mode is kept."""
    path, before = tmp_path / "ledger.db", os.umask(0)
    url = f"sqlite:///{path}"

    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            assert path.stat().st_mode & 0o777 == 0o600
            path.chmod(0o640)
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            assert path.stat().st_mode & 0o777 == 0o640

    try:
        asyncio.run(play())
    finally:
        os.umask(before)
