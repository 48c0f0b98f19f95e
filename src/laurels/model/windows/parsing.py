"""Reading a window as it is written in a definition, as text or as an object. What may be written
is described in `forms.py`."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from laurels.errors import BoardInvalid, InvalidName
from laurels.model.definition_errors import DefinitionErrors
from laurels.model.durations import DAY_MS, duration_of
from laurels.model.prizes import prizes_of
from laurels.model.validation import integer_within, is_name, one_of, safe_repr
from laurels.timeline.zones import zone_names

from .archiving import ARCHIVING, archive_of, archiving_errors, without_prizes
from .calendar import WEEKDAYS, Weekday
from .form_errors import decay_errors, rolling_errors
from .forms import OPTIONS, TYPES, Type, WindowForm, archiving_of
from .kinds import Window

MAX_KEEP = 10_000
T = TypeVar("T")
_DAILY = "day@"
_LOCAL_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_NUMBER = re.compile(r"[0-9]{1,15}")
_LENGTHS = re.compile(r"([^,:=]*/[^,:=]*):")
_TEXT = re.compile(rf"(?:(?P<name>.+)=)?(?P<type>{'|'.join(TYPES)})(?::(?P<options>.+))?")


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
    of its own. It does if the text and the window's name are equal without their options, and
    if the window has the value of each option in the text. `keep` is not compared, since it may
    have been changed."""
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
    taken = {"name", "type", *_options_of(type), *archiving_of(type)}
    for key in fields:
        if key not in {"name", "type", *OPTIONS, *ARCHIVING}:
            known = ", ".join([*OPTIONS, *ARCHIVING])
            errors.add(f"unknown option {safe_repr(key)}: expected one of {known}")
        elif key not in taken and fields[key] is not None:
            errors.add(f"a window of type {type} takes no {key}")
    if type == "rolling":
        for error in rolling_errors(form, fields):
            errors.add(error)
    if type == "decay":
        for error in decay_errors(form, fields):
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
