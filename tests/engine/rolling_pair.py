"""The windows of a board twice: in the engine, and in plain Python. Both get the same changes, and
tests compare them."""

from array import array
from collections.abc import Sequence
from random import Random

from laurels.engine.batch.fold import LAST, Journal, Shape, apply
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import RankedSet
from tests.engine.pair import intern
from tests.engine.plain import Row
from tests.engine.plain_rolling import Event, Kept, PlainBoard, Roll, step_bound

LIMIT = 2**53 - 1


def rows(ids: "array[int]", words: "Sequence[array[int]]") -> dict[int, Row]:
    """Return a dict from each id to its words. Each array of `words` has one word of every id."""
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, zip(*words, strict=True), strict=True))


def entries(ranking: RankedSet) -> dict[int, Row]:
    return rows(*ranking.slice(0, len(ranking)))


def cells(tally: Tally | None) -> dict[int, Row]:
    return {} if tally is None else rows(*tally.scan(0, 2**32)[:2])


class RollingPair:
    """The windows of a board in the engine and in plain Python, with one roster. A member is named
    by its index."""

    def __init__(
        self,
        ops: Sequence[int],
        windows: Sequence[Roll | None],
        *,
        tie: int = 1,
        resolution: int = 1,
        members: int = 12,
        low: int = -LIMIT,
        high: int = LIMIT,
        now: int = 0,
        dense: bool = False,
    ) -> None:
        self.now = now
        self.roster = Roster(8)
        self.ids = intern(self.roster, [b"m%d" % i for i in range(members)])
        lows, highs = [low] * len(ops), [high] * len(ops)
        self.stamped = LAST in ops and (tie == 0 or resolution != 1)
        self.shape = Shape(ops, lows, highs, tie, self.stamped)
        self.plain = PlainBoard(ops, lows, highs, tie, resolution, windows)
        self.ranking = RankedSet(
            self.roster, columns=len(ops), tie=tie != 0, stamped=self.stamped, dense=dense
        )
        self.dense = dense
        self.rollings = [None if roll is None else self.rolling_set(roll) for roll in windows]

    def rolling_set(self, roll: Roll) -> RollingSet:
        """Return an empty rolling set at the current step."""
        bounds = [
            step_bound(low, high, roll.steps)
            for low, high in zip(self.plain.lows, self.plain.highs, strict=True)
        ]
        return RollingSet(
            self.roster,
            self.shape,
            steps=roll.steps,
            lows=[low for low, _ in bounds],
            highs=[high for _, high in bounds],
            dense=self.dense,
            running=roll.number_at(self.now),
        )

    def apply(
        self, events: Sequence[Event], watch: int = -1, journal: Journal | None = None
    ) -> None:
        """Count events in both, and compare the statuses and reports, event by event."""
        status = bytearray(7 if event.skipped else 0 for event in events)
        stores, rollings, routes = self.routes(events)
        resolution = self.plain.resolution
        reported = apply(
            self.shape,
            stores,
            routes,
            rollings,
            array("I", [self.ids[event.member] for event in events]),
            [array("q", column) for column in zip(*[e.values for e in events], strict=True)],
            array("q", [event.at // resolution for event in events]),
            array("q", [event.at for event in events]),
            bytes(event.absolute for event in events),
            list(self.plain.windows).index(None) if None in self.plain.windows else -1,
            watch,
            0,
            len(events),
            status,
            journal,
        )
        before, after, codes = [], [], bytearray()
        for event in events:
            before.append(self.seen(event, watch))
            codes.append(7 if event.skipped else self.plain.count(event, self.now))
            after.append(self.seen(event, watch))
        assert status == codes
        if watch >= 0:
            assert reported is not None
            for (present, columns), expected in zip(reported, (before, after), strict=True):
                assert list(present) == [kept is not None for kept in expected]
                absent = (0,) * len(self.plain.ops)
                seen = [absent if kept is None else kept.columns for kept in expected]
                assert list(zip(*columns, strict=True)) == seen

    def routes(
        self, events: Sequence[Event]
    ) -> "tuple[list[RankedSet | Tally], list[RollingSet | None], list[int | array[int]]]":
        """Return three lists. The first has the sets and tallies to write to. The second has the
        rolling set to which each of these belongs, or None. The third has an item for each window:
        one index in the first list for all events, or an index for each event, where -1 means that
        the window does not take the event."""
        stores: list[RankedSet | Tally] = []
        rollings: list[RollingSet | None] = []
        routes: list[int | array[int]] = []
        for roll, rolling in zip(self.plain.windows, self.rollings, strict=True):
            if roll is None or rolling is None:
                routes.append(len(stores))
                stores.append(self.ranking)
                rollings.append(None)
                continue
            places: dict[int, int] = {}
            for event in events:
                number = roll.number_at(event.at)
                if roll.takes(event.at, self.now) and number not in places:
                    places[number] = len(stores)
                    stores.append(rolling.open_tally(number))
                    rollings.append(rolling)
            routes.append(array("i", [places.get(roll.number_at(e.at), -1) for e in events]))
        return stores, rollings, routes

    def seen(self, event: Event, watch: int) -> Kept | None:
        if watch < 0:
            return None
        roll = self.plain.windows[watch]
        if roll is not None and not roll.takes(event.at, self.now):
            return None
        return self.plain.kept(watch, event.member, self.now)

    def go_to(self, now: int, random: Random) -> None:
        """Move to a later time. Each window rotates its steps up to that time. A window whose steps
        have all left by then is reset, so that it has no tallies and no entries."""
        self.now = now
        for roll, rolling in zip(self.plain.windows, self.rollings, strict=True):
            if roll is None or rolling is None:
                continue
            running = roll.number_at(now)
            if running - rolling.running >= roll.steps:
                rolling.reset(running)
            while rolling.running < running:
                while not rolling.complete:
                    rolling.advance(random.choice([1, 2, 50, 10**9]))
                rolling.rotate_step()

    def discard(self, members: Sequence[int]) -> None:
        ids = array("I", [self.ids[member] for member in members])
        self.ranking.discard(ids)
        for window, rolling in enumerate(self.rollings):
            if rolling is not None:
                live = self.plain.live(window, self.now)
                assert rolling.discard(ids) == len(set(members) & set(live))
        for member in members:
            self.plain.events.pop(member, None)

    def state(self) -> list[object]:
        """Return all entries and cells, word by word. The pass of a window need not be complete."""
        result: list[object] = [entries(self.ranking)]
        for rolling in self.rollings:
            if rolling is not None:
                numbers = rolling.numbers()
                result += [entries(rolling.live), entries(rolling.prepared), numbers]
                result += [cells(rolling.tally(number)) for number in numbers]
        return result

    def check(self) -> None:
        self.ranking.check()
        for rolling in self.rollings:
            if rolling is not None:
                rolling.check()

    def compare(self) -> None:
        """Compare every ranking and all tallies, and the prepared rankings if their pass is
        complete."""
        self.check()
        for window, rolling in enumerate(self.rollings):
            if rolling is None:
                live = self.plain.live(window, self.now)
                expected = {self.ids[m]: self.plain.row(kept) for m, kept in live.items()}
                assert entries(self.ranking) == expected
            else:
                self.compare_rolling(window, rolling)

    def compare_rolling(self, window: int, rolling: RollingSet) -> None:
        roll = self.plain.windows[window]
        assert roll is not None
        assert rolling.running == roll.number_at(self.now)
        assert entries(rolling.live) == self.expected(window, self.now)
        if rolling.complete:
            next_now = (rolling.running + 1) * roll.step_ms
            assert entries(rolling.prepared) == self.expected(window, next_now)
        compared = {
            (number, id): cell
            for number in rolling.numbers()
            if number >= rolling.leaving
            for id, cell in cells(rolling.tally(number)).items()
        }
        words = len(self.plain.row(Kept((0,) * len(self.plain.ops), 0, 0)))
        made = {
            (number, self.ids[member]): cell
            for member in self.plain.events
            for number, cell in self.plain.cells(window, member, self.now).items()
        }
        for key, cell in compared.items():
            if len(cell) > words and key[0] - cell[words] < rolling.leaving:
                # the engine may still link to a step that has left, the plain cells do not
                compared[key] = (
                    *cell[:words],
                    0,
                    cell[-1],
                )
        assert compared == made

    def expected(self, window: int, now: int) -> dict[int, Row]:
        """Return the entries that the ranking of a rolling window should have at `now`, computed
        from its events."""
        return {
            self.ids[member]: (*self.plain.row(kept), self.plain.newest(window, member, now))
            for member, kept in self.plain.live(window, now).items()
        }
