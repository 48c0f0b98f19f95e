"""The program `laurels`: its commands, and what becomes of errors.

Exit codes: 0 done; 1 the answer is no (a member is not ranked, lines were rejected, a check
found a fault); 2 wrong usage or bad input, or the store failed. A command stopped by Ctrl-C ends
with 130, one whose reader has gone (`| head`) with 141, as the shell expects.
"""

import os
import sys
from collections.abc import Sequence

import typer

from laurels.errors import CheckFailed, LaurelsError

from . import answers, boards, exporting, import_command, upkeep
from .failures import Usage, one_line
from .show import complain

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
app.add_typer(boards.app, name="board")
app.command("import")(import_command.import_)
app.command("export")(exporting.export)
app.command("top")(answers.top)
app.command("rank")(answers.rank)
app.command("around")(answers.around)
app.command("check")(upkeep.check)
app.command("rebuild")(upkeep.rebuild)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default the one of the process, and returns its exit code.

    Whatever a user can do wrong ends in one line `error [code]: message` on standard error.
    """
    try:
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    return code


def _invoked(arguments: list[str]) -> int:
    """Runs the command the arguments name; without any, shows the help."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("laurels", arguments or ["--help"]) as context:
            code: int = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return code


def _failed(error: LaurelsError, code: int) -> int:
    complain(f"error [{error.code}]: {one_line(error)}")
    return code
