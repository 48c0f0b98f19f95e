"""Commands whose options are declared in groups, and `--help` that shows them by their panels.

A command with many options takes some of them together, as fields of an `OptionGroup`:

    class OutputOptions(OptionGroup, frozen=True):
        data: WithData = False
        json: AsJson = False

    @command(app, "top")
    def top(board: BoardName, output: OutputOptions) -> int: ...

The fields are declared like the parameters of a Typer command, and become options in the same way.
The command receives all options of a group in one object. The panel of an option, a heading in
`--help`, is its `rich_help_panel`; the options of one panel may be in several groups.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import typer
import typer.core
from msgspec import Struct

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., int])

OTHER_OPTIONS = "Options"
"The help panel of options that have no panel of their own, such as `--help`; it is shown last."


class OptionGroup(Struct, frozen=True):
    """Options that a command receives together, as one parameter."""


def command(app: typer.Typer, name: str) -> Callable[[CommandFunction], CommandFunction]:
    """Return a decorator that adds a function to `app` as the command `name`.

    The function itself is returned unchanged.
    """

    def add(function: CommandFunction) -> CommandFunction:
        app.command(name, cls=_CommandWithPanels)(_flattened(function))
        return function

    return add


def _flattened(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function with the fields of its option groups as separate parameters."""
    parameters = signature(function, eval_str=True).parameters
    groups: dict[str, type[OptionGroup]] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if _is_group(parameter.annotation)
    }

    @wraps(function)
    def call(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group.__struct_fields__})
        return function(**values)

    flat = [each for parameter in parameters.values() for each in _options_of(parameter)]
    call.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in flat} | {"return": int}
    return call


def _options_of(parameter: Parameter) -> Iterator[Parameter]:
    """Yield the fields of a parameter that is an option group, or else the parameter itself."""
    if _is_group(parameter.annotation):
        fields = signature(parameter.annotation, eval_str=True).parameters
        yield from (field.replace(kind=Parameter.KEYWORD_ONLY) for field in fields.values())
    else:
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


class _CommandWithPanels(typer.core.TyperCommand):
    """A command whose plain-text help has a section for each panel of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments: list[tuple[str, str]] = []
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            line = parameter.get_help_record(ctx)
            if line is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(line)
            else:
                panel = getattr(parameter, "rich_help_panel", None) or OTHER_OPTIONS
                panels.setdefault(panel, []).append(line)
        others = panels.pop(OTHER_OPTIONS, [])
        for title, lines in {"Arguments": arguments, **panels, OTHER_OPTIONS: others}.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)
