"""A refreshed window compared with a live one: the cost of an event, of a refresh, and the longest
stall.

    python -m bench.refresh [--members 1000000] [--rounds 60] [--scopes 10000]

Three boards with one window each have the same members, with events on thirty days. They
alternately count the same batches, directly through the fold. Then the refresh of the third board
is computed in shares, as in a running store, and written: once without other work, and once with a
batch between shares. Finally a board with many scopes is refreshed; its scopes are updated after
the record of the refresh.
"""

import gc
from argparse import ArgumentParser
from collections.abc import Sequence
from random import Random
from statistics import median
from time import perf_counter

import laurels
from bench.workload import Population
from laurels.core import record as records
from laurels.core.fold import Fold
from laurels.model.batch import batch_of
from laurels.model.event import EventReader
from laurels.stores.intake.shares import SHARE
from laurels.stores.local.index.memory import MemoryIndex

WINDOWS = ("all", "rolling:30d/1d", "rolling:30d/1d,refresh=1h")
BATCH = 1_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NOW_MS = 1_795_132_800_000
"""The start of a day."""
DAYS = 30
REFRESHES = 3

Events = Sequence[tuple[object, ...] | laurels.Event]


class Folded:
    """One board, which counts events as a commit does."""

    def __init__(self, window: str, **more: object) -> None:
        self.fold = Fold(MemoryIndex(seed=1))
        board = laurels.Board("b", windows=[window], **more)  # type: ignore[arg-type]
        self.fold.apply(records.Create(1, 1, NOW_MS, board.to_json()))
        self.window = window
        self.reader = EventReader(board.rules())

    def count(self, now_ms: int, events: Events) -> float:
        """Count a batch; return the seconds per event."""
        batch = batch_of(self.reader.gather(events), 1, now_ms)
        began = perf_counter()
        self.fold.count(batch)
        return (perf_counter() - began) / batch.size

    def catch_up(self) -> None:
        """Do all due work except refreshes."""
        while self.fold.work(1 << 40):
            pass
        self.fold.index.take_dropped()

    def refresh(self, now_ms: int, between: Sequence[Events]) -> list[float]:
        """Compute and write a refresh. Return the seconds of each share and, as the last element,
        the seconds for applying the record of the refresh."""
        refreshes = self.fold.refreshes
        self.fold.advance_clock(now_ms)
        self.fold.advance_all()
        took: list[float] = []
        while not refreshes.ready(now_ms):
            began = perf_counter()
            refreshes.work(SHARE)
            took.append(perf_counter() - began)
            if between:
                self.count(now_ms, between[len(took) % len(between)])
        began = perf_counter()
        self.fold.apply(records.Refresh(1, 1, now_ms, self.window))
        took.append(perf_counter() - began)
        self.fold.index.take_dropped()
        return took


def quickest(board: Folded, now_ms: int, between: Sequence[Events]) -> str:
    """Return a text with the cost of a refresh. Several refreshes are done. For the n-th share the
    shortest time in any of them is used, to leave out interruptions by other programs."""
    rounds = [board.refresh(now_ms + i * HOUR_MS, between) for i in range(REFRESHES)]
    *shares, record = map(min, zip(*rounds, strict=False))
    total = sum(shares) + record
    members = sum(board.fold.index.size(key) for key in board.fold.index.keys(1))
    each = f", {1e9 * total / members:,.0f} ns a member" if members else ""
    return (
        f"{members:,} members in {len(shares):,} shares, {total:.2f} s{each}, longest share "
        f"{1e3 * max(shares):.1f} ms, the record {1e6 * record:,.0f} us"
    )


def fill(boards: list[Folded], population: Population, random: Random) -> None:
    """On each day, give one event to each of some random members, so that there are one and a half
    events per member in total."""
    members = [member for entries in population.batches() for member, *_ in entries]
    for day in range(DAYS):
        chosen = random.sample(members, len(members) // DAYS * 3 // 2)
        for board in boards:
            for at in range(0, len(chosen), 10 * BATCH):
                some = chosen[at : at + 10 * BATCH]
                day_ms = NOW_MS + day * DAY_MS
                events: Events = [
                    (member, random.randrange(1_000), day_ms + random.randrange(HOUR_MS))
                    for member in some
                ]
                board.count(day_ms + HOUR_MS, events)
            board.catch_up()


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--scopes", type=int, default=10_000)
    options = parser.parse_args()
    population = Population(options.members, NOW_MS)
    gc.collect()
    gc.freeze()
    boards = [Folded(window) for window in WINDOWS]
    fill(boards, population, Random(1))
    now_ms = NOW_MS + (DAYS - 1) * DAY_MS + 2 * HOUR_MS
    traffic = population.traffic("zipf", options.rounds * BATCH)
    batches = [
        [tuple(event) for event in traffic[i * BATCH : (i + 1) * BATCH]]
        for i in range(options.rounds)
    ]
    took: list[list[float]] = [[] for _ in boards]
    for i, events in enumerate(batches):
        for place in range(3):
            at = (i + place) % 3
            took[at].append(boards[at].count(now_ms, events))
    costs = ", ".join(
        f"{window} {1e9 * median(each):,.0f} ns" for window, each in zip(WINDOWS, took, strict=True)
    )
    print(f"{options.members:,} members, batches of {BATCH:,}: an event in {costs}")
    for board in boards[1:]:
        [key] = board.fold.index.keys(1) or board.fold.index.tallies(1)[:1]
        print(
            f"{board.window}: {board.fold.index.nbytes(key) / options.members:.1f} bytes a member"
        )
    nobody: list[Events] = []
    print(f"a refresh without other work: {quickest(boards[2], now_ms + HOUR_MS, nobody)}")
    now_ms += (REFRESHES + 1) * HOUR_MS
    print(f"a refresh with a batch between shares: {quickest(boards[2], now_ms, batches)}")
    scoped = Folded(WINDOWS[2], scopes=[[], ["room"]])
    labelled = [
        laurels.Event(f"m{i}", 1, labels={"room": f"r{i % options.scopes}"})
        for i in range(2 * options.scopes)
    ]
    scoped.count(now_ms, labelled)
    print(f"{options.scopes:,} scopes: {quickest(scoped, now_ms + HOUR_MS, nobody)}")


if __name__ == "__main__":
    main()
