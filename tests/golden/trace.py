"""A trace: a fixed history of events over boards of every shape, with receipts and answers.

The history depends only on a seed, so every store and every version of the code plays the same
history. Each step submits a batch, moves the clock, or does something rarer, such as a set or a
removal. Some queries follow every step. The file has one line per step, with its kind, the SHA-256
of its receipts, and the SHA-256 of its answers. Offsets are left out, since stores count them
differently. Windows with a refresh are left out too, since the time of a refresh depends on the
store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

import laurels

START_MS = 1_795_176_000_000  # 2026-11-20T12:00Z
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
MEMBERS = [f"member-{i:03}" for i in range(150)] + ["é/ü", "日本", 'a"b', "x,y=z", "m" * 128]
ROOMS = ["1", "42", "a,b", "é"]
EVENTS = 100_000

BOARDS = (
    laurels.Board("sums", windows=["all", "hour", "day", "week", "7d=rolling:7d/1h"], grace="1h"),
    laurels.Board(
        "sprint",
        columns=[{"name": "time", "op": "best", "order": "asc", "scale": 3, "min": 0, "max": 9999}],
        tie="last",
        rank="competition",
        windows=["all", "month", "last=rolling:4h/1h"],
    ),
    laurels.Board(
        "ladder",
        columns=[{"name": "level", "op": "last"}, {"name": "wins", "op": "sum"}],
        tie="member",
        tie_resolution="1m",
        windows=["all", "tokyo=day:tz=Asia/Tokyo", "2d=rolling:2d/1d,tz=Europe/Berlin"],
    ),
    laurels.Board("hot", windows=["all", "fade=decay:6h"]),
    laurels.Board("rooms", windows=["all", "day"], scopes=[[], ["room"]], dedupe="2h"),
    laurels.Board(
        "points", columns=[{"name": "points", "scale": 2, "max": "500.00"}], windows=["all", "hour"]
    ),
)
"""The boards of the trace. Together they have every operator, order, tie rule, kind of window and
rank style, except the rank style `dense`, which a board in several shards cannot have."""


class Step(Struct, frozen=True):
    """One step of the history, as recorded in the file. `events` is the number of events in all
    steps up to and including this one."""

    kind: str
    events: int
    receipts: str
    answers: str


class Player:
    """A player of the history, which submits it to a store and moves the clock of the store."""

    def __init__(self, lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
        self._lb = lb
        self._clock = clock
        self._random = Random(20_261_120)
        self.events = 0
        self.answers: list[object] = []
        """The complete answers of the last step."""

    def play(self, events: int) -> Iterator[Step]:
        """Create the boards, and play steps until this number of events has been submitted."""
        for board in BOARDS:
            self._lb.create(board)
        while self.events < events:
            kind, step = self._random.choices(_STEPS, _WEIGHTS)[0]
            try:
                receipts = step(self)
            except laurels.LaurelsError as error:
                receipts = [error.code]
            self.answers = list(self._ask())
            yield Step(kind, self.events, digest(receipts), digest(self.answers))

    def _submit(self) -> list[object]:
        board, size = self._random.choice(BOARDS), self._random.choice([1, 2, 10, 60, 300])
        events = [self._event(board) for _ in range(size)]
        self.events += size
        return [_without_offset(each) for each in self._lb.submit_many(board.name, events)]

    def _submit_one(self) -> list[object]:
        board = self._random.choice(BOARDS)
        member, value, at_ms, id, labels = self._event(board)
        self.events += 1
        return [
            _without_offset(
                self._lb.submit(board.name, member, value, at=at_ms, id=id, labels=labels)
            )
        ]

    def _set(self) -> list[object]:
        board = self._random.choice(BOARDS)
        member, labels = self._random.choice(MEMBERS), self._labels(board)
        value = self._value(board)
        return [_without_offset(self._lb.set(board.name, member, value, labels=labels))]

    def _remove(self) -> list[object]:
        return [self._lb.remove(self._random.choice(BOARDS).name, self._random.choice(MEMBERS))]

    def _keep_data(self) -> list[object]:
        board, member = self._random.choice(BOARDS), self._random.choice(MEMBERS)
        self._lb.set_data(board.name, member, {"name": member, "n": self.events})
        return []

    def _wait(self) -> list[object]:
        self._clock.advance(self._random.choice([1, SECOND, 7 * MINUTE, HOUR, 5 * HOUR, DAY]))
        return [self._clock.now_ms()]

    def _event(self, board: laurels.Board) -> tuple[Any, Any, int, str | None, Any]:
        late_ms = self._random.choice([0, 0, 0, 0, MINUTE, 30 * MINUTE, 3 * HOUR, DAY])
        id = self._random.choice([None, None, f"id-{self._random.randrange(5_000)}"])
        at_ms = self._clock.now_ms() - late_ms
        return self._random.choice(MEMBERS), self._value(board), at_ms, id, self._labels(board)

    def _value(self, board: laurels.Board) -> Any:
        r = self._random
        if board.name == "ladder":
            return r.randint(0, 20), r.randint(-1, 3)
        if board.name == "sprint":
            return f"{r.randint(0, 99_999) / 10:.1f}"
        if board.name == "points":
            return r.choice(["0.25", "-1.50", "12.00", "480.99", "1.999"])  # `1.999` is refused
        return r.randint(-3, 40)

    def _labels(self, board: laurels.Board) -> dict[str, str] | None:
        return {"room": self._random.choice(ROOMS)} if board.name == "rooms" else None

    def _ask(self) -> Iterator[object]:
        """Run some queries on one board, in one window."""
        board, r, lb = self._random.choice(BOARDS), self._random, self._lb
        name, member = board.name, r.choice(MEMBERS)
        window = r.choice(list(board.rules().windows))
        kept: dict[str, Any] = {"window": window}
        if name == "rooms" and r.random() < 0.5:
            kept["labels"] = {"room": r.choice(ROOMS)}
        yield _page(lb.top(name, limit=r.choice([3, 20]), offset=r.choice([0, 5]), **kept))
        yield lb.rank(name, member, **kept)
        yield _standing(lb.standing(name, member, to_rank=3, **kept))
        yield _page(lb.around(name, member, radius=2, **kept))
        yield lb.ranks(name, r.sample(MEMBERS, 5), **kept)
        yield lb.count(name, **kept)
        yield _standing(lb.at_rank(name, r.randint(1, 60), **kept))
        yield [(each.label, each.total) for each in lb.periods(name, window)]


_STEPS: list[tuple[str, Callable[[Player], list[object]]]] = [
    ("batch", Player._submit),
    ("event", Player._submit_one),
    ("set", Player._set),
    ("remove", Player._remove),
    ("data", Player._keep_data),
    ("time", Player._wait),
]
_WEIGHTS = [50, 25, 5, 5, 5, 10]


def digest(values: object) -> str:
    """Return the first half of the SHA-256 of some values, encoded as JSON with exact decimals."""
    content = msgspec.json.encode(values, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:32]


def _without_offset(receipt: laurels.Receipt) -> dict[str, Any]:
    kept: dict[str, Any] = msgspec.to_builtins(receipt, builtin_types=())
    del kept["offset"], kept["message"]  # the wording of messages may change
    return kept


def _page(page: laurels.Page | None) -> object:
    return (
        None if page is None else (page.entries, page.total, page.as_of.window, page.as_of.period)
    )


def _standing(standing: laurels.Standing | None) -> object:
    """Return a standing without the fields that did not exist when the trace was recorded: the
    needed value and the bounds of its rank."""
    if standing is None:
        return None
    assert (standing.rank_low, standing.rank_high, standing.exact) == (
        standing.rank,
        standing.rank,
        True,
    )
    kept = msgspec.structs.asdict(standing) | {"as_of": None}
    for added in ("needed", "rank_low", "rank_high", "exact", "grid_age"):
        del kept[added]
    encode = msgspec.json.Encoder(order="deterministic").encode
    fields = [encode(name) + b":" + encode(value) for name, value in kept.items()]
    return msgspec.Raw(b"{" + b",".join(fields) + b"}")
