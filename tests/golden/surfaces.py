"""The public interfaces as texts: signatures, OpenAPI, `--help` of every command, and errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer

import laurels
import laurels.cli.errors
import laurels.errors.client
import laurels.errors.copies
import laurels.errors.index_server
import laurels.errors.payouts
import laurels.errors.service
import laurels.errors.sinks
import laurels.errors.sources
import laurels.wire.problems
from laurels.cli import program
from laurels.errors import table
from laurels.server.routing.openapi import openapi
from laurels.server.routing.routes import ROUTES

HERE = Path(__file__).parent
SIGNATURES, OPENAPI, HELP, ERRORS = (
    HERE / name for name in ("signatures.txt", "openapi.json", "help.txt", "errors.txt")
)
_PLACES = re.compile(r"\blaurels\.(?:[a-z_]\w*\.)+(?=[A-Z_])")
"""A pattern for the modules before the name of a type. Signatures leave them out, because types may
move to other modules."""


def signatures() -> str:
    """Return all public names with their kinds, and the signatures of their public methods and
    fields. The names of types are without their modules."""
    return "\n".join(line for name in sorted(laurels.__all__) for line in _lines_of(name)) + "\n"


def _lines_of(name: str) -> Iterator[str]:
    value = getattr(laurels, name)
    if inspect.ismodule(value):
        yield f"{name}: module"
    elif inspect.isclass(value):
        yield f"class {name}{_signature(value)}"
        for member in sorted(each for each in dir(value) if not each.startswith("_")):
            attribute = inspect.getattr_static(value, member)
            if isinstance(attribute, staticmethod | classmethod):
                attribute = attribute.__func__
            shape = _signature(attribute) if inspect.isfunction(attribute) else ""
            yield f"    {member}{shape}"
    else:
        yield f"def {name}{_signature(value)}"


def _signature(value: object) -> str:
    try:
        return _PLACES.sub("laurels.", str(inspect.signature(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def described() -> str:
    """Return the OpenAPI document of the service."""
    return msgspec.json.format(openapi(ROUTES), indent=1).decode() + "\n"


def help_texts() -> str:
    """Return the help of every command, with its arguments and options grouped by panels. It is
    made from the definitions in the code, because the layout that `--help` prints depends on a
    library."""
    return "\n".join(_command(typer.main.get_command(program.program()), "laurels"))


def _command(command: Any, path: str) -> Iterator[str]:
    yield f"$ {path}\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        panels.setdefault(_panel(parameter), []).append(_parameter(parameter))
    for panel, lines in sorted(panels.items()):
        yield f"{panel}:"
        yield from sorted(lines)
        yield ""
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from _command(each, f"{path} {name}")


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or "Options"


def _parameter(parameter: Any) -> str:
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    required = ", required" if parameter.required else ""
    default = "" if parameter.default is None else f", default {parameter.default!r}"
    metavar = f" {parameter.metavar}" if parameter.metavar else ""
    return f"  {names}{metavar}{required}{default}: {getattr(parameter, 'help', '')}"


def error_table() -> str:
    """Return a line for each error code: its class, its HTTP status and whether a retry may
    help."""
    rows = (
        f"{row.code:<28} {row.name:<24} {row.status} {'retry' if row.retryable else ''}".rstrip()
        for row in table()
    )
    return "\n".join(sorted(rows)) + "\n"


def write_signatures() -> None:
    SIGNATURES.write_text(signatures())


def write_openapi() -> None:
    OPENAPI.write_text(described())


def write_help() -> None:
    HELP.write_text(help_texts())


def write_errors() -> None:
    ERRORS.write_text(error_table())
