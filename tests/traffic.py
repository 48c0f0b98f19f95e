"""Random operations of every kind on a store. Tests mix them with their own operations.

There are boards of every shape, with windows of every kind. There are few members, so that each has
several events. Times jump over steps and days, and event ids repeat. Members and boards are removed
and created again, and many scopes occur.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import laurels
from laurels.api.leaderboards import Leaderboards
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.store import Service
from laurels.timeline.clock import ManualClock

NOON = 1_795_176_000_000  # 2026-11-20T12:00Z
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
MEMBERS = [*(f"m{i}" for i in range(24)), "é", "日本"]
NAMES = [f"b{i}" for i in range(9)]
WINDOWS = ["hour:grace=3h", "day", "4h=rolling:4h/1h", "3d=rolling:3d/1d,tz=Asia/Tokyo"]
WINDOWS += ["m=rolling:10m/1m", "week", "2d=rolling:48h/8h,grace=40h"]
WINDOWS += ["f=rolling:4h/1h,refresh=30m", "g=rolling:2d/1d,grace=1d,refresh=1m"]
SHAPES = ["sum", "best", "last", "sum last", "best best", "last sum sum", "sum", "best"]
SCOPES: list[list[list[str]]] = [[[]], [[], ["room"]], [[], ["room"], ["room", "zone"], ["zone"]]]
RANK_BY: list[list[str]] = [[], [], ["room"], ["room", "zone"]]
ROOMS = ["1", "2", "a,b", "é", *MEMBERS[:12]]
JUMPS_MS = [0, 1, 900, MINUTE, MINUTE, 7 * MINUTE, HOUR, HOUR, 5 * HOUR, DAY, 9 * DAY]


class Traffic:
    """A store in memory, and random operations on it."""

    def __init__(self, seed: int, boards: int = 4) -> None:
        self.rng = Random(seed)
        self.clock = ManualClock(NOON + self.rng.randrange(DAY))
        self.log = MemoryLog()
        self.service = Service(self.log, lambda: MemoryIndex(seed), self.clock)
        self.service.paced = True  # due work is done only by `_work`
        self.lb = Leaderboards(self.service)
        self.members = self.rng.sample(MEMBERS, self.rng.choice([4, len(MEMBERS)]))
        self.names: list[str] = []
        self.made = 0
        for _ in range(boards):
            self._create()

    def happen(self, times: int) -> None:
        """Do this many random operations. Errors of refused operations are ignored."""
        for _ in range(times):
            what = self.rng.choices(self._kinds, self._weights)[0]
            with suppress(laurels.LaurelsError):
                what(self)

    def _board(self) -> str:
        return self.rng.choice(self.names)

    def _member(self) -> str:
        return self.rng.choice(self.members)

    def _value(self, board: str) -> tuple[int, ...]:
        columns = len(self.lb.get(board).columns)
        return tuple(self.rng.randint(-2, 6) for _ in range(columns))

    def _event(self, board: str) -> tuple[object, ...]:
        late_ms = self.rng.choice([0, 0, 0, MINUTE, 3 * MINUTE, HOUR, 2 * HOUR, 20 * HOUR, DAY])
        id = self.rng.choice([None, f"id{self.rng.randrange(40)}"])
        labels = self._labels(board)
        return self._member(), self._value(board), self.clock.now_ms() - late_ms, id, labels

    def _labels(self, board: str) -> dict[str, str] | None:
        some = [name for name in self.lb.get(board).rules().labels if self.rng.random() < 0.8]
        return {name: self.rng.choice(ROOMS) for name in some} or None

    def _submit(self) -> None:
        board = self._board()
        events = [self._event(board) for _ in range(self.rng.choice([1, 1, 2, 9]))]
        self.lb.submit_many(
            board,
            events,
            all_or_nothing=self.rng.random() < 0.4,
            position=self.rng.choice([None, ("stream", str(self.clock.now_ms()))]),
        )

    def _note(self) -> None:
        self.lb.submit_many(self._board(), [], position=("file", f"line {self.made}"))
        self.made += 1

    def _set(self) -> None:
        board = self._board()
        self.lb.set(board, self._member(), self._value(board), labels=self._labels(board))

    def _remove(self) -> None:
        self.lb.remove(self._board(), self._member())

    def _give_data(self) -> None:
        self.lb.set_data(self._board(), self._member(), self.rng.choice([None, 1, {"at": "x"}]))

    def _create(self) -> None:
        self.made += 1
        free = [name for name in NAMES if name not in self.names]
        if not free:
            return
        shape = self.rng.choice(SHAPES).split()
        board = laurels.Board(
            self.rng.choice(free),
            columns=[
                {
                    "name": f"c{i}",
                    "op": op,
                    "order": self.rng.choice(["asc", "desc"]),
                    "max": self.rng.choice([None, 30]),
                }
                for i, op in enumerate(shape)
            ],
            tie=self.rng.choice(["first", "last", "member"]),
            tie_resolution=self.rng.choice(["1ms", "1m"]),
            rank=self.rng.choice(["ordinal", "competition", "dense"]),
            windows=["all", *self.rng.sample(WINDOWS, 3)],
            grace="1h",
            dedupe="40h",
            scopes=self.rng.choice(SCOPES),
            rank_by=self.rng.choice(RANK_BY),
        )
        self.lb.create(board)
        self.names.append(board.name)

    def _change(self) -> None:
        board = self.lb.get(self._board())
        kind = self.rng.randrange(4)
        if kind == 0:
            self.lb.change(board.name, keep=self.rng.choice([1, 2, 5]))
        elif kind == 1:
            self.lb.change(board.name, scopes=[*board.scopes, self.rng.choice([["zone"], ["x"]])])
        else:
            self.lb.change(board.name, windows=[*board.windows, self.rng.choice(WINDOWS)])

    def _delete(self) -> None:
        if len(self.names) > 2:
            self.lb.delete(name := self._board())
            self.names.remove(name)

    def _wait(self) -> None:
        self.clock.advance(self.rng.choice(JUMPS_MS))

    def _ask(self) -> None:
        board = self._board()
        self.lb.top(board, window=self.rng.choice(list(self.lb.get(board).rules().windows)))

    def _work(self) -> None:
        self.service.work(self.rng.choice([1, 5, 1_000]))

    _kinds: tuple[Callable[[Traffic], None], ...] = (
        _submit,
        _note,
        _set,
        _remove,
        _give_data,
        _create,
        _change,
        _delete,
        _wait,
        _ask,
        _work,
    )
    _weights = (40, 2, 6, 8, 6, 1, 2, 1, 12, 6, 8)
