"""Decay windows compared with the window `all`: the cost of a write, and the accuracy of the
totals.

    python -m bench.decay [--members 1000000] [--rounds 60] [--events 1000000]

A board with a decay window and one with the window `all` have the same members, and alternately
count the same batches. This is measured through a store in memory, and on the index alone. If the
events have a time `at`, each has a weight of its own; otherwise the events of a batch share one.
After a million events over 3,000 half-lives, one total is compared with exact arithmetic. Its error
is given relative to the sum of the absolute values of the events, decayed as the total is.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random
from statistics import median
from time import perf_counter

import laurels
from bench.workload import Population, Traffic
from laurels.core.plan import plan_batch
from laurels.engine.writing import decay
from laurels.model.batch import batch_of
from laurels.model.event import EventReader
from laurels.model.windows.weighing import BIAS, weight
from laurels.stores.local.index.memory import MemoryIndex

WINDOWS = ("all", "decay:6h")
BATCH = 1_000
NOW_MS = 1_795_219_200_000
STEP_MS = 977
HALF_LIFE_MS = 6 * 3_600_000
HALF_LIVES = 3_000
EXACT_BITS = 200

Events = list[tuple[object, ...]]
Write = Callable[[int, Events], object]


def board(window: str) -> laurels.Board:
    """Return a board with one window."""
    return laurels.Board(window.partition(":")[0], windows=[window])


def to_a_store(window: str) -> Write:
    """Return a function that writes through the API of a store in memory."""
    clock = laurels.ManualClock(NOW_MS)
    store = laurels.open("memory:", clock=clock)
    name = store.create(board(window)).name

    def write(now_ms: int, events: Events) -> object:
        clock.set(now_ms)
        return store.submit_many(name, events)

    return write


def to_an_index(window: str) -> Write:
    """Return a function that writes to the index directly, as the fold does."""
    index, rules = MemoryIndex(seed=1), board(window).rules()
    index.open_board(1, rules)
    reader = EventReader(rules)

    def write(now_ms: int, events: Events) -> object:
        batch = batch_of(reader.gather(events), 1, now_ms).weighed(rules.weighings)
        return index.apply(batch, plan_batch(rules, {}, batch), 0)

    return write


def traffic(population: Population, kind: Traffic, rounds: int, *, timed: bool) -> list[Events]:
    """Return the batches of events. With `timed`, each event has an `at` within the time of its
    batch."""
    random = Random(2)
    drawn = population.traffic(kind, rounds * BATCH)
    batches: list[Events] = []
    for i in range(rounds):
        events = drawn[i * BATCH : (i + 1) * BATCH]
        now_ms = NOW_MS + STEP_MS * (i + 1)
        batches.append(
            [(*event, now_ms - random.randrange(STEP_MS)) for event in events]
            if timed
            else [tuple(event) for event in events]
        )
    return batches


def cost(to: Callable[[str], Write], population: Population, batches: list[Events]) -> list[float]:
    """Return the median cost of an event in each window, in ns."""
    writes = [to(window) for window in WINDOWS]
    for entries in population.batches():
        for write in writes:
            write(NOW_MS, [(member, score) for member, score, *_ in entries])
    took: list[list[float]] = [[] for _ in writes]
    for i, events in enumerate(batches):
        for place in (0, 1) if i % 2 else (1, 0):
            began = perf_counter()
            writes[place](NOW_MS + STEP_MS * (i + 1), events)
            took[place].append((perf_counter() - began) / len(events))
    return [1e9 * median(each) for each in took]


def error_after(events: int) -> Fraction:
    """Return the error of a member's total after this number of events, relative to the decayed sum
    of the absolute values of the events."""
    random = Random(3)
    words, exact, size = (0, 0), 0, 0
    at_ms, moved = 0, 0
    with localcontext() as context:
        context.prec = 70
        ln2 = Decimal(2).ln()
        for _ in range(events):
            at_ms += random.randrange(2 * HALF_LIVES * HALF_LIFE_MS // events)
            value = random.randint(-10_000, 10_000)
            words = decay.add(words, value, *weight(at_ms, HALF_LIFE_MS))
            quotient, rest = divmod(at_ms, HALF_LIFE_MS)
            # The shift drops bits of old amounts, which have decayed to far less than the error.
            exact >>= quotient - moved
            size >>= quotient - moved
            moved = quotient
            power = int((ln2 * rest / HALF_LIFE_MS).exp() * 2**EXACT_BITS)
            exact += value * power
            size += abs(value) * power
    first, mantissa = words
    total = Fraction(mantissa) * Fraction(2) ** (abs(first) - BIAS - moved + EXACT_BITS)
    return abs(total - exact) / size


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    population = Population(options.members, NOW_MS)
    for name, to in (("store in memory", to_a_store), ("index", to_an_index)):
        for timed in (False, True):
            batches = traffic(population, "zipf", options.rounds, timed=timed)
            of_all, of_decay = cost(to, population, batches)
            timing = "each at its own time" if timed else "accepted at now"
            print(
                f"{name}, {options.members:,} members, batches of {BATCH:,} {timing}: all "
                f"{of_all:,.0f} ns an event, decay {of_decay:,.0f}, {of_decay / of_all:.2f} times"
            )
    error = error_after(options.events)
    print(
        f"{options.events:,} events over {HALF_LIVES:,} half-lives: "
        f"error {float(error):.1e} of the sum of |v|"
    )


if __name__ == "__main__":
    main()
