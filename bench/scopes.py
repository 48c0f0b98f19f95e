"""The cost of scopes: of an event in several scopes, and of a board with a million rooms.

    python -m bench.scopes [--events 200000] [--rooms 1000000]

The boards of the first measurement alternately count the same batches in a store in memory: one
board has no labels, the others count an event in 1, 3 and 5 scopes. In the second measurement,
every room has ten members, in a day and in rolling 7d/1d. Then a day ends, and all rooms are
advanced in shares, as a service does besides its other work. The longest share is the longest wait
of a reader.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import islice
from random import Random
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import laurels
from bench.footprint import resident_bytes
from bench.internals import local
from bench.workload import Population

NOW_MS = 1_795_219_200_000
DAY_MS = 86_400_000
BATCH = 1_000
ROOM_MEMBERS = 10
SHARE = 200
WINDOWS = ("all", "day", "7d=rolling:7d/1h")
ROOM_WINDOWS = ("day", "7d=rolling:7d/1d")
SCOPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "no labels": ((),),
    "1 scope": (("room",),),
    "3 scopes": ((), ("zone",), ("room",)),
    "5 scopes": ((), ("zone",), ("room",), ("gender",), ("gender", "zone")),
}
ROOMS, ZONES = 1_000, 10

Event = tuple[Any, ...]


def labels(random: Random, rooms: int) -> dict[str, str]:
    """Return the labels of an event: a room drawn from a Zipf distribution, and others drawn
    uniformly."""
    room = int(rooms ** random.random())
    zone, gender = random.randrange(ZONES), random.choice("fm")
    return {"room": str(room), "zone": str(zone), "gender": gender}


def batches(events: int, members: int) -> list[list[Event]]:
    """Return the batches of events, the same for all boards. The labels are the last field of an
    event."""
    random = Random(4)
    traffic = Population(members, NOW_MS).traffic("zipf", events)
    carried = [(*event[:2], None, None, labels(random, ROOMS)) for event in traffic]
    return [carried[first : first + BATCH] for first in range(0, events, BATCH)]


def cost_of_scopes(events: int, members: int) -> None:
    """Print the cost of an event by the number of scopes."""
    stores = {}
    for name, scopes in SCOPES.items():
        stores[name] = laurels.open("memory:", clock=laurels.ManualClock(NOW_MS))
        stores[name].create(laurels.Board("gifts", windows=WINDOWS, scopes=scopes))
    took: dict[str, list[float]] = {name: [] for name in stores}
    for batch in batches(events, members):
        all_labels = {label for labels in SCOPES["5 scopes"] for label in labels}
        for name, store in stores.items():
            named = {label for labels in SCOPES[name] for label in labels}
            gone = all_labels - named
            labelled = [
                (*event[:4], {k: v for k, v in event[4].items() if k not in gone})
                if named
                else event[:2]
                for event in batch
            ]
            began = perf_counter()
            store.submit_many("gifts", labelled)
            took[name].append((perf_counter() - began) / len(batch))
    alone = median(took["no labels"])
    print(f"{events:,} events, {members:,} members, {ROOMS:,} rooms, windows {', '.join(WINDOWS)}:")
    for name, each in took.items():
        middle = median(each)
        print(f"  {name}: {1e6 * middle:.1f} µs an event, {middle / alone:.2f} times no labels")


def room_events(rooms: int) -> Iterator[Event]:
    """Yield ten members for every room, in random order of the rooms."""
    random = Random(5)
    for i in range(rooms * ROOM_MEMBERS):
        room = i * 7_919 % rooms
        member = random.randrange(3 * rooms)
        yield f"m{member}", random.randint(1, 100), None, None, {"room": str(room)}


def cost_of_rooms(rooms: int) -> None:
    """Print the memory of the rooms, the cost of an event, and the time to advance all rooms at the
    end of a day."""
    clock = laurels.ManualClock(NOW_MS)
    store = laurels.open("memory:", clock=clock)
    windows = list(ROOM_WINDOWS)
    store.create(laurels.Board("rooms", windows=windows, scopes=[["room"]]))
    before, took = resident_bytes(), []
    events = room_events(rooms)
    while batch := list(islice(events, BATCH)):
        began = perf_counter()
        store.submit_many("rooms", batch)
        took.append((perf_counter() - began) / len(batch))
    bytes_each = (resident_bytes() - before) / rooms
    print(f"{rooms:,} rooms of {ROOM_MEMBERS} members, windows {', '.join(windows)}:")
    print(f"  {bytes_each:,.0f} bytes a room, {1 / median(took):,.0f} events/s by the middle batch")
    print(f"  longest batch {1e3 * BATCH * max(took):.1f} ms")
    clock.advance(DAY_MS)
    shares, reads = [], []
    random = Random(6)
    left = 1
    while left:
        began = perf_counter()
        left, _ = local(store).work(SHARE)
        shares.append(perf_counter() - began)
        if len(shares) % 100 == 0:
            began = perf_counter()
            store.top("rooms", window="7d", labels={"room": str(random.randrange(rooms))})
            reads.append(perf_counter() - began)
    print(
        f"  the end of a day: {sum(shares):.1f} s in {len(shares):,} shares, the longest "
        f"{1e3 * max(shares):.2f} ms; reading the top of a room "
        f"meanwhile took at most {1e3 * max(reads):.2f} ms"
    )
    if len(shares) > 1_000:
        rare = quantiles(shares, n=1_000)[-1]
        print(f"  one share in 1,000 takes more than {1e3 * rare:.2f} ms")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--rooms", type=int, default=1_000_000)
    options = parser.parse_args()
    cost_of_scopes(options.events, options.members)
    cost_of_rooms(options.rooms)


if __name__ == "__main__":
    main()
