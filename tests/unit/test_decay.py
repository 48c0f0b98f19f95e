"""Weights and totals of decay windows equal those of exact arithmetic."""

from array import array
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from random import Random

import msgspec
import pytest
from bench.decay import cost, error_after, to_a_store, to_an_index, traffic
from bench.workload import Population

from laurels.core.event_columns import events_of, logged_batch
from laurels.core.record import Events, decode, encode, encode_one
from laurels.engine.batch.packing import pack
from laurels.engine.writing import decay
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board
from laurels.model.event import EventReader
from laurels.model.score import LIMIT
from laurels.model.windows.weighing import (
    BIAS,
    MAX_HALF_LIFE_MS,
    MIN_HALF_LIFE_MS,
    PLACES,
    DecayedTotals,
    Weighing,
    Words,
    restored,
    weight,
    weights,
)
from laurels.timeline.instants import MAX_MS, MIN_MS

HOUR_MS = 3_600_000
NOW_MS = 1_795_219_200_000
DECAY = Board("b", windows=["all", "hot=decay:6h", "decay:1s", "too=decay:360m"]).rules()
HALF_LIVES = (MIN_HALF_LIFE_MS, 1_001, 60_000, HOUR_MS, 6 * HOUR_MS, 7_777_777, MAX_HALF_LIFE_MS)


def power(rest: int, whole: int) -> Fraction:
    """Return 2^(rest / whole) to 60 digits."""
    with localcontext(getcontext()) as context:
        context.prec = 70
        return Fraction(((Decimal(rest) / whole) * Decimal(2).ln()).exp())


def rounded(exact: Fraction) -> Fraction:
    """Return the nearest number with a mantissa of 53 bits, and on a tie the even one."""
    if exact == 0:
        return exact
    shift = 53 - abs(exact.numerator).bit_length() + exact.denominator.bit_length()
    scaled = exact * Fraction(2) ** shift
    if abs(scaled) >= 2**53:
        shift, scaled = shift - 1, scaled / 2
    return Fraction(round(scaled)) / Fraction(2) ** shift


def of_words(words: Words) -> Fraction:
    """Return the total that is stored in the two words of an entry."""
    first, mantissa = words
    assert (first > 0) - (first < 0) == (mantissa > 0) - (mantissa < 0)
    assert mantissa == 0 or 2**52 <= abs(mantissa) < 2**53
    return Fraction(mantissa) * Fraction(2) ** (abs(first) - BIAS) if mantissa else Fraction(0)


def instants(random: Random, count: int) -> list[int]:
    edges = [MIN_MS, -1, 0, 1, 999, 1_000, HOUR_MS - 1, HOUR_MS, MAX_MS - 1]
    return edges + [random.randrange(MIN_MS, MAX_MS) for _ in range(count)]


@pytest.mark.parametrize("half_life_ms", HALF_LIVES)
def test_a_weight_is_the_nearest_number_of_53_bits(half_life_ms: int) -> None:
    for at_ms in instants(Random(1), 200):
        exponent, mantissa = weight(at_ms, half_life_ms)
        quotient, rest = divmod(at_ms, half_life_ms)
        assert exponent == quotient
        exact = power(rest, half_life_ms) * 2**52
        assert 2**52 <= mantissa < 2**53
        assert abs(mantissa - exact) <= Fraction(1, 2) or exact > 2**53 - 1


@pytest.mark.parametrize("half_life_ms", HALF_LIVES)
def test_weights_of_an_array_equal_single_weights(half_life_ms: int) -> None:
    random = Random(2)
    ats = array("q", instants(random, 20_000))
    ats.extend(range(-500, 500))
    ats.extend(half_life_ms * random.randrange(1_000) - random.randrange(9) for _ in range(500))
    computed = weights(ats, half_life_ms)
    expected = [weight(at, half_life_ms) for at in ats]
    assert list(computed.exponents) == [exponent for exponent, _ in expected]  # type: ignore[arg-type]
    assert list(computed.mantissas) == [mantissa for _, mantissa in expected]  # type: ignore[arg-type]
    assert restored(ats, half_life_ms, computed.mantissas) == computed
    one = weights(ats[9], half_life_ms)
    assert restored(ats[9], half_life_ms, one.mantissas) == one


def test_a_sum_is_rounded_once() -> None:
    random = Random(3)
    for _ in range(200):
        words, exact = (0, 0), Fraction(0)
        at_ms = random.randrange(-(10**6), 10**6)
        for _ in range(40):
            at_ms += random.choice([0, 1, 500, 1_000, 7_000, 66_000, -30_000])
            value = random.choice([0, 1, -1, 3, LIMIT, -LIMIT, 2 * LIMIT, random.randint(-50, 50)])
            exponent, mantissa = weight(at_ms, 1_000)
            words = decay.add(words, value, exponent, mantissa)
            amount = rounded(rounded(Fraction(value)) * mantissa) * Fraction(2) ** (exponent - 52)
            exact = rounded(exact + amount)
            assert of_words(words) == exact


def test_opposite_values_cancel_to_zero() -> None:
    exponent, mantissa = weight(12_345, HOUR_MS)
    words = decay.add((0, 0), 7, exponent, mantissa)
    assert decay.add(words, -7, exponent, mantissa) == (0, 0)
    assert decay.add(words, 0, exponent, mantissa) == words


def test_encoded_totals_sort_as_the_totals_do() -> None:
    random = Random(4)
    totals = [(0, 0)]
    for _ in range(2_000):
        exponent, mantissa = weight(random.randrange(-(10**7), 10**7), HOUR_MS)
        totals.append(decay.add((0, 0), random.randint(-9, 9), exponent, mantissa))
    assert sorted(totals) == sorted(totals, key=of_words)


def test_exponents_fit_for_every_supported_time() -> None:
    for at_ms in (MIN_MS, MAX_MS - 1):
        exponent, mantissa = weight(at_ms, MIN_HALF_LIFE_MS)
        first, _ = decay.add((0, 0), LIMIT, exponent, mantissa)
        assert 0 < first < 2**41


def test_a_score_is_exact_at_its_own_time() -> None:
    random = Random(5)
    for at_ms in instants(random, 500):
        for half_life_ms in HALF_LIVES:
            value = random.choice([0, 1, -1, 120, -99_999, 2**32])
            words = decay.add((0, 0), value, *weight(at_ms, half_life_ms))
            assert DecayedTotals(half_life_ms, 0, at_ms).units(words) == value * 10**PLACES


def test_a_score_halves_with_every_half_life() -> None:
    words = decay.add((0, 0), 64, *weight(999, HOUR_MS))
    scores = [DecayedTotals(HOUR_MS, 2, 999 + i * HOUR_MS).units(words) for i in range(7)]
    assert scores == [64 * 10**PLACES // 2**i for i in range(7)]
    assert DecayedTotals(HOUR_MS, 2, 999 + 10**6 * HOUR_MS).units(words) == 0


def test_the_least_total_for_a_displayed_bound_is_exact() -> None:
    random = Random(6)
    for _ in range(3_000):
        at_ms = random.randrange(-(10**7), 10**7)
        decay_now = DecayedTotals(HOUR_MS, 0, at_ms)
        words = decay.add(
            (0, 0),
            random.choice([0, 1, -1, 77, -(10**9), LIMIT]),
            *weight(at_ms - random.randrange(40 * HOUR_MS), HOUR_MS),
        )
        units = decay_now.units(words) + random.choice([-1, 0, 0, 1])
        least = decay_now.least(units)
        of_words(least)
        assert (words >= least) == (decay_now.units(words) >= units)
        assert decay_now.units(least) >= units
        just_below = (least[0], least[1] - 1)
        assert decay_now.units(just_below) <= units


def _batch(*events: tuple[object, ...]) -> Batch:
    return batch_of(EventReader(DECAY).gather(events), 1, NOW_MS)


@pytest.mark.parametrize(
    "batch",
    [
        _batch(("ann", 5), ("bob", -3)),
        msgspec.structs.replace(
            _batch(("ann", 5, NOW_MS), ("bob", -3, NOW_MS - 1)), ats=array("q", [NOW_MS, MIN_MS])
        ),
    ],
    ids=["accepted at now", "each at its own time"],
)
def test_weights_are_logged(batch: Batch) -> None:
    weighed = batch.weighed(DECAY.weighings)
    assert set(weighed.weights) == {Weighing(6 * HOUR_MS), Weighing(1_000)}
    [event] = decode(encode([encode_one(events_of(weighed, 1))]))
    assert isinstance(event, Events)
    assert logged_batch(event) == weighed


def test_events_count_with_the_weights_in_the_log() -> None:
    """Events count with the weights in the log, even if their times would give other weights. So
    the meaning of a log never changes."""
    record = events_of(_batch(("ann", 5)).weighed([Weighing(HOUR_MS)]), 1)
    doubled = msgspec.structs.replace(record, weights={HOUR_MS: pack(array("q", [2**52 + 99]))})
    assert logged_batch(doubled).weights_in(Weighing(HOUR_MS)).mantissas == 2**52 + 99


def test_a_batch_that_is_cut_is_weighed_like_the_whole() -> None:
    batch = msgspec.structs.replace(
        _batch(*[("ann", i) for i in range(9)]), ats=array("q", range(0, 9 * HOUR_MS, HOUR_MS))
    )
    weighed = batch.weighed([Weighing(HOUR_MS)])
    kept = [1, 4, 8]
    assert weighed.take(kept).weights_in(Weighing(HOUR_MS)) == batch.take(kept).weights_in(
        Weighing(HOUR_MS)
    )
    for part in weighed.split([4, 9], array("q", [NOW_MS] * 9)):
        assert part.ats is not None
        exponents = part.weights_in(Weighing(HOUR_MS)).exponents
        assert list(exponents) == [at // HOUR_MS for at in part.ats]  # type: ignore[arg-type]


def test_the_error_stays_small() -> None:
    """The test has a hundredth of the events of the benchmark `bench.decay`, but they extend over
    the same number of half-lives."""
    random = Random(7)
    half_life_ms, events, half_lives = HOUR_MS, 10_000, 3_000
    words, exact, bound = (0, 0), 0, 0
    at_ms = 0
    for _ in range(events):
        at_ms += random.randrange(2 * half_lives * half_life_ms // events)
        value = random.randint(-1_000, 1_000)
        words = decay.add(words, value, *weight(at_ms, half_life_ms))
        quotient, rest = divmod(at_ms, half_life_ms)
        amount = int(power(rest, half_life_ms) * 2**200) << quotient
        exact += value * amount
        bound += abs(value) * amount
    assert abs(of_words(words) * 2**200 - exact) < bound / Fraction(10**12)


def test_the_decay_benchmark_runs() -> None:
    population = Population(100, NOW_MS)
    for timed in (False, True):
        batches = traffic(population, "zipf", 2, timed=timed)
        for to in (to_a_store, to_an_index):
            assert all(each > 0 for each in cost(to, population, batches))
    assert error_after(1_000) < Fraction(1, 10**12)
