"""Merge entries of several feeds into one batch for the rankings by a label. Pure functions.

One call may have sent its events to several shards. When its entries are merged together, the
events are put back into their original order, so that they count as on a board in one shard. The
entries of one feed keep their order.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from laurels.core.lifecycle import rolling_state
from laurels.core.plan import NO_SCOPE, Plan
from laurels.core.ranking_key import RankingKey, Target
from laurels.model.batch import Batch
from laurels.model.labels import concatenate
from laurels.model.rules import RankingSpec
from laurels.model.windows.kinds import Window
from laurels.stores.redis.remote import Opened
from laurels.timeline.instants import MIN_MS

from .feed import FeedEntry, FeedPlace, decode_labels


class MergedFeed(Struct, frozen=True):
    """A planned batch for the rankings by a label. `spans` has an item for each shard with entries
    in the batch: the shard, the entry before its first entry in the batch, and its last entry in
    the batch. `baselines` has an item for each event: the previous total if the event sets a total,
    otherwise False. It is None if no event sets a total."""

    batch: Batch
    plan: Plan
    spans: list[tuple[int, FeedPlace, FeedPlace]]
    baselines: list[Sequence[int] | bool] | None


def next_runs(
    pending: Sequence[Sequence[FeedEntry]], most: int
) -> list[list[tuple[int, FeedEntry]]]:
    """Return the entries to count next, with their shards, grouped by call. They have about `most`
    events in all; the available entries of one call stay together."""
    runs: list[list[tuple[int, FeedEntry]]] = []
    heads, size = [0] * len(pending), 0
    last: tuple[int, int] | None = None
    while waiting := [
        (entries[heads[shard]].payload.now_ms, entries[heads[shard]].payload.call, shard)
        for shard, entries in enumerate(pending)
        if heads[shard] < len(entries)
    ]:
        now_ms, call, shard = min(waiting)
        if (now_ms, call) != last:
            if size >= most:
                break
            runs.append([])
            last = now_ms, call
        entry = pending[shard][heads[shard]]
        runs[-1].append((shard, entry))
        heads[shard] += 1
        size += len(entry.payload.events)
    return runs


class _Event(NamedTuple):
    """An event with the numbers by which events are sorted: the index of its call, its position in
    the call, the index of its entry, and its row in the entry."""

    run: int
    place: int
    entry: int
    row: int


def merge_feeds(
    home: Opened,
    runs: Sequence[Sequence[tuple[int, FeedEntry]]],
    after: Sequence[FeedPlace],
    now_ms: int,
) -> MergedFeed:
    """Merge entries into one batch, accepted at `now_ms`. For each feed, `after` has the place of
    the entry before the first merged one."""
    entries = [entry for run in runs for _, entry in run]
    events = sorted(_events(runs))
    entry_rows = [(entries[event.entry], event.row) for event in events]
    firsts, size = [], 0
    for entry in entries:
        firsts.append(size)
        size += len(entry.payload.events)
    labels = concatenate([(decode_labels(e.payload), len(e.payload.events)) for e in entries])
    assert labels is not None
    batch = Batch(
        board=home.number,
        now_ms=now_ms,
        size=len(events),
        members=b"-" * len(events),
        lengths=b"\1" * len(events),
        values=tuple(
            [
                array("q", [entry.payload.values[column][row] for entry, row in entry_rows])
                for column in range(len(home.rules.columns))
            ]
        ),
        ats=array("q", [_at(entry, row) for entry, row in entry_rows]),
        labels=labels.take([firsts[event.entry] + event.row for event in events]),
    )
    return MergedFeed(
        batch.weighed(home.rules.weighings),
        _plan(home, batch, entry_rows),
        _spans(runs, after),
        _baselines(entry_rows),
    )


def _events(runs: Sequence[Sequence[tuple[int, FeedEntry]]]) -> Iterator[_Event]:
    number = 0
    for run, entries in enumerate(runs):
        for _, entry in entries:
            refused = {*entry.refused}
            for row, (place, event) in enumerate(
                zip(entry.payload.places, entry.payload.events, strict=True)
            ):
                if event not in refused:
                    yield _Event(run, place, number, row)
            number += 1


def _at(entry: FeedEntry, row: int) -> int:
    ats = entry.payload.ats
    return ats if isinstance(ats, int) else ats[row]


def _spans(
    runs: Sequence[Sequence[tuple[int, FeedEntry]]], after: Sequence[FeedPlace]
) -> list[tuple[int, FeedPlace, FeedPlace]]:
    lasts: dict[int, FeedPlace] = {}
    for run in runs:
        for shard, entry in run:
            lasts[shard] = entry.place
    return [(shard, after[shard], last) for shard, last in lasts.items()]


def _baselines(entry_rows: Sequence[tuple[FeedEntry, int]]) -> list[Sequence[int] | bool] | None:
    if not any(entry.baselines for entry, _ in entry_rows):
        return None
    return [
        entry.baselines[entry.payload.events[row]] if entry.baselines else False
        for entry, row in entry_rows
    ]


# The plan of a batch


def _plan(home: Opened, batch: Batch, entry_rows: Sequence[tuple[FeedEntry, int]]) -> Plan:
    """Plan where the events count: in the periods and steps that the feeds contain, except those
    that have expired since."""
    rules, labels = home.rules, batch.labels
    assert labels is not None
    targets: list[Target] = []
    routes = []
    instances = {
        name: _instances(window, batch.now_ms, entry_rows) for name, window in rules.windows.items()
    }
    for spec in rules.specs:
        scopes = labels.scopes(spec)
        own: dict[int, int] = {}
        route = array("i")
        for group, instance in zip(labels.each, instances[spec.window], strict=True):
            if instance is None or scopes[group] is None:
                route.append(NO_SCOPE)
                continue
            if instance not in own:
                own[instance] = len(targets)
                targets.append(_target(home, spec, instance))
            route.append(own[instance])
        routes.append(route)
    rolls = {n: rolling_state(home.number, each, batch.now_ms) for n, each in rules.windows.items()}
    return Plan(
        specs=rules.specs,
        targets=tuple(targets),
        routes=tuple(routes),
        rolling=tuple([rolls[spec.window] for spec in rules.specs]),
        late=(),
        all_window=-1,
    )


def _instances(
    window: Window, now_ms: int, entry_rows: Sequence[tuple[FeedEntry, int]]
) -> list[int | None]:
    """Return the period or step of each event in a window, None if the event was too late or the
    period is no longer kept."""
    oldest = window.oldest_counted(MIN_MS, now_ms)
    payload = [(entry.payload.windows.get(window.name), row) for entry, row in entry_rows]
    each = [where[row] if isinstance(where, list) else where for where, row in payload]
    return [None if instance is None or instance < oldest else instance for instance in each]


def _target(home: Opened, spec: RankingSpec, instance: int) -> Target:
    window = home.rules.windows[spec.window]
    key = RankingKey(home.number, spec.window, instance, spec.name)
    return Target(key, window.period_of(instance))
