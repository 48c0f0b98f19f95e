"""`import --from`: import a sorted set, and report the result."""

import time
from contextlib import ExitStack

import typer

import laurels
from laurels.cli.errors import Usage
from laurels.cli.importing.option_groups import (
    ColumnOptions,
    CountingOptions,
    SortedSetOptions,
    TargetOptions,
)
from laurels.cli.importing.options import board_named, constant_labels, ensure_batch, instant
from laurels.cli.interrupts import Interrupts
from laurels.cli.progress import progress_bar

from .report import report
from .sorted_set import SetRequest, import_set

_FILE_OPTIONS = {
    "form": "--format",
    "header": "--header",
    "delimiter": "--delimiter",
    "member": "--member",
    "value": "--value",
    "at_column": "--at-column",
    "id_column": "--id",
    "at_format": "--at-format",
    "clock": "--clock",
    "late": "--late",
    "until": "--until",
    "allow_future": "--allow-future",
}
_SET_OPTIONS = {
    "key": "--key",
    "data_key": "--data-key",
    "no_data": "--no-data",
    "event_at": "--event-at",
}
_BEFORE_ALL_MS = 0
"""The default time of imported scores: 1970. It is earlier than all periods that a board keeps, so
only the window `all` counts these scores."""


def refuse_options_of_files(context: typer.Context, files: list[str] | None) -> None:
    """Raise Usage if an option for files is used."""
    if files:
        raise Usage("expected files or --from, got both")
    _refuse(context, _FILE_OPTIONS, "is for files and cannot be used with --from")


def refuse_options_of_sets(context: typer.Context, files: list[str] | None) -> None:
    """Raise Usage if an option for sorted sets is used, or if there are no files."""
    if not files:
        raise Usage("expected files to import, or --from and --key")
    _refuse(context, _SET_OPTIONS, "needs --from")


def import_from(
    url: str,
    board: str,
    sorted_set: SortedSetOptions,
    columns: ColumnOptions,
    counting: CountingOptions,
    target: TargetOptions,
    *,
    json: bool,
) -> int:
    """Import the sorted set, print the result, and return the exit code."""
    ensure_batch(counting.batch)
    if not sorted_set.key:
        raise Usage("--from needs --key, the key of the sorted set")
    if sorted_set.data_key is not None and sorted_set.no_data:
        raise Usage("expected --data-key or --no-data, got both")
    interrupts = Interrupts()
    with ExitStack() as stack:
        lb = stack.enter_context(laurels.open(target.at, create=target.create))
        definition = board_named(lb, board, create=target.create)
        request = SetRequest(
            url=url,
            key=sorted_set.key,
            data_key=sorted_set.data_key,
            with_data=not sorted_set.no_data,
            at_ms=_reached_ms(lb, definition, sorted_set.event_at, columns.tz or definition.tz),
            batch=counting.batch,
            source=counting.source,
            rejects=counting.rejects,
            labels=constant_labels(definition, columns.label),
        )
        stack.enter_context(interrupts.caught())
        progress = stack.enter_context(progress_bar(not json))
        result = import_set(lb, definition, request, interrupts, progress)
    report(board, result, json=json)
    if result.error is not None:
        raise result.error
    return result.code


def _reached_ms(
    lb: laurels.Leaderboards, board: laurels.Board, event_at: str | None, tz: str
) -> int:
    """Return the time that is recorded as the time at which the scores were reached."""
    if event_at is None:
        return _BEFORE_ALL_MS
    if event_at == "now":
        return lb.stats(board.name).now_ms
    at_ms = instant("--event-at", event_at, tz)
    if at_ms > time.time_ns() // 1_000_000:
        raise Usage(f"--event-at {event_at} is in the future")
    return at_ms


def _refuse(context: typer.Context, options: dict[str, str], reason: str) -> None:
    for name, option in options.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise Usage(f"{option} {reason}")
