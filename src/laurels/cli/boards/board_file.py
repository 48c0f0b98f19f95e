"""The file of `board apply`: many boards in TOML or JSON, all validated before any is written.

    [defaults]                    # for every board that does not override them
    tz = "Asia/Shanghai"

    [boards.gifts]                # a table for each board, by its name
    windows = ["all", "day"]

Instead of these tables, the file may have an array `[[boards]]`, with a `name` in each element. A
JSON file has one of these two forms, or that of `board list --json` (a list of definitions) or
`board show --json` (a single one).
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from laurels.cli.errors import InvalidToml
from laurels.cli.importing.lines import standard_input
from laurels.errors import BoardInvalid, InvalidJson, JsonTooDeep, LaurelsError
from laurels.errors.sources import SourceUnreadable
from laurels.model.board import Board
from laurels.model.exact_json import exact
from laurels.model.validation import is_name, safe_repr

_FIELDS = frozenset(Board.__struct_fields__) - {"name"}
_PARTS = ("defaults", "boards")
_JSON_START = re.compile(r"\s*(\{|\[\s*[{\]])")
"""Matches the beginning of a JSON object, of a list of objects, or of an empty list. No TOML
document begins like this."""


class RawBoard(NamedTuple):
    """The fields of a board as written in the file, not yet validated. Error messages refer to the
    board as `place`."""

    place: str
    fields: Mapping[str, Any]


class _Errors:
    """The error messages for a file, each with the board or table that is wrong."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, place: str, message: str) -> None:
        self.messages.append(f"{place}: {message}" if place else message)


def boards_in(file: str) -> list[Board]:
    """Return the boards that a file defines, in its order; `-` reads standard input.

    Raises SourceUnreadable, InvalidToml or InvalidJson with the line, JsonTooDeep, or BoardInvalid
    with every error of every board.
    """
    where = "standard input" if file == "-" else file
    errors = _Errors()
    boards = _validated(_document(file, where), errors)
    if errors.messages:
        raise BoardInvalid(*[f"{where}: {message}" for message in errors.messages])
    return boards


def _document(file: str, where: str) -> object:
    try:
        raw = standard_input().read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise SourceUnreadable(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise SourceUnreadable(f"expected a path, got {safe_repr(file)}: {error}") from error
    is_json = file.lower().endswith(".json")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        kind = InvalidJson if is_json else InvalidToml
        raise kind(f"{where} is not UTF-8 (line {line})") from error
    is_json = is_json or _JSON_START.match(text) is not None
    return _read_json(text, where) if is_json else _read_toml(text, where)


def _read_toml(text: str, where: str) -> object:
    try:
        return tomllib.loads(text, parse_float=exact)
    except tomllib.TOMLDecodeError as error:
        raise InvalidToml(f"{where} is not TOML: {error}") from error
    except ValueError as error:  # int() raises ValueError for a number with too many digits
        raise InvalidToml(f"{where}: a number has too many digits") from error
    except RecursionError as error:
        raise InvalidToml(f"{where} is nested too deeply") from error


def _read_json(text: str, where: str) -> object:
    try:
        return json.loads(
            text, parse_float=exact, parse_constant=_no_number, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidJson(f"{where} is not JSON: {error.msg} (at {place})") from error
    except InvalidJson as error:
        raise InvalidJson(f"{where}: {error.what}") from error
    except ValueError as error:  # int() raises ValueError for a number with too many digits
        raise InvalidJson(f"{where}: a number has too many digits") from error
    except RecursionError as error:
        raise JsonTooDeep(f"{where} is nested too deeply") from error


def _no_number(text: str) -> object:
    raise InvalidJson(f"expected a finite number, got {text}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raise InvalidJson if a name occurs twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        repeated = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise InvalidJson(f"expected each name once in an object, got {safe_repr(repeated)} twice")
    return fields


def _validated(document: object, errors: _Errors) -> list[Board]:
    """Validate the boards of a document: return the valid ones, and record the errors of the
    others."""
    defaults, boards = _parts(document, errors)
    raw = list(_raw_boards(boards, errors))
    for name, count in Counter(each.fields["name"] for each in raw).items():
        if count > 1:
            errors.add(_place(name), f"expected each name once, got it {count} times")
    if not raw and not errors.messages:
        errors.add(
            "", "expected at least one board, got none: write a table [boards.NAME] for each"
        )
    inherited: dict[str, None] = {}
    own = _Errors()
    validated = [_board(each, defaults, inherited, own) for each in raw]
    for message in inherited:
        errors.add("defaults", message)
    errors.messages += own.messages
    return [board for board in validated if board is not None]


def _parts(document: object, errors: _Errors) -> tuple[Mapping[str, Any], object]:
    """Return the defaults in a document, and the value that defines the boards."""
    if isinstance(document, list):
        return {}, document
    if not isinstance(document, dict):
        errors.add("", f"expected an object with the field boards, got {safe_repr(document)}")
        return {}, ()
    if "name" in document and "boards" not in document and "defaults" not in document:
        return {}, [document]
    for name, value in document.items():
        if name not in _PARTS:
            errors.add("", _misplaced(name, value))
    return _defaults(document.get("defaults", {}), errors), document.get("boards", {})


def _misplaced(name: str, value: object) -> str:
    """Return the error message for a field that is not allowed at the top level of a file."""
    if name in ("default", "board"):
        return f"unknown field {name!r}: write {name}s"
    if name in _FIELDS:
        return f"{name} belongs to a board: write it below [boards.NAME], or below [defaults]"
    if isinstance(value, dict):
        return f"unknown table {safe_repr(name)}: a board is written [boards.{_key(name)}]"
    return f"unknown field {safe_repr(name)}: a file has {' and '.join(_PARTS)}"


def _defaults(raw: object, errors: _Errors) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        errors.add("defaults", f"expected a table of fields, got {safe_repr(raw)}")
        return {}
    for field in raw:
        if field not in _FIELDS:
            unknown = f"unknown field {safe_repr(field)}"
            errors.add(
                "defaults",
                "expected no name, since each board has its own" if field == "name" else unknown,
            )
    return {field: value for field, value in raw.items() if field in _FIELDS}


def _raw_boards(boards: object, errors: _Errors) -> Iterator[RawBoard]:
    """Yield the boards as written in the file, with their names among the fields."""
    if isinstance(boards, dict):
        for name, fields in boards.items():
            if not isinstance(fields, dict):
                errors.add(_place(name), f"expected a table of fields, got {safe_repr(fields)}")
            elif fields.get("name", name) != name:
                other = safe_repr(fields["name"])
                errors.add(
                    _place(name), f"expected no `name`, or `name` {safe_repr(name)}, got {other}"
                )
            else:
                yield RawBoard(_place(name), {**fields, "name": name})
    elif isinstance(boards, list):
        for number, fields in enumerate(boards, 1):
            if not isinstance(fields, dict):
                errors.add(
                    f"board {number}", f"expected a table of fields, got {safe_repr(fields)}"
                )
            elif not isinstance(fields.get("name"), str):
                errors.add(f"board {number}", "expected a name, got none")
            else:
                yield RawBoard(_place(fields["name"]), fields)
    else:
        errors.add("boards", f"expected a table or an array of boards, got {safe_repr(boards)}")


def _board(
    raw: RawBoard, defaults: Mapping[str, Any], inherited: dict[str, None], own: _Errors
) -> Board | None:
    """Return a board: its own fields, and the defaults for the fields that it leaves out. If it is
    invalid, record its errors and return None.

    Errors that the defaults alone cause are recorded in `inherited`, so that they are shown once
    and not for every board; other errors are recorded in `own`.
    """
    fields = dict(raw.fields)
    for name in [name for name in fields if _is_dotted(name, fields[name])]:
        whole = f"{fields['name']}.{name}"
        hint = f"for a board called {whole} write [boards.{_key(whole)}]"
        own.add(raw.place, f"unknown field {safe_repr(name)}: {hint}")
        del fields[name]
    result = _board_or_errors({**defaults, **fields})
    if isinstance(result, Board):
        return result
    taken = {field: value for field, value in defaults.items() if field not in fields}
    default_errors = _board_or_errors({**taken, "name": "defaults"}) if taken else []
    of_defaults = [] if isinstance(default_errors, Board) else default_errors
    for message in result:
        if message in of_defaults:
            inherited[message] = None
        else:
            own.add(raw.place, message)
    return None


def _is_dotted(name: str, value: object) -> bool:
    """Return whether a value in the table of a board is a nested table instead of a field of the
    board. In TOML, `[boards.a.b]` defines a table `b` within the board `a`; for a board called
    `a.b`, the user has to write `[boards."a.b"]`."""
    return isinstance(value, dict) and name not in _FIELDS


def _board_or_errors(fields: Mapping[str, Any]) -> Board | list[str]:
    """Return the board of a definition, or its errors."""
    try:
        return Board.from_json(fields)
    except BoardInvalid as error:
        return error.errors
    except LaurelsError as error:
        return [error.what]


def _place(name: object) -> str:
    return f"board {name if is_name(name) else safe_repr(name)}"


def _key(name: str) -> str:
    """Return a name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
