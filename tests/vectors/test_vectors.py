"""Each language implements each rule once, and every implementation gives the results in the
vectors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from zlib import crc32

import pytest

import laurels
from laurels import config
from laurels.core.index import Outcome
from laurels.core.plan import plan_batch
from laurels.core.ranking_key import RankingKey
from laurels.model.batch import batch_of
from laurels.model.event import EventReader
from laurels.model.labels import scope_named
from laurels.model.score import word_bounds
from laurels.stores.redis.index.batches import encode_batch
from laurels.stores.redis.index.coding import board_encoding
from laurels.stores.redis.index.names import key_of, name_of
from laurels.stores.redis.remote import Opened
from laurels.stores.redis.sharding.shards import shard_of
from tests.redis.servers import Server
from tests.vectors import homes, plain, routing_cases, write
from tests.vectors.cases import (
    FOLDER,
    NOW_MS,
    InstanceCase,
    RoutingVectors,
    SumCase,
    SumVectors,
    Words,
    WriteCase,
    WriteVectors,
    read,
)

RULE = read("write_rule", WriteVectors)
ROUTING = read("routing", RoutingVectors)
SUMS = read("sums", SumVectors)
BY_BOARD = [(name, list(own)) for name, own in groupby(RULE.cases, key=lambda case: case.board)]
BATCHES = [(name, list(own)) for name, own in groupby(SUMS.cases, key=lambda case: case.board)]

pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

boards = pytest.mark.parametrize(("name", "cases"), BY_BOARD, ids=[name for name, _ in BY_BOARD])
batches = pytest.mark.parametrize(("name", "cases"), BATCHES, ids=[name for name, _ in BATCHES])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture(params=["memory", "redis"])
def lb(
    request: pytest.FixtureRequest, clock: laurels.ManualClock
) -> Iterator[laurels.Leaderboards]:
    """Return the boards of a deployment that uses the engine (memory) or the scripts (redis)."""
    if request.param == "memory":
        with laurels.open("memory:", clock=clock) as opened:
            yield opened
        return
    url = f"{request.getfixturevalue('server').url}?prefix={prefix_of(request)}"
    with config.direct(url, clock) as opened:
        yield opened


def prefix_of(request: pytest.FixtureRequest) -> str:
    """Return a key prefix that only this test uses."""
    return f"{crc32(request.node.name.encode()):x}:"


@pytest.mark.parametrize("name", ["write_rule", "routing", "sums"])
def test_the_vectors_follow_from_the_plain_rules(name: str) -> None:
    kept = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert kept == write.text_of(write.made()[name])


# The write rule


def recorded_outcome(case: WriteCase) -> homes.Outcome:
    """Return the outcomes and entries of a story in the vectors."""
    return [event.outcome for event in case.events], case.entries


def recorded_columns(case: WriteCase, ranking: str) -> Words | None:
    """Return only the column words of a story's entry, because the answers of a store show no tie
    words."""
    words = case.entries[ranking]
    return None if words is None else words[: len(case.events[0].words)]


@boards
def test_the_oracle_writes_by_the_rule(name: str, cases: list[WriteCase]) -> None:
    board = RULE.boards[name]
    played = plain.Played(board.definition("b"))
    width = len(board.columns) + (board.tie != "member")
    for i, case in enumerate(cases):
        outcomes = [
            played.submit(f"m{i}", event.value, event.at_ms, sets=event.sets)
            for event in case.events
        ]
        assert outcomes == [event.outcome for event in case.events], case.description
    for day in sorted({day for case in cases for day in case.entries} - {"all"}):
        rankings = {"all": played.words("all"), day: played.words("day", day)}
        for i, case in enumerate(cases):
            for ranking in rankings.keys() & case.entries.keys():
                words = case.entries[ranking]
                assert rankings[ranking].get(f"m{i}") == (words and words[:width]), case.description


@boards
def test_the_engine_writes_by_the_rule(name: str, cases: list[WriteCase]) -> None:
    for case in cases:
        assert homes.engine(RULE.boards[name], case) == recorded_outcome(case), case.description


@boards
def test_the_core_makes_the_same_words_and_bounds(name: str, cases: list[WriteCase]) -> None:
    shape = plain.shaped(RULE.boards[name])
    rules = homes.board_of("b", RULE.boards[name]).rules()
    assert word_bounds(rules) == (shape.lows, shape.highs)
    assert (rules.is_stamped, rules.tie) == (shape.stamped, shape.tie)
    reader = EventReader(rules)
    for case in cases:
        columns = reader.gather([("ann", homes.numbers_of(e), e.at_ms) for e in case.events])
        refused = {i for i, _ in columns.errors}
        kept = [i for i in range(len(case.events)) if i not in refused]
        signed = [
            [rule.sign * value for value in column]
            for rule, column in zip(rules.columns, columns.values, strict=True)
        ]
        words = list(zip(*signed, strict=True))
        assert words == [case.events[i].words for i in kept], case.description
        assert {case.events[i].outcome for i in refused} <= {"out_of_range"}, case.description


@boards
def test_the_scripts_write_by_the_rule(server: Server, name: str, cases: list[WriteCase]) -> None:
    computed = homes.scripts(server, RULE.boards[name], cases)
    for case, outcome in zip(cases, computed, strict=True):
        assert outcome == recorded_outcome(case), case.description


@boards
def test_every_store_writes_by_the_rule(
    lb: laurels.Leaderboards, request: pytest.FixtureRequest, name: str, cases: list[WriteCase]
) -> None:
    """For the members `m0`, `m1`…, the events of a story are submitted one by one. For the members
    `b0`, `b1`…, the events of a story are one batch."""
    board = RULE.boards[name]
    definition = homes.board_of("b", board)
    lb.create(definition)
    at_once = [not any(event.sets for event in case.events) for case in cases]
    for i, case in enumerate(cases):
        outcomes = [event.outcome for event in case.events]
        alone = [homes.submitted(lb, "b", f"m{i}", event) for event in case.events]
        assert alone == outcomes, case.description
        if at_once[i]:
            batch = [(f"b{i}", homes.numbers_of(event), event.at_ms) for event in case.events]
            assert homes.outcomes_of(lb, "b", batch) == outcomes, case.description
    for ranking in sorted({ranking for case in cases for ranking in case.entries}):
        window, period = ("all", None) if ranking == "all" else ("day", ranking)
        stored = homes.columns_of(lb, "b", board, window, period)
        start_ms = definition.rules().windows[window].period_at(NOW_MS).start_ms
        if period is not None:
            start_ms = definition.rules().windows[window].period(period).start_ms
        for i, case in enumerate(cases):
            for member in [f"m{i}", f"b{i}"][: 1 + at_once[i]] if ranking in case.entries else []:
                assert stored.get(member) == recorded_columns(case, ranking), case.description
                if "redis" in request.node.callspec.params["lb"]:
                    assert_stored(
                        request, definition, f"{window}:{start_ms}", member, case.entries[ranking]
                    )


ROLLING = "live=rolling:3d/1d,grace=1d"
REFRESHED = "refreshed=rolling:3d/1d,grace=1d,refresh=1h"
UNSUMMED = [
    each for each in BY_BOARD if all("sum" not in c.op for c in RULE.boards[each[0]].columns)
]


@pytest.mark.parametrize(("name", "cases"), UNSUMMED, ids=[name for name, _ in UNSUMMED])
def test_steps_of_rolling_windows_are_combined_by_the_rule(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, name: str, cases: list[WriteCase]
) -> None:
    """The scores in a rolling window, combined from its steps, equal those in `all`. After
    yesterday has left the window, they equal those of today. The order of the members is also the
    same, which tests the stamps of equal scores."""
    lb.create(homes.board_of("b", RULE.boards[name], ROLLING, REFRESHED))
    for i, case in enumerate(cases):
        for event in case.events:
            assert homes.submitted(lb, "b", f"m{i}", event) == event.outcome, case.description
    for ranking, passes_ms in (
        ("all", 3_600_000),
        (plain.day_of(NOW_MS), 2 * routing_cases.DAY_MS),
    ):
        clock.advance(passes_ms)
        lb.submit("b", "member of the refreshing event", homes.numbers_of(cases[0].events[0]))
        expected = in_order(cases, ranking)
        for window in ("live", "refreshed"):
            listed = [entry.member for entry in lb.export("b", window=window)]
            listed.remove("member of the refreshing event")
            assert listed == [member for _, member in expected], (window, ranking)
            words = homes.columns_of(lb, "b", RULE.boards[name], window, None)
            for entry, member in expected:
                assert entry[: len(words[member])] == words[member], (window, ranking)


def in_order(cases: list[WriteCase], ranking: str) -> list[tuple[Words, str]]:
    """Return the words of a ranking's members, in the order of the ranking."""
    board = RULE.boards[cases[0].board]
    width = len(board.columns) + (board.tie != "member")
    rows = [(case.entries.get(ranking), f"m{i}") for i, case in enumerate(cases)]
    kept = [(words[:width], member) for words, member in rows if words is not None]
    return sorted(kept, key=lambda row: (row[0], row[1].encode()))


def assert_stored(
    request: pytest.FixtureRequest,
    board: laurels.Board,
    ranking: str,
    member: str,
    words: Words | None,
) -> None:
    """Assert that the server stores these words of a member. Some of them do not occur in
    answers."""
    rules, base = board.rules(), f"{prefix_of(request)}{{1.0}}:"
    form = None if words is None else homes.form_of(rules, words)
    server = request.getfixturevalue("server")
    assert homes.written(server, base, rules, ranking, member) == form, (ranking, member)


# Routing


def test_a_member_is_in_one_shard() -> None:
    for case in ROUTING.shards:
        assert shard_of(case.member.encode(), case.shards) == case.shard, case


def test_members_are_found_in_their_shards(server: Server) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with config.direct(f"{server.url}?prefix=shards:", clock) as lb:
        for number, count in enumerate(sorted({case.shards for case in ROUTING.shards}), start=1):
            lb.create(laurels.Board(f"b{count}", tie="member", shards=count))
            cases = [case for case in ROUTING.shards if case.shards == count]
            assert lb.submit_many(f"b{count}", [(case.member, 1) for case in cases]).applied
            for case in cases:
                key = f"shards:{{{number}.{case.shard}}}:r:all:{ROUTING.names[0].instance}"
                assert server.call("ZSCORE", key, case.member) is not None, case


def test_an_event_counts_in_the_scopes_whose_labels_it_has() -> None:
    for case in ROUTING.scopes:
        board = laurels.Board("b", scopes=[case.names, ["room", "zone", "other"]])
        rules = board.rules()
        batch = batch_of(EventReader(rules).gather([("ann", 1, None, None, case.labels)]), 1, 7)
        scopes = plan_batch(rules, {}, batch).scopes if batch.size else set()
        assert scopes == (set() if case.text is None else {case.text}), case
        if case.text is not None:
            own = {label: case.labels[label] for label in case.names}
            assert scope_named(rules, own) == case.text, case


def instances_of(cases: list[InstanceCase]) -> list[tuple[int, str, bool]]:
    """Return the period or step that the core assigns to each event. All events arrive together."""
    rules = laurels.Board("b", windows=[cases[0].window.definition]).rules()
    [window] = rules.windows.values()
    events = [("ann", 1, case.at_ms) for case in cases]
    batch = batch_of(EventReader(rules).gather(events), 1, cases[0].now_ms)
    plan = plan_batch(rules, {}, batch)
    instances = []
    for i, case in enumerate(cases):
        period, taken = window.period_at(case.at_ms), plan.index_of(0, i) >= 0
        number = window.instance_of(period)
        if taken:
            (_, _, number, _), period = plan.targets[plan.index_of(0, i)]
        instances.append((number, period.label, taken))
    return instances


def test_an_instant_belongs_to_one_period_or_step() -> None:
    for case in ROUTING.instances:
        expected = case.instance, case.label, case.taken
        assert instances_of([case]) == [expected], case


def test_instants_of_a_batch_belong_to_the_same_periods_as_single_ones() -> None:
    for _, group in groupby(ROUTING.instances, key=lambda case: (case.window, case.now_ms)):
        cases = list(group)
        expected = [(case.instance, case.label, case.taken) for case in cases]
        assert instances_of(cases) == expected, cases[0]
        assert instances_of(cases[::-1]) == expected[::-1], cases[0]


def test_the_server_stores_events_in_their_period_or_step(server: Server) -> None:
    for i, case in enumerate(case for case in ROUTING.instances if case.taken):
        clock, prefix = laurels.ManualClock(case.now_ms), f"at{i}:"
        with config.direct(f"{server.url}?prefix={prefix}", clock) as lb:
            lb.create(laurels.Board("b", tie="member", windows=[case.window.definition]))
            assert lb.submit("b", "ann", 1, at=case.at_ms).status == "applied"
        kind = "t" if case.window.span else "r"
        key = f"{prefix}{{1.0}}:{kind}:{case.window.called}:{case.instance}"
        assert server.call("EXISTS", key), case


def test_both_languages_give_a_ranking_the_same_name(server: Server) -> None:
    rankings = [(case.window, case.scope, case.instance) for case in ROUTING.names]
    answers = homes.run_script(
        server, homes.lua("names", "shard", "head"), laurels.Board("b").rules(), rankings=rankings
    )
    for case, (name, window) in zip(ROUTING.names, answers, strict=True):
        key = RankingKey(1, case.window, case.instance, case.scope)
        assert (name_of(key), key_of(1, case.name)) == (case.name, key), case
        assert (name, window) == (case.name, case.window), case


# Sums


def member_of(i: int, member: str) -> str:
    """Return the name of a member in batch `i`. All batches are on one board, with different
    members."""
    return f"{i}{member}"


@batches
def test_the_core_computes_the_sums_of_batches(name: str, cases: list[SumCase]) -> None:
    board = homes.board_of("b", SUMS.boards[name])
    rules = board.rules()
    for case in cases:
        events = [(event.member, event.value, event.at_ms) for event in case.events]
        batch = batch_of(EventReader(rules).gather(events), 1, NOW_MS)
        plan = plan_batch(rules, {}, batch)
        encoding = board_encoding(Opened(1, 1, rules))
        _, sums = encode_batch(encoding, batch, plan, added_up=True)
        assert (sums is None) == (case.added is None), case.description
        if sums is None or case.added is None:
            continue
        stamps = sums.stamps
        each = [stamps] * len(case.added) if isinstance(stamps, int) else stamps
        computed = list(zip(sums.sums, sums.lows, sums.highs, each, strict=True))
        assert computed == list(case.added.values()), case.description
        if case.fits:
            outcomes = sums.outcomes([case.base.get(member, False) for member in case.added])
            assert set(outcomes.codes) == {Outcome.APPLIED}
            assert outcomes.before is not None
            before = zip(outcomes.before.present, outcomes.before.words[0], strict=True)
            expected = [(event.before is not None, event.before or 0) for event in case.events]
            assert [(bool(there), word) for there, word in before] == expected, case.description


@pytest.mark.parametrize("server_side", [False, True], ids=["sums sent", "events sent"])
@batches
def test_the_scripts_compute_the_sums_of_batches(
    server: Server,
    request: pytest.FixtureRequest,
    server_side: bool,
    name: str,
    cases: list[SumCase],
) -> None:
    url = f"{server.url}?prefix={prefix_of(request)}"
    with config.direct(url, laurels.ManualClock(NOW_MS)) as lb:
        lb.create(homes.board_of("b", SUMS.boards[name]))
        for i, case in enumerate(cases):
            begin(lb, i, case)
            with homes.probed(server_side) as probes:
                count(lb, i, case)
            (fits, added), *again = probes
            assert fits == case.fits, case.description
            # If the sums that a batch was sent with do not fit, the batch is sent again as single
            # events. The script then adds them up itself, and its sums do not fit, either.
            told_alone = case.added is None or server_side
            assert bool(again) == (not fits and not told_alone), case.description
            assert not any(each[0] for each in again), case.description
            if server_side and case.added is not None:
                assert list(zip(*added, strict=True)) == list(case.added.values()), case.description
            elif server_side:
                assert not added, case.description
        check(lb, request, name, cases)


@batches
def test_every_store_counts_batches_as_their_events(
    lb: laurels.Leaderboards, request: pytest.FixtureRequest, name: str, cases: list[SumCase]
) -> None:
    lb.create(homes.board_of("b", SUMS.boards[name]))
    for i, case in enumerate(cases):
        begin(lb, i, case)
        count(lb, i, case)
    check(lb, request, name, cases)


def begin(lb: laurels.Leaderboards, i: int, case: SumCase) -> None:
    """Submit the totals that members have before a batch."""
    for member, total in case.base.items():
        lb.submit("b", member_of(i, member), total, at=write.TIMES["then"])


def count(lb: laurels.Leaderboards, i: int, case: SumCase) -> None:
    """Submit a batch, and assert that its events have the outcomes in the vector."""
    events = [(member_of(i, event.member), event.value, event.at_ms) for event in case.events]
    outcomes = homes.outcomes_of(lb, "b", events)
    assert outcomes == [event.outcome for event in case.events], case.description


def check(
    lb: laurels.Leaderboards, request: pytest.FixtureRequest, name: str, cases: list[SumCase]
) -> None:
    """Assert that all members have the words in the vectors. On a server, also compare the tie
    words."""
    board = SUMS.boards[name]
    window = board.windows[0]
    stored = homes.columns_of(lb, "b", board, window.called, None)
    expected = {
        member_of(i, member): words
        for i, case in enumerate(cases)
        for member, words in case.entries.items()
    }
    assert stored == {member: words[:1] for member, words in expected.items()}
    on_server = request.node.callspec.params.get("lb") != "memory"
    for member, words in expected.items() if on_server and window.unit == "all" else ():
        ranking = f"all:{ROUTING.names[0].instance}"
        assert_stored(request, homes.board_of("b", board), ranking, member, words)
