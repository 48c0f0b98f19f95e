"""Feeds from the shards of a board to its rankings by a label. Pure functions.

The events with one value of a label are spread over all shards of a board. So the rankings by a
label are in a separate label replica, which is built from a feed of each shard. The call that
counts a batch in a shard also appends to the feed what these rankings need. The period or step of a
window in which an event counts is chosen when the shard counts the event, and the feed contains it.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from laurels.core.plan import Plan
from laurels.model.batch import Batch
from laurels.model.labels import Labels
from laurels.model.rules import Rules


class FeedPlace(NamedTuple):
    """The position of an entry in a feed: the approximate time of the entry, and a number that
    increases with each entry. Places are ordered like their entries."""

    time: int
    number: int


FEED_START = FeedPlace(0, 0)
"""The place before the first entry of a feed."""


class FeedPayload(Struct, frozen=True, array_like=True):
    """The content of a feed entry for one batch.

    `call` identifies the call, so that its shares in several shards can be merged again in order.
    `places` are the positions of the events in the whole call, `events` their positions in the
    share of the shard. `names` are the names of labels, `groups` the combinations of their values,
    and `each` has for each event the index of its combination. `windows` has for each window the
    period or step in which the events count. This is one number for all events, or a list with a
    number for each event, or None for an event that is too late.
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
    """An entry of a feed: its place, and the payload of a batch. `refused` has the positions, in
    the shard's share, of the events that were not counted. `baselines` has an item for each event
    of the share: the previous total if the event sets a total, otherwise False. It is empty if no
    event sets a total."""

    place: FeedPlace
    payload: FeedPayload
    refused: Sequence[int]
    baselines: Sequence[Sequence[int] | bool]


class Pending(Struct, frozen=True):
    """The next entries of a feed, and the place of the feed's last entry."""

    entries: list[FeedEntry]
    last: FeedPlace


def encode_feed_payload(
    rules: Rules, batch: Batch, plan: Plan, places: Sequence[int], call: int
) -> bytes | None:
    """Return the encoded feed payload of a share of a batch. Return None if no event has a label
    that the board ranks by. `places` are the positions of the share's events in the call. O(events
    * windows)."""
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
    """Return the periods or steps in which these events count in a window's rankings by a label."""
    instances: list[int | None] = [None] * len(events)
    for spec, route in zip(plan.specs, plan.routes, strict=True):
        if not spec.by or spec.window != window:
            continue
        for i, event in enumerate(events):
            index = route if isinstance(route, int) else route[event]
            if index >= 0:
                instances[i] = plan.targets[index].key.instance
    return instances[0] if len({*instances}) == 1 else instances


def decode_entry(place: FeedPlace, batch: bytes, outcome: bytes) -> FeedEntry:
    """Decode a stored entry. `batch` is its payload, `outcome` has the outcome of the events."""
    refused, baselines = _outcomes.decode(outcome)
    return FeedEntry(place, _payloads.decode(batch), refused, baselines)


def decode_labels(payload: FeedPayload) -> Labels:
    """Return the labels of the events of a payload."""
    return Labels(payload.names, tuple(payload.groups), array("q", payload.each))


_payloads = msgspec.msgpack.Decoder(FeedPayload)
_outcomes = msgspec.msgpack.Decoder(tuple[list[int], list[list[int] | bool]])
