"""What a shard tells the rankings by a label, which do not lie with it. Pure.

The events of one value of a label are in every shard of a board, so its rankings by a label follow
the shards: each tells, in the step in which it counts a batch, what these need of it. Which period
or step of a window an event counts in was judged when the shard took it, and is told with it.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from laurels.core.plan import Plan
from laurels.model.event import Batch
from laurels.model.labels import Labels
from laurels.model.rules import Rules


class FeedPlace(NamedTuple):
    """An entry of a feed, in the order of these: about when it was told, and how many were before
    it."""

    time: int
    number: int


FEED_START = FeedPlace(0, 0)
"""Before the first entry."""


class FeedPayload(Struct, frozen=True, array_like=True):
    """What a batch tells.

    `call` is the number of the call that brought it, by which what several shards took of one is
    put in order again; `places` are those of the events in all of that call, `events` those in the
    share of the shard. `names`, `groups` and `each` are their labels. `windows` says for each
    window where it counts them: in one period or step, or in one for each event, None for too late.
    """

    now_ms: int
    call: int
    places: list[int]
    events: list[int]
    values: list[list[int]]
    ats: list[int] | int
    names: tuple[str, ...]
    groups: list[tuple[str | None, ...]]
    each: list[int]
    windows: dict[str, int | list[int | None] | None]


class FeedEntry(Struct, frozen=True):
    """An entry of a feed: what a batch told, the events of the share that were not counted, and
    where totals were set, event by event of the share what the member had before, in words; else
    nothing."""

    place: FeedPlace
    payload: FeedPayload
    refused: Sequence[int]
    baselines: Sequence[Sequence[int] | bool]


class Pending(Struct, frozen=True):
    """The next entries of a feed, and the place of the last there is."""

    entries: list[FeedEntry]
    last: FeedPlace


def encode_feed_payload(
    rules: Rules, batch: Batch, plan: Plan, places: Sequence[int], call: int
) -> bytes | None:
    """What a share of a batch tells, given the places of its events in all of it; None where no
    event has a label that is ranked by. O(events by windows)."""
    labels = batch.labels
    if labels is None or not (names := [name for name in rules.rank_by if name in labels.names]):
        return None
    rows = list(zip(*map(labels.values, names), strict=True))
    numbers: dict[tuple[str | None, ...], int] = {}
    of_group = [
        -1 if not any(values) else numbers.setdefault(values, len(numbers)) for values in rows
    ]
    events = [event for event, group in enumerate(labels.each) if of_group[group] >= 0]
    if not events:
        return None
    payload = FeedPayload(
        batch.now_ms,
        call,
        [places[event] for event in events],
        events,
        [[column[event] for event in events] for column in batch.values],
        batch.now_ms if batch.ats is None else [batch.ats[event] for event in events],
        tuple(names),
        list(numbers),
        [of_group[labels.each[event]] for event in events],
        {window: _instances(plan, window, events) for window in rules.windows},
    )
    return msgspec.msgpack.encode(payload)


def _instances(plan: Plan, window: str, events: Sequence[int]) -> int | list[int | None] | None:
    """Return where a window counts these events in rankings by a label."""
    found: list[int | None] = [None] * len(events)
    for place, route in zip(plan.places, plan.routes, strict=True):
        if not place.by or place.window != window:
            continue
        for i, event in enumerate(events):
            index = route if isinstance(route, int) else route[event]
            if index >= 0:
                found[i] = plan.targets[index].key.instance
    return found[0] if len({*found}) == 1 else found


def decode_entry(place: FeedPlace, batch: bytes, but: bytes) -> FeedEntry:
    """Return an entry as it is kept: what was told of a batch, and what became of it."""
    refused, baselines = _but.decode(but)
    return FeedEntry(place, _payloads.decode(batch), refused, baselines)


def decode_labels(payload: FeedPayload) -> Labels:
    """Return the labels of the events told of."""
    return Labels(payload.names, tuple(payload.groups), array("q", payload.each))


_payloads = msgspec.msgpack.Decoder(FeedPayload)
_but = msgspec.msgpack.Decoder(tuple[list[int], list[list[int] | bool]])
