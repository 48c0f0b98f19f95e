"""Erasing a member from an index server and its ledger: by processes that fail at any call, while
the ledger does not answer, and from boards that are deleted."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import pytest
from redis import Redis

import laurels
from laurels.errors import LaurelsError
from laurels.errors.index_server import IndexUnavailable, LedgerUnavailable
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.ledgers import Ledger
from laurels.stores.redis.registry import Registry
from tests.changes import all_changes
from tests.conftest import Scaled
from tests.contract.deployments import Divided, OnRedis
from tests.flows.sinking import sent
from tests.internals import remote
from tests.redis.writing import patient

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2], "amount": "5"}]}
WINDOWS: list[Any] = ["all", {"type": "day", "prizes": PRIZES}, "rolling:7d/1d"]


class Place:
    """Boards on an index server, which any number of processes can open."""

    def __init__(self, url: str, clock: laurels.ManualClock, stack: ExitStack) -> None:
        self._url = url
        self._clock = clock
        self._stack = stack

    def opened(self) -> laurels.Leaderboards:
        """Open the boards as one more process would."""
        return self._stack.enter_context(laurels.open(self._url, clock=self._clock))

    async def opened_async(self) -> laurels.AsyncLeaderboards:
        return await laurels.open_async(self._url, clock=self._clock)

    def texts(self) -> Iterator[str]:
        """Yield the text of every key on the index servers, and of every row in the ledger."""
        reads: dict[str, Callable[[Any, bytes], object]] = {
            "string": lambda client, key: client.get(key),
            "hash": lambda client, key: client.hgetall(key),
            "zset": lambda client, key: client.zrange(key, 0, -1),
            "set": lambda client, key: client.smembers(key),
            "list": lambda client, key: client.lrange(key, 0, -1),
            "stream": lambda client, key: client.xrange(key),
        }
        servers, _, prefix = self._url.partition("?prefix=")
        for port in re.findall(r":(\d+)", servers):
            with Redis(port=int(port)) as client:
                for key in client.scan_iter(f"{unquote(prefix)}*", count=1_000):
                    kind = client.type(key).decode()
                    yield f"{key!r} {reads[kind](client, key)!r}"
        with closing(sqlite3.connect(ledger_file())) as database:
            yield from database.iterdump()


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture(params=[OnRedis, Divided], ids=["one shard", "three shards"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Place]:
    deployed = request.param(tmp_path / "laurels-data", clock)
    with ExitStack() as stack, patient():
        stack.callback(deployed.close)
        yield Place(deployed.url, clock, stack)


def ledger_file() -> Path:
    return Path(os.environ["LAURELS_LEDGER_MAIN"].removeprefix("sqlite:///"))


def create(lb: laurels.Leaderboards, name: str = "b", **fields: Any) -> None:
    more: dict[str, Any] = {"windows": WINDOWS, "scopes": [[], ["room"]], "ledger": "main"}
    lb.create(laurels.Board(name, **{**more, **fields}))


def play(lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str, member: str) -> str:
    """Let a member win a day of a board, and return its label. All payouts are confirmed."""
    day = lb.periods(name, "day")[0]
    events = [(member, 20), ("ann", 30), ("bob", 5)]
    lb.submit_many(
        name,
        [laurels.Event(who, n, id=day.label, labels={"room": "1"}) for who, n in events],
    )
    lb.set_data(name, member, {"name": "somebody"})
    clock.set(day.end_ms + HOUR)
    lb.seal()
    for payout in lb.payouts(name, state="due"):
        lb.confirm(name, payout.id, "paid")
    lb.submit_many(name, [(who, n) for who, n in events])
    return day.label


DIGEST = re.compile(r'"[A-Za-z0-9+/]{43}="')
"""A SHA-256 digest in base64. It is random, so it may contain a short id."""


def named(place: Place, member: str) -> list[str]:
    """Return the keys and rows that name a member."""
    return [text for text in place.texts() if member in DIGEST.sub("", text)]


class Failing:
    """Makes one of the next calls of scripts or transactions in a ledger fail."""

    def __init__(self, nth: int) -> None:
        self._left = nth
        self.has_failed = False

    def script(self, script: Callable[..., Any]) -> Callable[..., Any]:
        async def call(connection: Connection, *arguments: Any) -> Any:
            self._count(IndexUnavailable("the test ends this process"))
            return await script(connection, *arguments)

        return call

    def write(self, write: Callable[..., Any]) -> Callable[..., Any]:
        async def call(ledger: Ledger, work: Any) -> Any:
            self._count(LedgerUnavailable("the test stops the ledger"))
            return await write(ledger, work)

        return call

    def _count(self, error: LaurelsError) -> None:
        self._left -= 1
        if self._left < 0:
            self.has_failed = True
            raise error


def test_a_process_that_fails_at_any_call_leaves_the_rest_to_the_next(
    place: Place, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    observer = place.opened()
    create(observer)
    create(observer, "other", windows=["all"])
    observer.submit("other", "ann", 1)
    for nth in count(0, scaled(4, 1)):
        member = f"zoe{nth}/'"
        label = play(observer, clock, "b", member)
        observer.submit("other", member, 1, id="x")
        observer.hide(None, member, "under review")
        failing, one = Failing(nth), place.opened()
        with (
            patch.object(Connection, "script", failing.script(Connection.script)),
            patch.object(Ledger, "write", failing.write(Ledger.write)),
            suppress(LaurelsError),
        ):
            one.erase(member, "asked for it")
        if failing.has_failed:
            observer.erase(member, "asked for it again")
        assert named(place, f"zoe{nth}/") == []
        assert [entry.member for entry in observer.top("other")] == ["ann"]
        then: dict[str, Any] = {"window": "day", "period": label}
        assert [observer.rank("b", who, **then) for who in ("ann", "bob")] == [1, 3]
        verified = observer.verify("b", **then)
        assert verified.verified
        assert len({each.token for each in verified.erased}) == 1
        assert len(verified.erased) == 2
        assert len(observer.payouts("b", period=label)) == 2
        if not failing.has_failed:
            break
    observer.check()


@pytest.mark.parametrize("hiding", ["b", None])
def test_a_process_that_fails_at_any_call_leaves_it_to_the_next_to_tell_followers(
    place: Place, hiding: str | None, scaled: Scaled
) -> None:
    observer = place.opened()
    boards = ["b"] if hiding else ["b", "other"]
    for name in boards:
        create(observer, name, windows=["all"], changes="9d")
    for nth in count(0, scaled(4, 1)):
        member = f"zoe{nth}"
        observer.hide(hiding, member, "a bot")
        failing, one = Failing(nth), place.opened()
        with (
            patch.object(Connection, "script", failing.script(Connection.script)),
            suppress(LaurelsError),
        ):
            one.erase(member, "asked for it")
        observer.erase("nobody", "asked for it")
        if not observer.hidden(hiding):  # otherwise the call failed before it began
            for name in boards:
                kinds = [c.kind for c in all_changes(observer, name) if c.member == member]
                assert (kinds[-1], "show" in kinds) == ("erase", False)
        if not failing.has_failed:
            break
        observer.erase(member, "asked for it again")


def test_the_ledger_is_down_and_the_id_comes_back(place: Place, clock: laurels.ManualClock) -> None:
    one, two = place.opened(), place.opened()
    create(one)
    first = play(one, clock, "b", "zoe")
    failing = Failing(0)
    with (
        patch.object(Ledger, "write", failing.write(Ledger.write)),
        pytest.raises(LedgerUnavailable),
    ):
        one.erase("zoe", "asked for it")
    assert [entry.member for entry in two.top("b")] == ["ann", "bob"]
    clock.advance(1)
    second = play(two, clock, "b", "zoe")
    remote(two).run(remote(two)._erasing.complete())
    top = [entry.member for entry in two.top("b", window="day", period=first)]
    assert top[::2] == ["ann", "bob"]
    assert top[1] != "zoe"
    assert [entry.member for entry in two.top("b", window="day", period=second)][1] == "zoe"
    assert two.verify("b", window="day", period=first).verified
    assert {payout.member for payout in two.payouts("b", period=first)} == {"ann", top[1]}
    assert {payout.member for payout in two.payouts("b", period=second)} == {"ann", "zoe"}


def interrupted(lb: laurels.Leaderboards, member: str) -> None:
    """Erase a member while the ledger does not answer: the member is removed from the boards only,
    and the erasure is not complete."""
    with (
        patch.object(Ledger, "write", Failing(0).write(Ledger.write)),
        pytest.raises(LedgerUnavailable),
    ):
        lb.erase(member, "asked for it")


def test_a_sink_that_starts_over_and_a_page_of_payouts_complete_an_erasure(
    place: Place, clock: laurels.ManualClock, tmp_path: Path
) -> None:
    """The sink reads no change of the erasure, since that is before its beginning. What it reads of
    the archive and the payouts must not name the member."""
    one = place.opened()
    create(one, changes="30d")
    for member in ("zoe", "yan"):
        play(one, clock, "b", member)
        interrupted(one, member)
        if member == "zoe":
            url = f"sqlite:///{tmp_path}/followed.db"
            asyncio.run(_follow(place, url, clock))
            with closing(sqlite3.connect(tmp_path / "followed.db")) as database:
                followed = " ".join(database.iterdump())
            assert "erased-" in followed
            assert member not in followed
        else:
            listed = [payout.id for payout in place.opened().due_payouts()]
            assert len(listed) == 2
            assert member not in str(listed)
        with closing(sqlite3.connect(ledger_file())) as database:
            assert member not in " ".join(database.iterdump())
        assert member not in str(list(one.audit()))


async def _follow(place: Place, url: str, clock: laurels.ManualClock) -> None:
    async with await place.opened_async() as lb:
        await sent(lb, url, now_ms=clock.now_ms)


@pytest.mark.parametrize("resumes", ["another process", "a second erasure"])
def test_entries_of_the_audit_log_between_a_crash_and_the_rest_of_an_erasure(
    place: Place, clock: laurels.ManualClock, resumes: str
) -> None:
    """The process ends after it has rewritten the audit log, and before the erasure is complete.
    Then others write about the member."""
    one, two = place.opened(), place.opened()
    create(one)
    play(one, clock, "b", "zoe")
    one.hide("b", "zoe", "under review")
    with (
        patch.object(Registry, "clear_note", side_effect=IndexUnavailable("the test ends this")),
        pytest.raises(IndexUnavailable),
    ):
        one.erase("zoe", "asked for it")
    two.remove("b", "zoe")
    two.show("b", "zoe")
    assert "zoe" in str(list(two.audit()))
    if resumes == "another process":
        remote(two).run(remote(two)._erasing.complete())
    else:
        two.erase("ann", "asked for it")
    assert "zoe" not in str(list(one.audit()))


def test_boards_that_are_deleted(place: Place, clock: laurels.ManualClock) -> None:
    one = place.opened()
    create(one)
    create(one, "kept", windows=["all", "day:archive=forever"])
    for name in ("b", "kept"):
        play(one, clock, name, "zoe")
        one.delete(name)
    erasure = place.opened().erase("zoe", "asked for it")
    assert (erasure.boards, erasure.periods, erasure.payouts) == (0, 2, 1)
    assert named(place, "zoe") == []


def test_a_member_below_the_head_of_an_archived_board(
    place: Place, clock: laurels.ManualClock
) -> None:
    one = place.opened()
    create(one, head=100, scopes=[[]], windows=["all", "day:archive=forever"])
    one.submit_many("b", [(f"m{i}", i + 1) for i in range(400)] + [("zoe", 0)])
    clock.advance(DAY)
    one.seal()
    one.erase("zoe", "asked for it")
    assert named(place, "zoe") == []


@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_member_that_a_closed_period_did_not_rank(
    place: Place, clock: laurels.ManualClock, *, is_hidden: bool
) -> None:
    """The member was hidden when the period was closed, or it had the score 0 on a board that ranks
    no such members."""
    one = place.opened()
    create(one, hide_zero=True, scopes=[[]], windows=["all", "day:archive=forever"])
    events = [*((f"m{i}", i + 1) for i in range(6)), ("zoe", int(is_hidden))]
    one.submit_many("b", events)
    if is_hidden:
        one.hide("b", "zoe", "a bot")
    clock.advance(DAY)
    one.seal()
    one.erase("zoe", "asked for it")
    assert named(place, "zoe") == []
