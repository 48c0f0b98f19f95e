"""The program `laurels`: its commands, and its exit codes.

Exit codes: 0 success; 1 a negative result (a member is not ranked, lines were rejected, a check
found an error); 2 wrong usage, bad input, or an error of the store; 130 stopped by Ctrl-C; 141 the
reader of the output has closed the pipe (`| head`), as shells expect.
"""

import io
import os
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

import laurels
from laurels import config
from laurels.errors import CheckFailed, LaurelsError, LaurelsWarning, NotInAuditLog

from .errors import OutputFailed, Usage
from .opening_bar import opening_bar
from .option_groups import command
from .show import complain, complain_of, put_line
from .texts import readable

NEGATIVE = 1
ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

GROUPS = {
    "board": "boards.applying",
    "archive": "archiving",
    "key": "keys",
    "clock": "clock",
    "source": "flows.source",
    "sink": "flows.sink",
}
"""The groups of commands, each with a module. When the module is imported, its object `app` gets
all commands of the group."""
COMMANDS = {
    "serve": "serving",
    "import": "importing.command:import_",
    "export": "exporting",
    "top": "answers",
    "rank": "answers",
    "around": "answers",
    "needed": "answers",
    "settle": "settling",
    "payouts": "payouts",
    "confirm": "payouts",
    "disqualify": "payouts",
    "story": "payouts",
    "scopes": "boards.scoping",
    "watch": "watch",
    "changes": "changes",
    "hide": "moderating",
    "show": "moderating",
    "hidden": "moderating",
    "erase": "erasing",
    "undelete": "undeleting",
    "audit": "auditing",
    "hot": "hot",
    "reconcile": "flows.reconcile",
    "check": "upkeep",
    "rebuild": "upkeep",
    "snapshot": "upkeep",
    "seal": "upkeep",
    "verify": "archiving",
    "backup": "upkeep",
    "restore": "upkeep",
    "copy": "copying",
    "abandon": "copying",
    "move": "moving",
}
"""The other commands, each with the module of its function. The function has the name of the
command, unless another name follows a colon."""


def _show_version(requested: bool) -> None:
    if requested:
        put_line(f"laurels {laurels.__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Exact, live, durable leaderboards."""


def program(first: str | None = None) -> typer.Typer:
    """Return the program with only the command or group `first`, or with all commands if none has
    that name.

    Only the modules of these commands are imported: importing all of them takes several times as
    long as running most commands.
    """
    app = typer.Typer(
        name="laurels",
        help="Exact, live, durable leaderboards.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_program)
    is_one = first in GROUPS or first in COMMANDS
    for name, module in GROUPS.items():
        if not is_one or name == first:
            app.add_typer(_load(module, "app"), name=name)
    for name, path in COMMANDS.items():
        if not is_one or name == first:
            module, _, function = path.partition(":")
            command(app, name)(_load(module, function or name))
    return app


def _load(module: str, name: str) -> Any:
    """Return the object `name` of a module in `laurels.cli`."""
    return getattr(import_module(f"laurels.cli.{module}"), name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the arguments of this process, and return its exit code.

    A user error is printed as one line `error [code]: message` on standard error.
    """
    _configure_output()
    try:
        _ensure_output()
        code = _invoked(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except CheckFailed as error:
        return _failed(error, NEGATIVE)
    except LaurelsError as error:
        return _failed(error, ERROR)
    except typer.TyperException as error:
        return _failed(Usage(error.format_message().rstrip(".")), ERROR)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        _drop_output()
        return _failed(_failure(error), ERROR)
    return code


def _configure_output() -> None:
    """Let the output streams accept any text. If standard error is closed, discard what is written
    to it."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _ensure_output() -> None:
    if sys.stdout is None:
        raise OutputFailed("standard output is closed")


def _drop_output() -> None:
    """Discard the buffered output, so that flushing it at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failure(error: OSError) -> OutputFailed:
    where = "standard output" if error.filename is None else readable(os.fspath(error.filename))
    return OutputFailed(f"{where} cannot be written: {error.strerror or error}")


def _invoked(arguments: list[str]) -> int:
    """Run the command named by the arguments; without arguments print the help."""
    parser = typer.main.get_command(program(arguments[0] if arguments else None))
    try:
        with (
            opening_bar(time.monotonic),
            warnings.catch_warnings(action="ignore", category=LaurelsWarning),  # commands report
            config.recorded_as("the command line"),
            parser.make_context("laurels", arguments or ["--help"]) as context,
        ):
            _put_warnings(NotInAuditLog)
            code: int = parser.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return code


def _put_warnings(category: type[LaurelsWarning]) -> None:
    """Print warnings of this category, as lines on standard error."""

    def put(message: Warning | str, *_: object, **_named: object) -> None:
        complain(f"warning: {message}")

    warnings.simplefilter("always", category)
    warnings.showwarning = put


def _failed(error: LaurelsError, code: int) -> int:
    complain_of(error)
    return code
