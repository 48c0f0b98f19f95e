"""How a window is written in a board's definition: as text or as an object.

    all                                 every event, for ever
    day                                 a calendar window with the board's tz, keep and grace
    month:keep=12,tz=Asia/Shanghai      with its own keep and tz; the name is `month`
    today=day:grace=1h                  with a name of its own
    7d=rolling:7d/1h                    the last 7 days in steps of an hour
    30d=rolling:30d/1d,refresh=1h       the last 30 days, ranked anew only once an hour
    30d=rolling:30d/1d,refresh=day@04:00    the same, ranked anew every day at four, local time
    hot=decay:6h                        every event; its value halves every 6 hours
    day:archive=forever                 every day is closed and archived (see `archiving`)

    {"name": "today", "type": "day", "grace": "1h"}
    {"name": "7d", "type": "rolling", "span": "7d", "step": "1h"}
    {"name": "hot", "type": "decay", "half_life": "6h"}

Text and object are read as a `WindowForm` (see `parsing.py`), whose `text` is the canonical text. A
form distinguishes settings that were written from settings left to the board. A window that was
written with a `keep` retains it when the board's `keep` changes.

A window without a name of its own is named by its text without the options: `week:keep=20` is the
window `week`, `rolling:30d/1d,refresh=1h` is `rolling:30d/1d`. Earlier versions named such a window
by its whole text. On boards made by these versions the window keeps that name, which is then
written out: `week:keep=20=week:keep=20`. In the stored form of a definition (`stored_text`,
`stored_window`) the default name is still the whole text, and a short name is written out, so that
earlier and current versions read it correctly.

Span and step keep the unit in which they were written: `1d` is a day of the calendar and `24h` is
not, and a window written as `rolling:60m/1m` is not renamed to `rolling:1h/1m`. The first option
may follow a colon instead of a comma: `rolling:30d/1d:refresh=1h`.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from laurels.model.durations import DAY_MS, duration_ms, duration_text
from laurels.model.prizes import Prizes
from laurels.timeline.instants import MAX_MS

from .all import All
from .archiving import ARCHIVING, archiving_options
from .calendar import Calendar, Unit, Weekday
from .closing import FOREVER, Closing
from .decay import Decay
from .kinds import Window
from .rolling import Rolling

Type = Literal["all", "rolling", "decay"] | Unit
TYPES: tuple[Type, ...] = ("all", *get_args(Unit), "rolling", "decay")
OPTIONS = ("span", "step", "keep", "tz", "week_start", "grace", "refresh", "half_life")


class WindowDefaults(Struct, frozen=True):
    """The settings of a board that apply to all its windows."""

    tz: str
    week_start: Weekday
    keep: int
    grace_ms: int
    ends_ms: int = MAX_MS

    @property
    def end_grace_ms(self) -> int:
        """The grace after the end of the board, 0 for a board without an end."""
        return self.grace_ms if self.ends_ms < MAX_MS else 0


class WindowForm(Struct, frozen=True):
    """A window as written. A setting that is None is left to the board."""

    type: Type
    own_name: str | None = None
    keep: int | None = None
    tz: str | None = None
    week_start: Weekday | None = None
    grace_ms: int | None = None
    span: str | None = None
    step: str | None = None
    half_life: str | None = None
    refresh_ms: int | None = None
    refresh_minute: int | None = None
    archive: int | None = None
    archive_every_ms: int | None = None
    prizes: Prizes | None = None

    @property
    def name(self) -> str:
        """The name of the window: its own, or its text without the options."""
        return self.own_name or self.short_name

    @property
    def decays(self) -> bool:
        """Whether scores in the window lose value with time."""
        return self.type == "decay"

    @property
    def ranks_periods(self) -> bool:
        """Whether the window has one ranking for each period, counted from unweighted values."""
        return self.type not in ("rolling", "decay")

    @property
    def safe_options(self) -> tuple[str, ...]:
        """The options that may change without altering the meaning of counted events."""
        return (*(("keep",) if self.ranks_periods else ()), *archiving_of(self.type))

    @property
    def short_name(self) -> str:
        """The name that a window of this form has if it is not given a name of its own."""
        measure = f"{self.span}/{self.step}" if self.span else self.half_life
        return f"{self.type}:{measure}" if measure else self.type

    @property
    def full_name(self) -> str:
        """The text without the name, with all options except those about closed periods.

        In earlier versions, which did not have these options, this was the default name.
        """
        return self._text_of(self._options)

    @property
    def text(self) -> str:
        """The canonical text. It reads back as this form."""
        return f"{self.own_name}={self._unnamed()}" if self.own_name else self._unnamed()

    @property
    def stored_text(self) -> str:
        """The text in a stored definition. `stored_window` reads it back as this form."""
        name = self.name
        return self._unnamed() if name == self.full_name else f"{name}={self._unnamed()}"

    @property
    def closing(self) -> Closing | None:
        """Which closed periods of the window are archived; None if periods are not closed. A window
        with prizes but without `archive` archives all its periods for ever."""
        if self.archive is None and self.prizes is None:
            return None
        return Closing(self.archive or FOREVER, self.archive_every_ms or 0)

    def named_in_full(self) -> "WindowForm":
        """Return this form with its whole text as the window's name."""
        own_name = None if self.full_name == self.short_name else self.full_name
        return replace(self, own_name=own_name)

    def window(self, defaults: WindowDefaults) -> Window:
        """Return the window itself, with the board's defaults filled in."""
        if self.type == "all":
            return All(self.name, ends_ms=defaults.ends_ms, grace_ms=defaults.end_grace_ms)
        if self.type == "rolling":
            return self._rolling(defaults)
        if self.type == "decay":
            return Decay(
                self.name,
                duration_ms(self.half_life or 0),
                ends_ms=defaults.ends_ms,
                grace_ms=defaults.end_grace_ms,
            )
        return Calendar(
            name=self.name,
            unit=self.type,
            tz=self.tz or defaults.tz,
            week_start=self.week_start or defaults.week_start,
            keep=self.keep or defaults.keep,
            grace_ms=defaults.grace_ms if self.grace_ms is None else self.grace_ms,
            ends_ms=defaults.ends_ms,
            closes=self.closing is not None,
        )

    @property
    def lengths_ms(self) -> tuple[int, int]:
        """Span and step of a rolling window, with a day taken as 24 hours; 0 for other windows."""
        return duration_ms(self.span or 0), duration_ms(self.step or 0)

    @property
    def longest_grace_ms(self) -> int:
        """The longest grace that has an effect in a rolling window: an event that comes later than
        this after the end of its step belongs to a step that has left the window."""
        span_ms, step_ms = self.lengths_ms
        return span_ms - step_ms

    def _rolling(self, defaults: WindowDefaults) -> Rolling:
        grace_ms = defaults.grace_ms if self.grace_ms is None else self.grace_ms
        span_ms, step_ms = self.lengths_ms
        by_days = in_days(self.step or "")
        return Rolling(
            name=self.name,
            steps=span_ms // step_ms,
            step_ms=0 if by_days else step_ms,
            step_days=step_ms // DAY_MS if by_days else 0,
            tz=self.tz or defaults.tz,
            grace_ms=min(grace_ms, self.longest_grace_ms),
            refresh_ms=self.refresh_ms or 0,
            refresh_minute=self.refresh_minute or 0,
            ends_ms=defaults.ends_ms,
            archive_ms=self.archive_every_ms or 0,
        )

    def _refresh_text(self, refresh_ms: int) -> str:
        if self.refresh_minute is None:
            return duration_text(refresh_ms)
        return "day@{:02}:{:02}".format(*divmod(self.refresh_minute, 60))

    def _unnamed(self) -> str:
        """The text with all options and without the name."""
        later = archiving_options(self.archive, self.archive_every_ms, self.prizes)
        return self._text_of([*self._options, *later])

    def _text_of(self, options: Sequence[str]) -> str:
        return f"{self.type}:{','.join(options)}" if options else self.type

    @property
    def _options(self) -> list[str]:
        """The options of the text, without those about closed periods."""
        grace = None if self.grace_ms is None else duration_text(self.grace_ms)
        refresh = None if self.refresh_ms is None else self._refresh_text(self.refresh_ms)
        values = (self.keep, self.tz, self.week_start, grace, refresh)
        pairs = zip(OPTIONS[2:7], values, strict=True)
        options = [f"{option}={value}" for option, value in pairs if value is not None]
        if self.span:
            options.insert(0, f"{self.span}/{self.step}")
        if self.half_life:
            options.insert(0, self.half_life)
        return options


def in_days(duration: str) -> bool:
    """Return whether a duration was written in days. In steps, such days are calendar days."""
    return duration.endswith("d")


def archiving_of(type: Type) -> tuple[str, ...]:
    """Return the options about closed periods that a type of window has."""
    return ARCHIVING if type == "rolling" else ("archive", "prizes")
