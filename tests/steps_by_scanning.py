"""Find the steps of rolling windows in the slow way, by reading the local dates of a clock.

Steps have consecutive numbers, and step k ends where step k+1 begins. Steps of days are groups of
local dates, counted from 1 January 1970. All other steps have a fixed length and are counted from
1970 UTC. This file shares no code with the code under test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from tests.calendar_by_scanning import EPOCH, MINUTE, Span, day_of, day_start
from tests.definitions import duration_ms

FIRST_DAY = EPOCH.date().toordinal()


@dataclass(frozen=True)
class Steps:
    """The settings that divide time into steps: their length as text (`3d` or `15m`), and the time
    zone for steps of days."""

    length: str
    tz: str

    @property
    def days(self) -> int:
        """Return the number of days in a step, 0 if steps have a fixed length."""
        return int(self.length[:-1]) if self.length.endswith("d") else 0


def number_at(steps: Steps, at_ms: int) -> int:
    """Return the number of the step that contains an instant."""
    if steps.days:
        return (day_of(at_ms, steps.tz).toordinal() - FIRST_DAY) // steps.days
    return at_ms // duration_ms(steps.length)


def step_span(steps: Steps, number: int) -> Span:
    """Return the step with this number. The step is empty if the zone skipped all its dates."""
    return Span(_label(steps, number), _start(steps, number), _start(steps, number + 1))


def number_named(steps: Steps, label: str) -> int | None:
    """Return the number of the step with this label, or None if there is no such step."""
    try:
        if steps.days:
            number = (date.fromisoformat(label).toordinal() - FIRST_DAY) // steps.days
        else:
            number = number_at(steps, _instant(label))
    except ValueError:
        return None
    return number if _label(steps, number) == label else None


def _first_date(steps: Steps, number: int) -> date:
    return date.fromordinal(FIRST_DAY + number * steps.days)


def _start(steps: Steps, number: int) -> int:
    if steps.days:
        return day_start(_first_date(steps, number), steps.tz)
    return number * duration_ms(steps.length)


def _label(steps: Steps, number: int) -> str:
    if steps.days:
        return _first_date(steps, number).isoformat()
    start_ms = _start(steps, number)
    start = EPOCH + timedelta(milliseconds=start_ms)
    return start.strftime("%Y-%m-%dT%H:%MZ" if start_ms % MINUTE == 0 else "%Y-%m-%dT%H:%M:%SZ")


def _instant(label: str) -> int:
    """Return the instant that a label in UTC names. Raise ValueError if the label has another
    form."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z", label):
        raise ValueError(label)
    return (datetime.fromisoformat(label).astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)
