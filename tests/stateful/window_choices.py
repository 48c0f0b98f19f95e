"""Windows of boards, chosen so that most combinations occur and no board is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random

from tests.definitions import ColumnDef, Definition, WindowDef, duration_ms
from tests.oracle_calendar import CalendarWindow
from tests.oracle_rolling import RollingWindow
from tests.oracle_windows import window_of
from tests.prize_definitions import PrizeDef, PrizesDef

UNITS = ("hour", "day", "week", "month", "quarter", "year")
LENGTHS = ("1s", "20s", "1m", "1m", "15m", "15m", "1h", "1h", "1d", "1d", "3d")
COUNTS = (2, 2, 3, 4, 5, 7, 8, 50)
HALF_LIVES = ("1s", "90s", "20m", "6h", "30d")
INTERVALS = ("1s", "7s", "1m", "20m", "1h", "7h", "1d")
WRITTEN = (("60m", "20m"), ("1h", "15m"), ("2d", "12h"), ("1m", "10s"), ("3d", "1d"))
"""Spans and steps, some in different units."""


def windows(
    rng: Random, tz: str, *, fading: bool = False, refreshing: bool = False
) -> tuple[WindowDef, ...]:
    """Return one to six windows: usually `all`, and some calendar and rolling windows. With
    `fading`, some windows have decay. With `refreshing`, some rolling windows have a refresh."""
    chosen_windows = [
        calendar(rng, unit, tz) for unit in rng.sample(UNITS, rng.choice([0, 0, 1, 2]))
    ]
    chosen_windows += [rolling(rng, i, tz) for i in range(rng.choice([0, 1, 1, 2]))]
    if fading:
        chosen = rng.sample(HALF_LIVES, rng.choice([0, 1, 1, 2]))
        chosen_windows += [decay(rng, i, half_life) for i, half_life in enumerate(chosen)]
    if refreshing:
        chosen_windows = [refreshed(rng, window) for window in chosen_windows]
    rng.shuffle(chosen_windows)
    if not chosen_windows or rng.random() < 0.75:
        chosen_windows.insert(
            rng.randint(0, len(chosen_windows)), WindowDef(name=rng.choice([None, "ever"]))
        )
    return tuple(chosen_windows)


def calendar(rng: Random, unit: str, tz: str) -> WindowDef:
    """Return a calendar window, sometimes with its own options."""
    keep = rng.choice([None, None, 1, 4])
    return WindowDef(
        unit,
        name=rng.choice([None, f"my-{unit}"]) if keep is None else f"my-{unit}",
        keep=keep,
        tz=rng.choice([None, None, tz]),
        week_start=rng.choice([None, "saturday"]) if unit == "week" else None,
        grace=rng.choice([None, None, "1m"]),
    )


def decay(rng: Random, i: int, half_life: str) -> WindowDef:
    """Return a window with decay."""
    return WindowDef("decay", name=rng.choice([None, f"hot{i}"]), half_life=half_life)


def rolling(rng: Random, i: int, tz: str) -> WindowDef:
    """Return the i-th rolling window of a board. It accepts late events for the grace of the board,
    for one second, or for the longest time that is possible. Only the first rolling window may have
    no name, so that all names differ."""
    span, step = rng.choice(WRITTEN) if rng.random() < 0.2 else _counted(rng)
    longest = f"{(duration_ms(span) - duration_ms(step)) // 1000}s"
    grace = rng.choice([None, longest, longest, "1s"])
    return WindowDef(
        "rolling",
        name=None if i == 0 and grace is None else f"roll{i}",
        tz=rng.choice([None, tz]) if step.endswith("d") else None,
        grace=grace,
        span=span,
        step=step,
    )


def refreshed(rng: Random, window: WindowDef) -> WindowDef:
    """Return the window. If it is a rolling one, add a refresh with probability 1/2."""
    if window.unit != "rolling" or rng.random() < 0.5:
        return window
    fitting = [each for each in INTERVALS if duration_ms(each) <= duration_ms(window.span)]
    return replace(window, refresh=rng.choice(fitting))


def archived(rng: Random, window: WindowDef) -> WindowDef:
    """Return the window. With probability 2/3 give it an archive, unless it is refreshed."""
    if window.refresh is not None or rng.random() < 1 / 3:
        return window
    lengths: list[str | int] = ["forever", "forever", 4]
    return replace(_with_boundaries(rng, window), archive=rng.choice(lengths))


def _with_boundaries(rng: Random, window: WindowDef) -> WindowDef:
    """Return the window. If it is a rolling one, let it be archived at the ends of some steps."""
    if window.unit != "rolling" or window.archive_every is not None:
        return window
    length, unit = int(window.step[:-1]), window.step[-1]
    least = -(-60_000 // duration_ms(window.step))
    return replace(
        window, archive_every=f"{length * max(least, rng.choice([1, 1, 2, 3, 5]))}{unit}"
    )


def prized(
    rng: Random,
    window: WindowDef,
    columns: Sequence[ColumnDef],
    scopes: Sequence[tuple[str, ...]],
) -> WindowDef:
    """Return the window. With probability 2/3 give it prizes, unless it is refreshed."""
    if window.refresh is not None or rng.random() < 1 / 3:
        return window
    return replace(_with_boundaries(rng, window), prizes=_prizes(rng, columns, scopes))


def _prizes(
    rng: Random, columns: Sequence[ColumnDef], scopes: Sequence[tuple[str, ...]]
) -> PrizesDef:
    ties = rng.choice(["all", "first", "split"])
    prizes = []
    for i in range(rng.randint(1, 3)):
        first = rng.randint(1, 4)
        least = [rng.randint(-2, 5) for _ in range(rng.randint(1, len(columns)))]
        prize = rng.choice(
            [
                PrizeDef(f"p{i}", ranks=(first, first + rng.randint(0, 3))),
                PrizeDef(f"p{i}", ranks=(1, rng.randint(1, 3))),
                PrizeDef(f"p {i}/é", percent=Decimal(rng.randint(1, 1_000)) / 10),
                PrizeDef(f"p{i}", at_least=tuple(least)),
            ]
        )
        if ties == "split" or rng.random() < 0.6:
            scale = rng.choice([0, 2])
            amount = Decimal(rng.choice([1, 2, 10, 101, 9_999])).scaleb(-scale)
            prize = replace(prize, amount=amount, scale=scale)
        prizes.append(prize)
    pay_after = rng.choice(["0s", "0s", "1s", "20m", "1d", "9d"])
    chosen = rng.sample(scopes, rng.randint(1, len(scopes)))
    return PrizesDef(tuple(prizes), ties, pay_after, tuple(chosen))


def _counted(rng: Random) -> tuple[str, str]:
    step = rng.choice(LENGTHS)
    return f"{int(step[:-1]) * rng.choice(COUNTS)}{step[-1]}", step


def dedupe(rng: Random, windows: Sequence[WindowDef], grace: str) -> str:
    """Return how long ids are remembered: at least as long as any window accepts late events."""
    kinds = [window_of(window, Definition(grace=grace)) for window in windows]
    longest_ms = max(
        duration_ms(grace),
        *[kind.grace_ms for kind in kinds if isinstance(kind, CalendarWindow | RollingWindow)],
        0,
    )
    shortest = f"{-(-longest_ms // 3_600_000)}h"
    return rng.choice(["1h", "2h"]) if longest_ms <= duration_ms("1h") else shortest
