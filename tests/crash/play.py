"""A short run that uses all features of a folder, and reports each step after the step is done.

`verdict.py` runs the same steps on a store in memory to find out what the folder must contain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import laurels
from laurels import Board, Column
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.timeline.clock import ManualClock
from tests.internals import local

START_MS = 1_795_176_000_000  # 2026-11-20T12:00Z
MINUTE, HOUR = 60_000, 3_600_000
END_MS = START_MS + 24 * HOUR
CHECKPOINT_PAGES = 12

Do = Callable[[laurels.Leaderboards], object]
WriteReport = Callable[[dict[str, object]], None]


@dataclass(frozen=True)
class Step:
    """One operation, and the time that passes before it. `kept` says whether the operation may
    write to the log."""

    name: str
    do: Do
    wait_ms: int = 0
    kept: bool = True


REFRESHED = "9d=rolling:9d/1d,refresh=1s"
"""A window whose refresh is due as soon as time has passed, so that each step after a wait
refreshes it."""
POINTS = Board(
    "points", windows=["all", "day", "10m=rolling:10m/1m", REFRESHED], dedupe="48h", grace="3m"
)
LAPS = Board(
    "laps",
    columns=[Column("laps", op="best"), Column("seconds", op="best", order="asc")],
    windows=["3h=rolling:3h/1h", "2d=rolling:2d/1d"],
)
ROOMS = Board(
    "rooms",
    windows=["all", "3h=rolling:3h/1h", REFRESHED],
    scopes=[[], ["room"]],
    rank_by="room",
    dedupe="48h",
)
LEVELS = Board("levels", columns=[Column("level", op="last"), Column("xp")], windows=["all"])


def _create(board: Board) -> Step:
    return Step(f"create {board.name}", lambda lb: lb.create(board, exist_ok=True).name)


def _one(board: str, member: str, value: object, id: str | None = None, wait_ms: int = 0) -> Step:
    def do(lb: laurels.Leaderboards) -> object:
        receipt = lb.submit(board, member, value, id=id)  # type: ignore[arg-type]
        return [receipt.status, str(receipt.score), receipt.rank]

    return Step(f"{member} {value} {id or ''}", do, wait_ms)


def _batch(first: int, size: int, *, wait_ms: int = 0) -> Step:
    """Submit a batch of events of new members. The events have ids, and the batch has a
    position."""

    def do(lb: laurels.Leaderboards) -> object:
        events = [(f"n{first + i}", i % 97) for i in range(size)]
        position = ("file", str(first + size))
        done = lb.submit_many("points", events, key=f"k{first}", position=position)
        return [done.applied, done.duplicates, len(done)]

    return Step(f"batch {first}", do, wait_ms)


def _in_rooms(first: int, size: int, *, wait_ms: int = 0) -> Step:
    """Submit a batch of events of a few members in `rooms` rooms. Each event has an id."""

    def do(lb: laurels.Leaderboards) -> object:
        events = [
            (f"m{i % 5}", i, None, f"r{i}", {"room": f"{i},"}) for i in range(first, first + size)
        ]
        return lb.submit_many("rooms", events).applied

    return Step(f"rooms {first}", do, wait_ms)


def _snapshot() -> Step:
    return Step("snapshot", lambda lb: lb.snapshot(), kept=False)


def _remove(member: str) -> Step:
    return Step(f"remove {member}", lambda lb: lb.remove("points", member))


def _hide(member: str, hours: int | None = None) -> Step:
    """Hide a member, for some hours or without an end."""

    def do(lb: laurels.Leaderboards) -> object:
        until_ms = None if hours is None else lb.clock_status().now_ms + hours * HOUR
        lb.hide("points", member, "cheating", until_ms)
        return "hidden"

    return Step(f"hide {member} {hours}", do)


def _show(member: str) -> Step:
    return Step(f"show {member}", lambda lb: lb.show("points", member))


def _check() -> Step:
    return Step("check", lambda lb: lb.check().boards, kept=False)


def _set(member: str, value: int) -> Step:
    return Step(f"set {member}", lambda lb: str(lb.set("points", member, value).score))


def _data(member: str) -> Step:
    return Step(f"data {member}", lambda lb: lb.set_data("points", member, {"name": member}))


def _change() -> Step:
    return Step("change", lambda lb: lb.change("points", title="of all", keep=3).title)


FIRST: Sequence[Step] = (
    *2 * [_create(POINTS)],
    *2 * [_create(LAPS)],
    _one("points", "ann", 5, "e1"),
    _one("points", "bob", 7, "e2"),
    _batch(0, 400),
    _one("laps", "ann", (3, 90)),
    *2 * [_create(ROOMS)],
    _in_rooms(0, 40),
    _set("bob", 4),
    _data("ann"),
    _hide("bob"),
    _one("points", "cid", 9, "e3", wait_ms=MINUTE),
    _hide("ann", hours=1),
    _snapshot(),
    _hide("n7"),
    *2 * [_create(LEVELS)],
    _one("levels", "ann", (3, 10)),
    _remove("cid"),
    _one("points", "cid", 2, "e4", wait_ms=4 * MINUTE),
    _batch(400, 600, wait_ms=MINUTE),
    _one("laps", "bob", (4, 80), wait_ms=HOUR),
    _in_rooms(20, 60),
    _snapshot(),
    _one("points", "ann", 5, "e1"),
    _show("bob"),
    _change(),
    _batch(1_000, 500, wait_ms=9 * MINUTE),
    _one("laps", "ann", (4, 79), wait_ms=HOUR),
    _snapshot(),
    _one("levels", "ann", (4, 5)),
    _check(),
    _one("points", "dan", 1, "e5", wait_ms=12 * HOUR),
)
"""The steps on a folder that does not exist yet. The last steps are on the next day."""

SECOND: Sequence[Step] = (
    _hide("dan", hours=9),
    _one("points", "eve", 3, "f1", wait_ms=HOUR),
    _one("points", "ann", 5, "e1"),
    _batch(2_000, 300, wait_ms=2 * MINUTE),
    _create(ROOMS),
    _in_rooms(70, 30),
    _snapshot(),
    _create(LEVELS),
    _one("levels", "bob", (1, 1)),
    _check(),
)
"""The steps on the folder that `FIRST` left, even if `FIRST` was interrupted."""

STEPS: Sequence[Step] = (*FIRST, *SECOND)
PARTS = {"first": range(len(FIRST)), "second": range(len(FIRST), len(STEPS))}
"""For each part, the indexes of its steps. One process runs one part."""


def perform(step: Step, lb: laurels.Leaderboards) -> dict[str, object]:
    """Carry out a step. Return its answer, or the code of its error."""
    try:
        answer = step.do(lb)
    except laurels.LaurelsError as error:
        return {"code": error.code, "advice": bool(error.advice and str(error))}
    return {"answer": answer}


def play(folder: Path, numbers: range, write_report: WriteReport) -> None:
    """Open the folder, carry out these steps, report the result of each, and close the folder. If
    the store cannot be opened, or has closed after an error, open it again for the next step."""
    clock = ManualClock(START_MS + sum(step.wait_ms for step in STEPS[: numbers.start]))
    lb: laurels.Leaderboards | None = None
    for number in numbers:
        clock.advance(STEPS[number].wait_ms)
        try:
            lb = lb or _opened(folder, clock)
        except laurels.LaurelsError as error:
            write_report(
                {"step": number, "code": error.code, "advice": bool(error.advice), "open": True}
            )
            continue
        outcome = perform(STEPS[number], lb)
        write_report({"step": number, **outcome})
        if outcome.get("code") == "closed":
            lb.close()
            lb = None
    if lb is not None:
        lb.close()
    write_report({"end": numbers[-1]})


def _opened(folder: Path, clock: ManualClock) -> laurels.Leaderboards:
    """Open the folder. The log is checkpointed more often than usual, so that even a short run has
    some checkpoints."""
    lb = laurels.open(folder, clock=clock)
    log = local(lb)._log
    assert isinstance(log, SqliteLog)
    with suppress(laurels.LaurelsError):
        log._writer.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    return lb


def report_writer(file: int) -> WriteReport:
    """Return a function that writes each report as one line of JSON, in a single write."""

    def write_report(what: dict[str, object]) -> None:
        os.write(file, json.dumps(what).encode() + b"\n")

    return write_report
