"""How a window is written in a board's definition: as text or as an object.

    all                                 every event, for ever
    day                                 a calendar window with the board's tz, keep and grace
    month:keep=12,tz=Asia/Shanghai      with its own
    today=day:grace=1h                  with a name of its own; without one the text is the name

    {"name": "today", "type": "day", "grace": "1h"}

Both say the same and become a `WindowForm`, whose `text` is canonical. A form keeps apart what
was said and what is left to the board, so a window that says its `keep` keeps it when the
board's changes, and the name of a window never changes.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from .durations import duration_of, duration_text
from .errors import BoardInvalid, InvalidName
from .faults import Faults
from .given import is_name, is_whole, one_of, shown
from .windows import WEEKDAYS, All, Calendar, Unit, Weekday, Window
from .zones import zone_names

MAX_KEEP = 10_000

Type = Literal["all"] | Unit
TYPES: tuple[Type, ...] = ("all", *get_args(Unit))
_OPTIONS = ("keep", "tz", "week_start", "grace")
T = TypeVar("T")
_NUMBER = re.compile(r"[0-9]{1,15}")
_TEXT = re.compile(rf"(?:(?P<name>.+)=)?(?P<type>{'|'.join(TYPES)})(?::(?P<options>.+))?")


class WindowDefaults(Struct, frozen=True):
    """What a board says for all its windows."""

    tz: str
    week_start: Weekday
    keep: int
    grace_ms: int


class WindowForm(Struct, frozen=True):
    """A window as it was written; None stands for what is left to the board."""

    type: Type
    own_name: str | None = None
    keep: int | None = None
    tz: str | None = None
    week_start: Weekday | None = None
    grace_ms: int | None = None

    @property
    def name(self) -> str:
        """What the window is called: its own name, or its text."""
        return self.own_name or self._unnamed()

    @property
    def text(self) -> str:
        """The canonical text, which reads back as this form."""
        return f"{self.own_name}={self._unnamed()}" if self.own_name else self._unnamed()

    def window(self, defaults: WindowDefaults) -> Window:
        """The window itself, with the board's defaults filled in."""
        if self.type == "all":
            return All(self.name)
        return Calendar(
            name=self.name,
            unit=self.type,
            tz=self.tz or defaults.tz,
            week_start=self.week_start or defaults.week_start,
            keep=self.keep or defaults.keep,
            grace_ms=defaults.grace_ms if self.grace_ms is None else self.grace_ms,
        )

    def _unnamed(self) -> str:
        grace = None if self.grace_ms is None else duration_text(self.grace_ms)
        said = zip(_OPTIONS, (self.keep, self.tz, self.week_start, grace), strict=True)
        options = ",".join(f"{option}={value}" for option, value in said if value is not None)
        return f"{self.type}:{options}" if options else self.type


def parse_window(written: object) -> WindowForm:
    """The form of a window written as text or as a mapping.

    Raises InvalidName where only its name is wrong, BoardInvalid with every fault else.
    """
    if isinstance(written, WindowForm):
        return written
    if isinstance(written, str):
        return _form(_fields_of_text(written))
    if isinstance(written, Mapping):
        return _form(written)
    raise BoardInvalid(f"{shown(written)} is no window: write text such as day, or an object")


def keep_of(value: object) -> int:
    """A number of periods to keep, 1 to MAX_KEEP; BoardInvalid for another."""
    if is_whole(value, 1, MAX_KEEP):
        return value
    raise BoardInvalid(f"keep is {shown(value)}, not a number from 1 to {MAX_KEEP}")


def tz_of(value: object) -> str:
    """The name of a time zone; BoardInvalid where tzdata has none of that name."""
    if isinstance(value, str) and value in zone_names():
        return value
    raise BoardInvalid(f"tz is {shown(value)}, not an IANA time zone such as Asia/Shanghai")


def week_start_of(value: object) -> Weekday:
    """The first day of the week; BoardInvalid for anything but a weekday's name."""
    return one_of(value, WEEKDAYS, "week_start")


def _fields_of_text(text: str) -> dict[str, object]:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise BoardInvalid(
            f"{shown(text)} is no window: write one of {', '.join(TYPES)}, with options as in "
            "month:keep=12, with a name of its own as in today=day"
        )
    fields: dict[str, object] = {"name": found["name"], "type": found["type"]}
    for option in found["options"].split(",") if found["options"] else ():
        key, _, value = option.partition("=")
        if not value or key in fields:
            raise BoardInvalid(f"window {shown(text)}: {shown(option)} is no option, or a second")
        fields[key] = int(value) if _NUMBER.fullmatch(value) else value
    return fields


def _form(fields: Mapping[str, object]) -> WindowForm:
    type = one_of(fields.get("type"), TYPES, "the type of a window")
    faults = Faults(f"window {shown(fields.get('name') or type)}")

    def option(name: str, parse: Callable[[object], T]) -> T | None:
        value = fields.get(name)
        return None if value is None else faults.read(parse, value, None)

    form = WindowForm(
        type=type,
        keep=option("keep", keep_of),
        tz=option("tz", tz_of),
        week_start=option("week_start", week_start_of),
        grace_ms=option("grace", partial(duration_of, "grace")),
    )
    for key in fields:
        if key not in {"name", "type", *_OPTIONS}:
            faults.add(f"unknown option {shown(key)}: there are {', '.join(_OPTIONS)}")
        elif key not in {"name", "type", *_options_of(type)} and fields[key] is not None:
            faults.add(f"a window of type {type} takes no {key}")
    own_name = fields.get("name")
    if own_name is not None:
        form = faults.read(partial(_named, form), own_name, form)
    faults.raise_any()
    return form


def _options_of(type: Type) -> tuple[str, ...]:
    """The options that mean something to a type."""
    if type == "all":
        return ()
    return _OPTIONS if type == "week" else ("keep", "tz", "grace")


def _named(form: WindowForm, name: object) -> WindowForm:
    """The form with a name of its own: any name but that of another type.

    The text a window once had may be its name, too: so it is called on when its keep changes.
    """
    if name == form.text:
        return form
    if is_name(name) and (name == form.type or name not in TYPES):
        return replace(form, own_name=name)
    if (
        isinstance(name, str)
        and name.startswith(f"{form.type}:")
        and parse_window(name).text == name
    ):
        return replace(form, own_name=name)
    raise InvalidName(f"{shown(name)} is no name for a window of type {form.type}")
