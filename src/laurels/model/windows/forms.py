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

Text and object are read as a `WindowForm`, whose `text` is the canonical text. A form distinguishes
settings that were written from settings left to the board. A window that was written with a `keep`
retains it when the board's `keep` changes.

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

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from laurels.errors import BoardInvalid, InvalidName
from laurels.model.definition_errors import DefinitionErrors
from laurels.model.durations import DAY_MS, duration_ms, duration_of, duration_text
from laurels.model.prizes import Prizes, prizes_of
from laurels.model.validation import integer_within, is_name, one_of, safe_repr
from laurels.timeline.instants import MAX_MS
from laurels.timeline.zones import zone_names

from .all import All
from .archiving import (
    ARCHIVING,
    archive_of,
    archiving_errors,
    archiving_options,
    without_prizes,
)
from .calendar import WEEKDAYS, Calendar, Unit, Weekday
from .closing import FOREVER, Closing
from .decay import Decay
from .kinds import Window
from .rolling import Rolling
from .weighing import MAX_HALF_LIFE_MS, MIN_HALF_LIFE_MS

MAX_KEEP = 10_000
MAX_STEPS = 10_000
MIN_STEP_MS = 1_000

Type = Literal["all", "rolling", "decay"] | Unit
TYPES: tuple[Type, ...] = ("all", *get_args(Unit), "rolling", "decay")
MIN_REFRESH_MS = 1_000
_OPTIONS = ("span", "step", "keep", "tz", "week_start", "grace", "refresh", "half_life")
T = TypeVar("T")
_DAILY = "day@"
_LOCAL_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_NUMBER = re.compile(r"[0-9]{1,15}")
_LENGTHS = re.compile(r"([^,:=]*/[^,:=]*):")
_TEXT = re.compile(rf"(?:(?P<name>.+)=)?(?P<type>{'|'.join(TYPES)})(?::(?P<options>.+))?")


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
        return (*(("keep",) if self.ranks_periods else ()), *_archiving_of(self.type))

    @property
    def short_name(self) -> str:
        """The name that a window of this form has without a name of its own."""
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
        with prizes only is archived for ever."""
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
        """The longest grace that has an effect in a rolling window. After a longer time, the window
        no longer counts the step of the event."""
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
        pairs = zip(_OPTIONS[2:7], values, strict=True)
        options = [f"{option}={value}" for option, value in pairs if value is not None]
        if self.span:
            options.insert(0, f"{self.span}/{self.step}")
        if self.half_life:
            options.insert(0, self.half_life)
        return options


def in_days(duration: str) -> bool:
    """Return whether a duration was written in days. In steps, such days are calendar days."""
    return duration.endswith("d")


def parse_window(written: object) -> WindowForm:
    """Return the form of a window written as text or as a mapping.

    Raises InvalidName if only its name is wrong, otherwise BoardInvalid with every fault.
    """
    if isinstance(written, WindowForm):
        return written
    if isinstance(written, str):
        return _form(_fields_of_text(written))
    if isinstance(written, Mapping):
        return _form(written)
    raise BoardInvalid(
        f"expected a window as text such as day, or an object, got {safe_repr(written)}"
    )


def stored_window(written: object) -> WindowForm:
    """Return the form of a window as a stored definition has it. A window that is stored without a
    name is named by its whole text, with its options."""
    form = parse_window(written)
    if isinstance(written, str):
        match = _TEXT.fullmatch(without_prizes(written)[0])
        named = match is not None and match["name"] is not None
    else:
        named = isinstance(written, Mapping) and written.get("name") is not None
    return form if named else form.named_in_full()


def is_text_of(window: Window, text: object) -> bool:
    """Return whether a text, such as `day:tz=UTC`, means a window that was defined without a name
    of its own. It does if the text and the window's name are equal once the options are cut off
    both, and if the window has the value of each option in the text. `keep` is not compared, since
    it may have been changed."""
    form, name = _form_or_none(text), _form_or_none(window.name)
    if form is None or name is None or form.own_name or form.short_name != name.short_name:
        return False
    return all(
        getattr(form, option) in (None, getattr(window, option, None))
        for option in ("tz", "week_start", "grace_ms", "refresh_ms")
    )


def _form_or_none(text: object) -> WindowForm | None:
    """Return the form in a text, or None for text that is not a form."""
    try:
        return parse_window(text)
    except BoardInvalid:
        return None


def keep_of(value: object) -> int:
    """Return a number of periods to keep, 1 to MAX_KEEP. Raise BoardInvalid for any other
    number."""
    if (count := integer_within(value, 1, MAX_KEEP)) is not None:
        return count
    raise BoardInvalid(
        f"expected an integer from 1 to {MAX_KEEP:,} for keep, got {safe_repr(value)}"
    )


def tz_of(value: object) -> str:
    """Return the name of a time zone. Raise BoardInvalid if tzdata does not have it."""
    if isinstance(value, str) and value in zone_names():
        return value
    raise BoardInvalid(
        f"expected an IANA time zone such as Asia/Shanghai for tz, got {safe_repr(value)}"
    )


def week_start_of(value: object) -> Weekday:
    """Return the first day of the week. Raise BoardInvalid for anything but a weekday's name."""
    return one_of(value, WEEKDAYS, "week_start")


def _fields_of_text(text: str) -> dict[str, object]:
    plain, prizes = without_prizes(text)
    match = _TEXT.fullmatch(plain)
    if match is None:
        raise BoardInvalid(
            f"expected a window ({', '.join(TYPES)}, with options as in month:keep=12, with a name "
            f"of its own as in today=day), got {safe_repr(text)}"
        )
    fields: dict[str, object] = {"name": match["name"], "type": match["type"]}
    options = match["options"].split(",") if match["options"] else []
    if match["type"] == "rolling":
        options[:1] = _LENGTHS.sub(r"\1,", options[0], count=1).split(",") if options else []
        lengths = options.pop(0) if options and "=" not in options[0] else ""
        span, _, step = lengths.partition("/")
        fields |= {"span": span or None, "step": step or None}
    elif match["type"] == "decay":
        fields["half_life"] = options.pop(0) if options and "=" not in options[0] else None
    for option in options:
        key, _, value = option.partition("=")
        if not value or key in fields:
            raise BoardInvalid(
                f"window {safe_repr(text)}: expected options as NAME=VALUE, each once, got "
                f"{safe_repr(option)}"
            )
        fields[key] = int(value) if _NUMBER.fullmatch(value) else value
    return fields if prizes is None else {**fields, "prizes": prizes}


def _form(fields: Mapping[str, object]) -> WindowForm:
    type = one_of(fields.get("type"), TYPES, "the type of a window")
    errors = DefinitionErrors(f"window {safe_repr(fields.get('name') or type)}")

    def option(name: str, parse: Callable[[object], T]) -> T | None:
        value = fields.get(name)
        return None if value is None else errors.read(parse, value, None)

    refresh_ms, refresh_minute = option("refresh", _refresh) or (None, None)
    form = WindowForm(
        type=type,
        keep=option("keep", keep_of),
        tz=option("tz", tz_of),
        week_start=option("week_start", week_start_of),
        grace_ms=option("grace", partial(duration_of, "grace")),
        span=option("span", partial(_written, "span")),
        step=option("step", partial(_written, "step")),
        half_life=option("half_life", partial(_written, "half_life")),
        refresh_ms=refresh_ms,
        refresh_minute=refresh_minute,
        archive=option("archive", archive_of),
        archive_every_ms=option("archive_every", partial(duration_of, "archive_every")),
        prizes=option("prizes", prizes_of),
    )
    taken = {"name", "type", *_options_of(type), *_archiving_of(type)}
    for key in fields:
        if key not in {"name", "type", *_OPTIONS, *ARCHIVING}:
            known = ", ".join([*_OPTIONS, *ARCHIVING])
            errors.add(f"unknown option {safe_repr(key)}: expected one of {known}")
        elif key not in taken and fields[key] is not None:
            errors.add(f"a window of type {type} takes no {key}")
    if type == "rolling":
        for error in _rolling_errors(form, fields):
            errors.add(error)
    if type == "decay":
        for error in _decay_errors(form, fields):
            errors.add(error)
    for error in archiving_errors(form.step, form.archive, form.archive_every_ms, form.prizes):
        errors.add(error)
    own_name = fields.get("name")
    if own_name is not None:
        form = errors.read(partial(_named, form), own_name, form)
    errors.raise_any()
    return form


def _options_of(type: Type) -> tuple[str, ...]:
    """Return the options that a type of window has."""
    if type == "all":
        return ()
    if type == "rolling":
        return ("span", "step", "tz", "grace", "refresh")
    if type == "decay":
        return ("half_life",)
    return ("keep", "tz", "week_start", "grace") if type == "week" else ("keep", "tz", "grace")


def _archiving_of(type: Type) -> tuple[str, ...]:
    """Return the options about closed periods that a type of window has."""
    return () if type == "rolling" else ("archive", "prizes")


def _refresh(value: object) -> tuple[int, int | None]:
    """Return the refresh interval in milliseconds, and the local time of the refresh in minutes
    after midnight. The time is None if none was written."""
    if not isinstance(value, str) or not value.startswith(_DAILY):
        return duration_of("refresh", value), None
    if (match := _LOCAL_TIME.fullmatch(value.removeprefix(_DAILY))) is None:
        raise BoardInvalid(
            f"expected a local time as in day@04:00 for refresh, got {safe_repr(value)}"
        )
    return DAY_MS, 60 * int(match[1]) + int(match[2])


def _written(field: str, value: object) -> str:
    """Return a span, step or half-life as written, without leading zeros."""
    duration_of(field, value)
    if not isinstance(value, str):
        raise BoardInvalid(
            f"expected {field} with a unit, as in 7d, 1h or 60m, got {safe_repr(value)}"
        )
    unit = value.lstrip("0123456789")
    return f"{int(value.removesuffix(unit))}{unit}"


def _rolling_errors(form: WindowForm, fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the errors in the combination of a rolling window's settings, where each setting is
    valid alone."""
    if fields.get("span") is None or fields.get("step") is None:
        yield "a rolling window has a span and a step: write rolling:7d/1h"
    if form.span is not None and form.refresh_ms is not None:
        yield from _refresh_errors(form.span, form.refresh_ms)
    if form.step is None:
        return
    if form.tz is not None and not in_days(form.step) and (form.refresh_ms or 1) % DAY_MS:
        yield f"steps of {form.step} take no tz: leave it out, as only steps of days have a zone"
    step_ms = duration_ms(form.step)
    if step_ms < MIN_STEP_MS or form.step.endswith("ms"):
        yield f"expected a step of whole seconds, 1s or longer, got {form.step}"
    elif form.span is not None:
        yield from _span_errors(form, form.span, form.step)


def _refresh_errors(span: str, refresh_ms: int) -> Iterator[str]:
    """Yield the errors of the refresh interval of a window with this span."""
    refresh = duration_text(refresh_ms)
    if refresh_ms < MIN_REFRESH_MS or refresh_ms % 1_000:
        yield f"expected refresh in whole seconds, 1s or longer, got {refresh}"
    elif refresh_ms > duration_ms(span):
        yield f"expected refresh to be at most the span {span}, got {refresh}"


def _decay_errors(form: WindowForm, fields: Mapping[str, object]) -> Iterator[str]:
    """Yield an error if a decay window has no half-life, or one that is too short or too long."""
    if fields.get("half_life") is None:
        yield "a decay window has a half-life: write decay:6h"
    elif form.half_life is not None:
        length_ms = duration_ms(form.half_life)
        if not MIN_HALF_LIFE_MS <= length_ms <= MAX_HALF_LIFE_MS:
            least, most = duration_text(MIN_HALF_LIFE_MS), duration_text(MAX_HALF_LIFE_MS)
            yield f"expected a half-life from {least} to {most}, got {form.half_life}"


def _span_errors(form: WindowForm, span: str, step: str) -> Iterator[str]:
    """Yield the errors in the combination of a span and a step, where both are valid alone."""
    span_ms, step_ms = form.lengths_ms
    steps, rest = divmod(span_ms, step_ms)
    if in_days(step) and not in_days(span):
        yield (
            f"steps of {step} are days of the calendar: write the span {span} in days, "
            "or the step in hours"
        )
    elif rest:
        yield f"expected a span of whole steps of {step}, got {span}"
    elif not 2 <= steps <= MAX_STEPS:
        longer = "span" if steps < 2 else "step"
        yield (
            f"expected 2 to {MAX_STEPS:,} steps, got {steps:,} of {span}/{step}: "
            f"write a longer {longer}"
        )
    elif form.grace_ms is not None and form.grace_ms > form.longest_grace_ms:
        longest = duration_text(form.longest_grace_ms)
        grace = duration_text(form.grace_ms)
        yield f"expected grace to be at most span less step, {longest}, got {grace}"


def _named(form: WindowForm, name: object) -> WindowForm:
    """Return the form with `name`, which may be any name except the default name of another type.

    Earlier versions named windows by their whole text, so the name may also be this text. The
    `keep` in the name may differ from that of the form, since a change of `keep` does not change
    the name.
    """
    if name == form.short_name:
        return form
    if is_name(name) and (name == form.type or name not in TYPES):
        return replace(form, own_name=name)
    if name == form.full_name or (
        form.type not in ("rolling", "decay")
        and isinstance(name, str)
        and name.startswith(f"{form.type}:")
        and parse_window(name).full_name == name
    ):
        return replace(form, own_name=name)
    raise InvalidName(f"expected a name for a window of type {form.type}, got {safe_repr(name)}")
