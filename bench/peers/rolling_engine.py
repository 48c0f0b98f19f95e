"""The engine's write rule with one rolling window, without log, receipts or Python objects."""

from array import array
from collections.abc import Iterable, Sequence

from bench.history import Steps
from bench.peers.engine import SUM, signed
from bench.timing import Safety, Task
from bench.workload import Batch, Entry, packed
from laurels.engine.batch.fold import Shape, apply
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.model.score import LIMIT, step_bounds


class EngineRolling:
    """The tallies and rankings of one window, and the roster of its members."""

    ours = True
    name = "laurels engine"
    safety: Safety = "memory"

    def __init__(self, steps: Steps, now_ms: int) -> None:
        self._steps, self._now_ms = steps, now_ms
        self._roster = Roster(1)
        self._shape = Shape([SUM], [-LIMIT], [LIMIT], 1)
        low, high = step_bounds(-LIMIT, LIMIT, steps.many)
        self._window = RollingSet(
            self._roster,
            self._shape,
            steps=steps.many,
            lows=[low],
            highs=[high],
            dense=False,
            running=steps.number(now_ms),
        )
        self.settings = f"{steps.many} steps of {steps.hours} h"

    def load(self, batches: Iterable[list[Entry]]) -> None:
        """Count a history and prepare the next step."""
        oldest = self._window.leaving
        for events in batches:
            ids = self._roster.intern(*packed(member for member, _, _ in events))
            ats = array("q", [at_ms for _, _, at_ms in events])
            routes = array("i", [self._steps.number(at_ms) - oldest for at_ms in ats])
            values = signed([(member, value) for member, value, _ in events])
            self._apply(range(self._steps.many), routes, ids, values, ats)
        self._window.advance(1 << 60)

    def writes(self, batches: Sequence[Batch]) -> Task:
        ready = [(*packed(member for member, _ in batch), signed(batch)) for batch in batches]
        running = [self._steps.many - 1]

        def run() -> None:
            for arena, lengths, values in ready:
                ids = self._roster.intern(arena, lengths)
                self._now_ms += 1
                self._apply(running, 0, ids, values, self._now_ms)

        return run

    def total(self) -> int:
        """Return the sum of all totals in the window."""
        _, (scores, *_) = self._window.live.slice(0, len(self._window.live))
        return -sum(scores)

    def check(self) -> None:
        """Check every invariant."""
        self._window.check()

    def _apply(
        self,
        places: Sequence[int],
        route: "int | array[int]",
        ids: "array[int]",
        values: "array[int]",
        ats: "int | array[int]",
    ) -> None:
        """Count events in the tallies of the steps at these indexes of the window."""
        tallies = [self._window.open_tally(self._window.leaving + place) for place in places]
        rollings = [self._window] * len(tallies)
        apply(
            self._shape, tallies, [route], rollings, ids, [values], ats, ats, None, -1, 0,
            0, len(ids), bytearray(len(ids)),
        )  # fmt: skip
