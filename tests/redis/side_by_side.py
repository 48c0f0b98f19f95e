"""Apply the same random operations to an index on a server and to one in memory, and compare their
answers.

The boards are chosen so that every layout occurs. The time jumps across the ends of periods and
steps. When a step ends, the pass of its window may be complete, begun or not begun.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

from laurels.core.index import Outcomes, Scores
from laurels.core.lifecycle import Due, due_of, next_boundary, rolling_state
from laurels.core.plan import plan_batch
from laurels.core.ranking_key import RankingKey, ranking_key
from laurels.core.requests import (
    AtBound,
    AtMember,
    End,
    Listing,
    ReadRequest,
    ReadResult,
    Span,
    Start,
    find,
)
from laurels.core.scope_scan import ScopeScan
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board, Column
from laurels.model.event import EventReader
from laurels.model.rules import Op, Rules
from laurels.model.windows.rolling import Rolling
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.outdated import ScopesNotReady, StepNotReady
from laurels.stores.redis.remote import CallId, Opened

START_MS = 1_795_219_200_000
HOUR_MS = 3_600_000
T = TypeVar("T")
MEMBERS = ["a", "ab", "b", "ä", "\0", "z" * 128, *[f"m{i}" for i in range(14)]]


@dataclass
class Pair:
    """The two indexes of one board, at the same time `now_ms`."""

    random: Random
    rules: Rules
    memory: MemoryIndex
    redis: RedisIndex
    opened: Opened
    now_ms: int = START_MS
    calls: int = 0

    @property
    def number(self) -> int:
        return self.opened.number

    @property
    def due(self) -> Due:
        """Return the work that is due for the scopes at the current time."""
        return due_of(self.number, self.rules, {}, self.now_ms)


def some_board(random: Random) -> Board:
    """Return a random board, in a plain, packed or prefixed layout."""
    kind = random.choice(["plain", "packed", "packed", "wide", "last", "decay"])
    columns = [_column(random, kind)]
    if kind not in ("plain", "decay") and random.random() < 0.5:
        columns.append(_column(random, kind))
    ops: list[Op] = ["sum", "last"] if kind == "last" else ["sum"]
    if kind != "decay" and random.random() < 0.25:
        ops = ["best"]
    columns = [
        Column(f"c{i}", op=random.choice(ops), order=column.order, min=column.min, max=column.max)
        for i, column in enumerate(columns)
    ]
    decay = random.sample(_DECAY, random.randrange(1, 3)) if kind == "decay" else []
    windows = ["all", *decay, *random.sample(_WINDOWS, random.randrange(0, 4))]
    return Board(
        "b",
        columns=columns,
        tie="member" if kind == "plain" else random.choice(["first", "last", "member"]),
        tie_resolution={"plain": "1ms", "packed": "1h", "wide": "1ms"}.get(
            kind, random.choice(["1ms", "1s"])
        ),
        rank=random.choice(["ordinal", "competition", "dense"]),
        windows=random.sample(windows, len(windows)),
        grace=random.choice(["0ms", "90m"]),
        dedupe="3h",
        dedupe_max=random.choice([5, 1_000]),
        **some_scopes(random),
    )


def some_scopes(random: Random, *, rank_by: bool = True) -> dict[str, Any]:
    """In a third of the calls, return scopes and labels whose values are ranked, otherwise none."""
    if random.random() < 2 / 3:
        return {}
    scopes = random.sample([[], ["room"], ["zone"], ["zone", "room"]], random.randint(1, 4))
    ranked = random.choice([[], [], ["room"], ["zone", "room"]]) if rank_by else []
    return {"scopes": scopes, "rank_by": ranked}


LABELS = {"room": ["1", "2", "10", "ä,b=c:d%", "a\x1fb"], "zone": ["cn", "us", "@all"]}


def some_labels(random: Random, rules: Rules) -> dict[str, str]:
    """Return the labels of an event that counts in some scope."""
    wanted = [*rules.scopes, *[(label,) for label in rules.rank_by]]
    named = {*random.choice(wanted), *random.sample(rules.labels, random.randint(0, 1))}
    return {label: random.choice(LABELS[label]) for label in named}


_WINDOWS = ["hour", "day", "rolling:3h/1h", "w=rolling:7h/1h,grace=2h", "rolling:2d/1d"]


_DECAY = ["decay:1s", "decay:90m", "hot=decay:6h", "decay:36500d"]


def _column(random: Random, kind: str) -> Column:
    low, high = random.choice([(0, 40), (-30, 30), (5, 60), (-50, -1)])
    if kind in ("plain", "wide", "last", "decay"):
        bound: Any = random.choice([(None, None), (low, high)])
        return Column(order=random.choice(["asc", "desc"]), min=bound[0], max=bound[1])
    return Column(order=random.choice(["asc", "desc"]), min=low, max=high)


async def play(pair: Pair, steps: int) -> None:
    """Do random operations. Compare the indexes after each operation."""
    for _ in range(steps):
        await _pass_time(pair)
        await _do_something(pair)
        await compare(pair)


async def _pass_time(pair: Pair) -> None:
    random = pair.random
    pair.now_ms += random.choice([0, 1, 40_000, HOUR_MS // 2, HOUR_MS, 3 * HOUR_MS, 9 * HOUR_MS])
    for window in pair.rules.windows.values():
        if not isinstance(window, Rolling):
            continue
        if random.random() < 0.5:
            await pair.redis.advance_pass(pair.opened, window.name, random.choice([1, 300]))
        roll = rolling_state(pair.number, window, pair.now_ms)
        assert roll is not None
        pair.memory.rotate_step(roll)
        while not await pair.redis.rotate_step(pair.opened, roll, pair.now_ms, 400):
            pass
        if random.random() < 0.3:
            await pair.redis.advance_pass(pair.opened, window.name, 300)
    if pair.rules.scoped:
        advance_memory(pair)
        for _ in range(random.choice([0, 0, 1, 100])):
            if await pair.redis.sweep(pair.opened, pair.due, 100):
                break
    if random.random() < 0.1:
        repair = random.random() < 0.5
        for key in await pair.redis.keys(pair.opened):
            await pair.redis.audit(pair.opened, key, repair=repair)
        await pair.redis.audit_scopes(pair.opened, repair=repair)


def advance_memory(pair: Pair) -> None:
    """Advance all scopes of the index in memory to the current time, as a fold does."""
    oldest_ms = pair.due.oldest_ms
    for scope in scopes_of(pair):
        for window in pair.rules.windows.values():
            if (roll := rolling_state(pair.number, window, pair.now_ms, scope)) is not None:
                pair.memory.rotate_step(roll)
        keys = pair.memory.keys(pair.number, scope)
        pair.memory.drop([k for k in keys if k.instance < oldest_ms.get(k.window, k.instance)])
        pair.memory.set_generation(pair.number, scope, 1)


def scopes_of(pair: Pair) -> list[str]:
    """Return all scopes of the index in memory."""
    return [scope for _, scope in pair.memory.next_scopes(pair.number, None, 1_000)]


async def advanced(pair: Pair, ask: Callable[[], Awaitable[T]]) -> T:
    """Return the answer of a call. If the call fails because scopes are stale, advance these scopes
    and repeat it."""
    for _ in range(100):
        try:
            return await ask()
        except StepNotReady as stale:
            full = isinstance(stale, ScopesNotReady)
            await pair.redis.advance_scopes(pair.opened, stale.scopes, pair.due, 300, full=full)
    raise AssertionError("the scopes are still stale")


async def _do_something(pair: Pair) -> None:
    random = pair.random
    kind = random.random()
    if kind < 0.08:
        member = random.choice(MEMBERS).encode()
        removed = await pair.redis.remove(pair.opened, member, pair.due)
        scan = ScopeScan(pair.number, member)
        while not scan.search_share(pair.memory):
            pass
        assert removed == pair.memory.remove(pair.number, member, scan.scopes)
    elif kind < 0.12:
        member = random.choice(MEMBERS).encode()
        data = random.choice([None, b'{"x":"\\u0000"}', '"ä"'.encode()])
        await pair.redis.set_data(pair.opened, member, data)
        pair.memory.set_data(pair.number, member, data)
    else:
        await _count(pair)


async def _count(pair: Pair) -> None:
    random, rules = pair.random, pair.rules
    batch = some_batch(random, rules, pair.number, pair.now_ms)
    plan = plan_batch(rules, {}, batch)
    watch = random.randrange(len(plan.specs))
    due_ms = next_boundary(rules, pair.now_ms)
    ranks = random.random() < 0.5 and not plan.specs[watch].by
    pair.calls += 1
    count = partial(
        pair.redis.apply,
        pair.opened,
        batch,
        plan,
        watch,
        ranks=ranks,
        due_ms=due_ms,
        call=CallId("side by side", pair.calls),
    )
    # If an earlier batch had to be sent as single events, the index remembers this. Let it forget,
    # so that this call tries the sums first.
    if random.random() < 0.7:
        pair.redis._each.clear()
    applied = await advanced(pair, count)
    assert await count() == applied, (rules, batch)
    expected = pair.memory.apply(batch, plan, watch)
    assert list(applied.outcomes.codes) == list(expected.codes), (rules, batch)
    if 7 not in expected.codes:  # the server returns no results of a batch that was rolled back
        assert _scores(applied.outcomes) == _scores(expected), (rules, batch)
    if applied.ranks_after is not None:
        assert applied.ranks_after == _ranks(pair, batch, plan, watch)


def some_batch(random: Random, rules: Rules, board: int, now_ms: int) -> Batch:
    """Return a batch of some events of few members. Some events are late, repeated, or out of
    range."""
    absolute = random.random() < 0.15 and rules.can_set
    return batch_of(
        EventReader(rules).gather(_events(random, rules, now_ms)),
        board,
        now_ms,
        atomic=random.random() < 0.2,
        absolute=absolute,
    )


def _events(random: Random, rules: Rules, now_ms: int) -> list[tuple[object, ...]]:
    events: list[tuple[object, ...]] = []
    with_ids, with_ats = random.random() < 0.5, random.random() < 0.6
    for _ in range(random.choice([1, 1, 3, 12, 40])):
        value = tuple(_value(random, column) for column in rules.columns)
        event: list[object] = [random.choice(MEMBERS), value if len(value) > 1 else value[0]]
        at = now_ms - random.choice([0, 0, 1, 1_000, HOUR_MS, 2 * HOUR_MS, 30 * HOUR_MS])
        if with_ats or with_ids:
            event.append(at if with_ats else None)
        if with_ids:
            event.append(random.choice([None, f"id{random.randrange(40)}"]))
        if rules.scoped:
            event += [None] * (4 - len(event)) + [some_labels(random, rules)]
        events.append(tuple(event))
    return events


def _value(random: Random, column: Any) -> int:
    if column.op == "sum":
        return random.choice([0, 1, 2, 5, -1, -3, 17])
    low, high = max(column.low, -60), min(column.high, 60)
    return random.randint(low, high)


def _scores(outcomes: Outcomes) -> list[object]:
    return [None if side is None else _words(side) for side in (outcomes.before, outcomes.after)]


def _words(side: Scores) -> list[tuple[int, ...] | None]:
    return [
        tuple([column[i] for column in side.words]) if there else None
        for i, there in enumerate(side.present)
    ]


def _ranks(pair: Pair, batch: Batch, plan: Any, watch: int) -> array[int]:
    ranks = array("q")
    for i, member in enumerate(batch.member_list()):
        target = plan.ranking(watch, i)
        ranks.append(-1 if target is None else pair.memory.ranks(target.key, [member])[0])
    return ranks


async def compare(pair: Pair) -> None:
    """Compare the answers to every kind of query about every ranking."""
    asks = []
    for window in pair.rules.windows.values():
        period = window.period_at(pair.now_ms)
        asks += [_ask(pair, ranking_key(pair.number, window, period)) for _ in range(2)]
        for scope in [*scopes_of(pair), "room=none"] if pair.rules.scoped else []:
            asks.append(_ask(pair, ranking_key(pair.number, window, period, scope)))
    asks += [listing(pair.random, pair.rules, pair.number) for _ in range(3)]
    due_ms = next_boundary(pair.rules, pair.now_ms)
    read = await advanced(
        pair,
        lambda: pair.redis.read(pair.opened, asks, now_ms=pair.now_ms, due_ms=due_ms),
    )
    if pair.random.random() < 0.3:
        for place in pair.rules.specs if pair.rules.scoped else ():
            scope_count = await pair.redis.scope_count(pair.opened, place.name)
            assert scope_count >= pair.memory.scope_count(pair.number, place.name)
    for ask, result in zip(asks, read.results, strict=True):
        expected = find(pair.memory, ask)
        width = pair.rules.order_words(ask.key.window)
        actual, due = comparable(result, width), comparable(expected, width)
        assert actual == due, (actual, due, pair.rules, ask)


def listing(random: Random, rules: Rules, board: int) -> ReadRequest:
    """Return a request for the list of the scopes that exist for some labels."""
    form = ",".join(random.choice(rules.scopes))
    after = random.choice(["", "", "room=1", "zone=cn"]) if form else ""
    return ReadRequest(RankingKey(board, "", 0), scopes=Listing(form, after, random.randrange(8)))


def comparable(result: ReadResult, width: int) -> list[object]:
    """Return a result in a form for comparison. It has only the words that decide the order, and no
    words or data for members that are absent."""
    located = None
    if result.located is not None:
        where = result.located
        located = [
            (at, rank, [column[i] for column in where.words[:width]] if at >= 0 else None)
            for i, (at, rank) in enumerate(zip(where.positions, where.ranks, strict=True))
        ]
    slices = [
        (
            part.start,
            part.members,
            list(part.ranks),
            [list(column) for column in part.words[:width]],
        )
        for part in result.slices
        if part.members
    ]
    return [result.total, result.positions, slices, located, result.data, list(result.scopes)]


def _ask(pair: Pair, key: RankingKey) -> ReadRequest:
    random, columns = pair.random, pair.rules.score_words(key.window)
    width = pair.rules.order_words(key.window)
    total = pair.memory.size(key)
    anchors: list[Any] = [Start(), End(), AtMember(random.choice(MEMBERS).encode())]
    words = [random.randint(-70, 70) for _ in range(columns)]
    anchors.append(AtBound(tuple(words), None, random.random() < 0.5))
    if total:
        part = pair.memory.slice(key, at := random.randrange(total), at + 1)
        own = [column[0] for column in part.words][:width]
        if random.random() < 0.2:
            own[random.randrange(width)] += random.choice([-1, 1])
        member = random.choice([None, random.choice(MEMBERS).encode(), part.members[0].encode()])
        if member is None:
            own = own[: random.randint(1, width)]
        anchors.append(AtBound(tuple(own), member, random.random() < 0.5))
    spans = []
    for _ in range(3):
        low = random.randint(-5, 5)
        length = random.randint(0, 9)
        present = [i for i, _ in enumerate(anchors) if i != 2]
        ends = [None, random.choice(present)]
        spans.append(
            Span(
                random.randrange(len(anchors)),
                low,
                low + length,
                random.choice(ends),
                random.choice(ends),
                random.random() < 0.3,
            )
        )
    members = tuple(random.sample([*MEMBERS, *LABELS["room"]], random.randint(0, 4)))
    return ReadRequest(key, tuple(anchors), tuple(spans), members, random.random() < 0.4)
