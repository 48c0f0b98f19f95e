"""Parses the parts of board definitions on the command line: columns, windows, files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from laurels.cli.errors import Usage
from laurels.cli.importing.lines import standard_input
from laurels.errors import InvalidJson
from laurels.errors.sources import SourceUnreadable
from laurels.model.exact_json import decode_json
from laurels.model.validation import safe_repr
from laurels.model.windows.forms import WindowForm
from laurels.model.windows.parsing import parse_window

_COLUMN_FIELDS = ("op", "order", "scale", "min", "max", "measure")


def windows_with(existing: Sequence[str], added: Sequence[str]) -> list[str]:
    """Add windows to those of a board, and return all. An added window replaces an existing one of
    the same name.

    Raises Usage for an added window without a name of its own if the board already has a window of
    the same type with other options.
    """
    windows = {parse_window(text).name: text for text in existing}
    for text in added:
        form = parse_window(text)
        if form.own_name is None and form.name not in windows:
            _refuse_second(form, map(parse_window, existing))
        windows[form.name] = text
    return list(windows.values())


def _refuse_second(form: WindowForm, existing: Iterable[WindowForm]) -> None:
    for other in existing:
        if other.type == form.type:
            raise Usage(
                f"the board has the window {other.name} already: to change how many periods it "
                f"keeps, write --window {other.name}={form.type}:keep=5; to add {form.name} as "
                f"another window, give it a name of its own, NAME={form.name}"
            )


def column_of(text: str) -> Mapping[str, Any]:
    """Parse a column from `name` or `name:op=…,order=…,scale=…,min=…,max=…,measure=name*weight`,
    where `measure` may be repeated."""
    name, colon, options = text.partition(":")
    column: dict[str, Any] = {"name": name}
    for option in options.split(",") if colon else ():
        field, equals, value = option.partition("=")
        if field not in _COLUMN_FIELDS or not equals:
            expected = ", ".join(f"{field}=…" for field in _COLUMN_FIELDS)
            raise Usage(f"--column {text}: expected {expected}, got {option!r}")
        if field == "measure":
            measure, _, weight = value.partition("*")
            column.setdefault("measures", {})[measure] = weight or "1"
            continue
        if field in column:
            raise Usage(f"--column {text}: expected {field} once, got it twice")
        column[field] = _scale(text, value) if field == "scale" else value
    return column


def _scale(text: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise Usage(
            f"--column {text}: expected a number of decimal places for scale, got {value!r}"
        )
    return int(value)


def definition_in(file: str) -> Mapping[str, Any]:
    """Return the JSON object in a file; `-` reads standard input."""
    try:
        content = standard_input().read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise SourceUnreadable(f"{file}: {error.strerror}") from error
    definition = decode_json(content)
    if not isinstance(definition, dict):
        raise InvalidJson(f"expected a JSON object in {file}, got {safe_repr(definition)}")
    return definition
