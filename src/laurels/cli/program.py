"""The program `laurels`: its commands, and how errors end it.

Exit codes: 0 done; 1 the answer is no (a member is not ranked, lines were rejected, a check
found an error); 2 wrong usage or bad input, or the store failed. A command stopped by Ctrl-C ends
with 130, one whose reader has closed the pipe (`| head`) with 141, as the shell expects.
"""

import io
import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

import laurels
from laurels.cli.boards import applying, scoping
from laurels.cli.boards import commands as boards
from laurels.cli.flows import reconcile, sink, source
from laurels.cli.importing import command as import_command
from laurels.errors import CheckFailed, LaurelsError, LaurelsWarning

from . import answers, auditing, changes, clock, copying, exporting, keys, serving, upkeep, watch
from .failures import OutputFailed, Usage
from .opening_bar import opening_bar
from .option_groups import command
from .show import complain_of, put_line, readable

NO = 1
WRONG = 2
INTERRUPTED = 130
NO_READER = 141

app = typer.Typer(
    name="laurels",
    help="Exact, live, durable leaderboards.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
command(boards.app, "apply")(applying.apply)
app.add_typer(boards.app, name="board")
app.add_typer(keys.app, name="key")
app.add_typer(clock.app, name="clock")
app.add_typer(source.app, name="source")
app.add_typer(sink.app, name="sink")
command(app, "serve")(serving.serve)
command(app, "import")(import_command.import_)
command(app, "export")(exporting.export)
command(app, "top")(answers.top)
command(app, "rank")(answers.rank)
command(app, "around")(answers.around)
command(app, "needed")(answers.needed)
command(app, "scopes")(scoping.scopes)
command(app, "watch")(watch.watch)
command(app, "changes")(changes.changes)
command(app, "audit")(auditing.audit)
command(app, "reconcile")(reconcile.reconcile)
command(app, "check")(upkeep.check)
command(app, "rebuild")(upkeep.rebuild)
command(app, "snapshot")(upkeep.snapshot)
command(app, "backup")(upkeep.backup)
command(app, "restore")(upkeep.restore)
command(app, "copy")(copying.copy)


def _show_version(requested: bool) -> None:
    if requested:
        put_line(f"laurels {laurels.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Exact, live, durable leaderboards."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the process, and return its exit code.

    Every mistake of a user ends in one line `error [code]: message` on standard error.
    """
    _settle_output()
    try:
        _judge_output()
        code = _invoked(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except CheckFailed as error:
        return _failed(error, NO)
    except LaurelsError as error:
        return _failed(error, WRONG)
    except typer.TyperException as error:
        return _failed(Usage(error.format_message().rstrip(".")), WRONG)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return NO_READER
    except OSError as error:
        _drop_output()
        return _failed(_failure(error), WRONG)
    return code


def _settle_output() -> None:
    """Make the output accept any text, and discard messages if standard error is closed."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _judge_output() -> None:
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
    command = typer.main.get_command(app)
    try:
        with (
            opening_bar(time.monotonic),
            warnings.catch_warnings(action="ignore", category=LaurelsWarning),  # commands report
            command.make_context("laurels", arguments or ["--help"]) as context,
        ):
            code: int = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return code


def _failed(error: LaurelsError, code: int) -> int:
    complain_of(error)
    return code
