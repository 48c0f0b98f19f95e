"""The engine's write rule equals the plain rule for every operator, tie rule and resolution, in
several windows."""

from array import array
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from laurels.engine.batch.fold import (
    APPLIED,
    BEST,
    LAST,
    OUT_OF_RANGE,
    SUM,
    UNCHANGED,
    Journal,
    Shape,
    apply,
)
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from tests.conftest import Scaled
from tests.counts import covering
from tests.engine.pair import intern
from tests.engine.plain import Row
from tests.engine.plain_fold import Event, PlainFold

LIMIT = 2**53 - 1
OPS = [
    (SUM,),
    (LAST,),
    (BEST,),
    (SUM, SUM),
    (SUM, LAST),
    (LAST, LAST),
    (BEST, BEST),
    (LAST, SUM, SUM),
    (BEST, BEST, BEST, BEST),
]


class Board:
    """The engine's fold and the plain fold, which count the same events."""

    def __init__(
        self,
        ops: Sequence[int],
        *,
        tie: int = 1,
        resolution: int = 1,
        members: int = 40,
        rankings: int = 1,
        bound: int = LIMIT,
        all_window: int = -1,
    ) -> None:
        self.resolution = resolution
        self.roster = Roster(3)
        self.ids = intern(self.roster, [b"m%d" % i for i in range(members)])
        lows, highs = [-bound] * len(ops), [bound] * len(ops)
        stamped = LAST in ops and (tie == 0 or resolution != 1)
        self.shape = Shape(ops, lows, highs, tie, stamped)
        self.rankings = [
            RankedSet(self.roster, columns=len(ops), tie=tie != 0, stamped=stamped, dense=False)
            for _ in range(rankings)
        ]
        self.plain = PlainFold(ops, lows, highs, tie, all_window)

    def event(self, random: Random, spread: int, at: int, rankings: Sequence[int]) -> Event:
        values = tuple(random.randint(-spread, spread) for _ in self.plain.ops)
        return Event(
            random.randrange(len(self.ids)),
            values,
            at,
            at // self.resolution,
            absolute=random.random() < 0.1,
            skipped=random.random() < 0.05,
            rankings=rankings,
        )

    def apply(self, events: Sequence[Event], watch: int = -1) -> bytearray:
        """Count events with both folds, and compare their statuses and reports."""
        status = bytearray(7 if event.skipped else 0 for event in events)
        reported = apply(
            self.shape,
            self.rankings,
            [array("i", route) for route in zip(*[e.rankings for e in events], strict=True)],
            [None] * len(self.rankings),
            array("I", [self.ids[event.member] for event in events]),
            [array("q", column) for column in zip(*[e.values for e in events], strict=True)],
            array("q", [event.stamp for event in events]),
            array("q", [event.at for event in events]),
            bytes(event.absolute for event in events),
            self.plain.all_window,
            watch,
            0,
            len(events),
            status,
        )
        before, after = [], []
        for event, code in zip(events, status, strict=True):
            before.append(self.seen(event, watch))
            assert code == (7 if event.skipped else self.plain.count(event))
            after.append(self.seen(event, watch))
        if watch >= 0:
            assert reported is not None
            for (present, columns), expected in zip(reported, (before, after), strict=True):
                assert list(present) == [row is not None for row in expected]
                absent = (0,) * len(self.plain.ops)
                rows = [absent if row is None else row for row in expected]
                assert list(zip(*columns, strict=True)) == rows
        return status

    def seen(self, event: Event, watch: int) -> Row | None:
        kept = self.plain.kept(event.rankings[watch], event.member) if watch >= 0 else None
        return kept.columns if kept else None

    def compare(self) -> None:
        """Compare the members and the words of every ranking."""
        for ranking, native in enumerate(self.rankings):
            native.check()
            kept = self.plain.rankings.get(ranking, {})
            present, words = native.words(self.ids)
            assert list(present) == [member in kept for member in range(len(self.ids))]
            for member, row in kept.items():
                expected = list(row.columns)
                if self.plain.tie:
                    expected.append(self.plain.tie * row.stamp)
                if native.stamped:
                    expected.append(row.newest_at)
                assert [column[member] for column in words] == expected


@pytest.mark.parametrize(("ops", "tie", "resolution"), covering(OPS, [1, -1, 0], [1, 7]))
def test_random_events_give_the_same_results_as_the_plain_rule(
    ops: Sequence[int], tie: int, resolution: int
) -> None:
    random = Random(f"{ops} {tie} {resolution}")
    for spread, bound in product((2, 25, 10**6), (20, LIMIT)):
        board = Board(ops, tie=tie, resolution=resolution, rankings=4, bound=bound, all_window=0)
        for watch in (-1, 0, 1):
            events = [
                board.event(
                    random,
                    spread,
                    random.randint(-50, 50),
                    (0, random.choice([-1, 1, 2]), random.choice([-1, 3])),
                )
                for _ in range(250)
            ]
            board.apply(events, watch)
            board.compare()


def test_all_events_can_share_one_route() -> None:
    board = Board([SUM], rankings=2)
    status = bytearray(3)
    reports = apply(
        board.shape, board.rankings, [0, -1, 1], [None] * 2, board.ids[:3], [array("q", [1, 2, 3])],
        5, 5, None, 0, 1, 0, 3, status,
    )  # fmt: skip
    assert status == bytearray([APPLIED] * 3)
    assert [len(ranking) for ranking in board.rankings] == [3, 3]
    assert reports == ((bytearray(3), [array("q", [0] * 3)]),) * 2


def test_only_the_requested_range_of_events_is_counted() -> None:
    board = Board([SUM])
    status = bytearray(10)
    reports = apply(
        board.shape, board.rankings, [0], [None], board.ids[:10], [array("q", range(10))],
        5, 5, None, 0, 0, 3, 6, status,
    )  # fmt: skip
    assert status == bytearray([0] * 3 + [APPLIED] * 3 + [0] * 4)
    assert reports is not None
    assert reports[1] == (bytearray([1] * 3), [array("q", [3, 4, 5])])


def test_an_event_out_of_range_anywhere_counts_nowhere() -> None:
    board = Board([SUM], rankings=2, bound=10)
    full = Event(0, (8,), 1, 1, rankings=(-1, 1))
    over = Event(0, (3,), 2, 2, rankings=(0, 1))
    assert board.apply([full, over, over], 0) == bytearray([APPLIED, OUT_OF_RANGE, OUT_OF_RANGE])
    board.compare()


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), LIMIT + 1])
def test_values_that_no_event_can_have_are_out_of_range(value: int) -> None:
    board = Board([SUM], all_window=0)
    events = [Event(0, (5,), 1, 1), Event(0, (value,), 2, 2)]
    assert board.apply(events) == bytearray([APPLIED, OUT_OF_RANGE])
    events = [Event(0, (value,), 3, 3, absolute=True)]
    assert board.apply(events) == bytearray([OUT_OF_RANGE])


def test_a_repeat_of_the_best_is_unchanged() -> None:
    board = Board([BEST])
    best = Event(0, (-5,), 9, 9)
    earlier = Event(0, (-5,), 4, 4)
    assert board.apply([best, best, earlier]) == bytearray([APPLIED, UNCHANGED, APPLIED])


def test_a_large_ranking_agrees_with_the_plain_rule(scaled: Scaled) -> None:
    """The ranking is so large that the fold prefetches memory. Some members have events often, some
    are new, and some move over a long distance."""
    random = Random(5)
    board = Board([SUM], members=90_000, all_window=0)
    at = 0
    events = [board.event(random, 10**9, at, (0,)) for _ in board.ids]
    for member, event in enumerate(events):
        event.member = member
    board.apply(events, 0)
    for spread in (10**9, 50, 10**6, 10**9):
        events = []
        for _ in range(scaled(5_000, 50_000)):
            at += random.random() < 0.1
            event = board.event(random, spread, at, (0,))
            if random.random() < 0.2:
                event.member //= 1 + random.randrange(1_000)
            events.append(event)
        for start in range(0, len(events), 10_000):
            board.apply(events[start : start + 10_000], 0)
    assert len(board.rankings[0]) > 70_000
    board.compare()


@pytest.mark.parametrize("ops", [[SUM], pytest.param([LAST, SUM], marks=pytest.mark.torture)])
def test_members_in_sequence_agree_with_the_plain_rule(ops: Sequence[int]) -> None:
    """Every event has a different member, in sequence. The engine counts such events in another
    order than the order of arrival, with the same result."""
    random = Random(f"in sequence {ops}")
    board = Board(ops, members=90_000, rankings=2, bound=5_000, all_window=0)
    for count in (70_000, 20_000, 400):
        events = []
        for member in sorted(random.sample(range(90_000), count)):
            event = board.event(random, 4_000, random.randint(-50, 50), (0, random.choice([-1, 1])))
            event.member = member
            events.append(event)
        assert OUT_OF_RANGE in board.apply(events, 0) or count == 70_000
    board.compare()


def test_a_stretch_of_members_in_sequence_agrees_with_the_plain_rule() -> None:
    """The engine counts these events in another order, but reports them in the order of their
    arrival."""
    random = Random(8)
    whole, alone = (Board([SUM], members=90_000) for _ in range(2))
    count, start, stop = 90_000, 1_000, 71_000
    ids, values = whole.ids, array("q", [random.randint(-9, 9) for _ in range(count)])
    for round in range(2):
        status = bytearray(count)
        status[start + 5] = 7
        reports = [
            apply(
                board.shape, board.rankings, [0], [None], members, [scores], round, round, None, 0,
                0, first, last, codes,
            )
            for board, members, scores, first, last, codes in [
                (whole, ids, values, start, stop, status),
                (alone, ids[start:stop], values[start:stop], 0, stop - start, status[start:stop]),
            ]
        ]  # fmt: skip
        assert reports[0] == reports[1]
        assert status[start:stop] == bytearray([1] * 5 + [7] + [1] * (stop - start - 6))
        assert not any(status[:start] + status[stop:])
    for board in (whole, alone):
        board.rankings[0].check()
        assert len(board.rankings[0]) == stop - start - 1
    assert whole.rankings[0].words(ids) == alone.rankings[0].words(ids)


def test_invalid_shapes_are_refused() -> None:
    for ops, tie, stamped in [
        ((), 1, False),
        ((SUM,) * 5, 1, False),
        ((3,), 1, False),
        ((BEST, SUM), 1, False),
        ((SUM,), 2, False),
        ((SUM,), 1, True),
        ((LAST,), 0, False),
    ]:
        with pytest.raises(ValueError, match=r"shape|operator|best|tie|last"):
            Shape(ops, [0] * len(ops), [1] * len(ops), tie, stamped)


def test_inconsistent_columns_are_refused() -> None:
    board = Board([SUM], rankings=2)
    one, two, ids = array("q", [1]), array("q", [1, 2]), board.ids[:2]
    wide = RankedSet(board.roster, columns=2, tie=True, stamped=False, dense=False)
    other = RankedSet(Roster(1), columns=1, tie=True, stamped=False, dense=False)

    def count(
        rankings: Sequence[RankedSet] = (),
        routes: "Sequence[int | array[int]]" = (0,),
        values: "Sequence[array[int]]" = (two,),
        stop: int = 2,
        watch: int = -1,
        ids: "array[int]" = ids,
    ) -> None:
        stores = rankings or board.rankings
        apply(
            board.shape, stores, routes, [None] * len(stores), ids, values,
            1, 1, None, -1, watch, 0, stop, bytearray(2),
        )  # fmt: skip

    count()
    with pytest.raises(ValueError, match="words"):
        count(rankings=[wide])
    with pytest.raises(ValueError, match="same roster"):
        count(rankings=[board.rankings[0], other])
    with pytest.raises(ValueError, match="one window"):
        count(routes=(0, 0))
    with pytest.raises(ValueError, match="one window"):
        count(rankings=[board.rankings[0]] * 2, routes=(0, 1))
    with pytest.raises(IndexError, match="no ranking"):
        count(routes=(array("i", [0, 2]),))
    with pytest.raises(ValueError, match="shorter"):
        count(values=(one,))
    with pytest.raises(ValueError, match="a column of values"):
        count(values=(two, two))
    with pytest.raises(ValueError, match="within"):
        count(stop=3)
    with pytest.raises(IndexError, match="the index of a window"):
        count(watch=1)
    with pytest.raises(IndexError, match="no member"):
        count(ids=array("I", [0, 40]))
    with pytest.raises(TypeError, match="format"):
        count(ids=two)


def rolling_set(
    board: Board, shape: Shape | None = None, roster: Roster | None = None
) -> RollingSet:
    """Return a rolling window of two steps, of which step 1 is running."""
    columns = len(board.plain.ops)
    return RollingSet(
        board.roster if roster is None else roster,
        shape or board.shape,
        steps=2,
        lows=[-LIMIT] * columns,
        highs=[LIMIT] * columns,
        dense=False,
        running=1,
    )


def test_a_rolling_window_writes_only_to_its_own_tallies() -> None:
    board = Board([SUM])
    rolling, other = rolling_set(board), rolling_set(board)
    tally, foreign = rolling.open_tally(1), other.open_tally(1)
    loose = Tally(columns=1, tie=True, stamped=False, linked=False)
    wide = Shape([SUM], [0], [1], 0)

    def count(
        stores: Sequence[RankedSet | Tally],
        rollings: Sequence[RollingSet | None],
        routes: Sequence[int] = (0,),
    ) -> None:
        apply(
            board.shape, stores, routes, rollings, board.ids[:1], [array("q", [1])],
            15, 15, None, -1, -1, 0, 1, bytearray(1),
        )  # fmt: skip

    count([tally], [rolling])
    count([tally, foreign], [rolling, other], (0, 1))
    cases: list[
        tuple[Sequence[RankedSet | Tally], Sequence[RollingSet | None], Sequence[int], str]
    ] = [
        ([tally], [None], (0,), "in routes of rolling windows"),
        ([loose], [None], (0,), "in routes of rolling windows"),
        ([*board.rankings], [rolling], (0,), "rolling window's own steps"),
        ([foreign], [rolling], (0,), "rolling window's own steps"),
        ([loose], [rolling], (0,), "rolling window's own steps"),
        ([rolling.live], [None], (0,), "got one of its rankings"),
        ([tally], [], (0,), "for each ranking or tally"),
        ([tally, rolling.open_tally(0)], [rolling, rolling], (0, 1), "of one window only"),
        ([tally], [rolling_set(board, wide)], (-1,), "entries of a rolling set"),
        ([tally, foreign], [rolling, rolling_set(board, roster=Roster(1))], (0, -1), "same roster"),
    ]
    for stores, rollings, routes, message in cases:
        with pytest.raises(ValueError, match=message):
            count(stores, rollings, routes)
    with pytest.raises(TypeError):
        count([tally], [board.rankings[0]])  # type: ignore[list-item]
    while not rolling.complete:
        rolling.advance(1)
    rolling.rotate_step()
    rolling.advance(1)
    rolling.rotate_step()
    with pytest.raises(ValueError, match="rolling window's own steps"):
        count([tally], [rolling])
    rolling.check()
    other.check()


@pytest.mark.parametrize("ops", [(SUM,), (LAST,), (BEST, BEST)])
def test_a_journal_undoes_the_writes_of_several_calls(ops: Sequence[int]) -> None:
    random = Random(str(ops))
    board = Board(ops, rankings=3, tie=random.choice([1, -1]))
    for _ in range(25):
        before = [ranking.slice(0, 100) for ranking in board.rankings]
        journal = Journal()
        for _ in range(2):
            events = [
                (random.randrange(40), random.randint(-9, 9), random.choice([-1, 0, 2]))
                for _ in range(30)
            ]
            apply(
                board.shape, board.rankings, [1, array("i", [e[2] for e in events])],
                [None] * 3, array("I", [e[0] for e in events]),
                [array("q", [e[1] for e in events])] * len(ops),
                array("q", range(30)), array("q", range(30)), None, -1, -1, 0, 30,
                bytearray(30), journal,
            )  # fmt: skip
        after = [ranking.slice(0, 100) for ranking in board.rankings]
        assert len(journal) > 0
        assert after != before
        if random.random() < 0.6:
            journal.undo()
            after = before
        assert [ranking.slice(0, 100) for ranking in board.rankings] == after
        for ranking in board.rankings:
            ranking.check()
    journal.undo()
    assert len(journal) == 0
