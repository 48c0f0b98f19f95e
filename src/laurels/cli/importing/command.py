"""`import`: imports CSV and JSON Lines files, or a sorted set of Redis, into a board."""

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

import laurels
from laurels import config
from laurels.cli.errors import Usage
from laurels.cli.interrupts import Interrupts
from laurels.cli.migrating.command import (
    import_from,
    refuse_options_of_files,
    refuse_options_of_sets,
)
from laurels.cli.options import AsJson, BoardName
from laurels.cli.progress import progress_bar
from laurels.cli.texts import readable
from laurels.cli.times import time_reader
from laurels.errors.sources import SourceUnreadable
from laurels.model.event import AHEAD_MS, MAX_BATCH
from laurels.stores.redis.dividing import MAX_CALL_MEMBERS
from laurels.timeline.instants import MAX_MS

from .file_import import STDIN, FileResult, Request, import_file
from .option_groups import (
    FROM_VARIABLE,
    ColumnOptions,
    CountingOptions,
    FileOptions,
    SortedSetOptions,
    TargetOptions,
    TimeOptions,
)
from .options import board_named, ensure_batch, instant, label_sources, zone_named
from .reading import Mapping
from .report import report
from .source import ImportSettings

SOME_REJECTED = 1
INTERRUPTED = 130
MAX_SENT = 10_000
"""The maximum number of lines in one commit over HTTP, since a batch is one request."""
_MEMBER, _AT, _ID = "member", "at", "id"


def import_(
    context: typer.Context,
    board: BoardName,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="CSV or JSON Lines, plain or gzip; - is stdin."),
    ] = None,
    *,
    file_format: FileOptions,
    columns: ColumnOptions,
    times: TimeOptions,
    counting: CountingOptions,
    sorted_set: SortedSetOptions,
    target: TargetOptions,
    json: AsJson = False,
) -> int:
    """Count the events of files, or import a sorted set of Redis.

    To continue an interrupted import, repeat the command: no event is counted twice. Exits with 1
    if some lines were rejected, or if the sorted set and the board differ.

    \b
    Examples:
      laurels import gifts gifts.csv
      laurels import spent purchases.csv.gz --member customer --value amount
          --at-column date --clock event
      laurels import gifts room-42.csv --label room=42 --label zone=@region
      zcat log.gz | laurels import gifts - --format jsonl --source log
      laurels import gifts --from redis://localhost/0 --key highscores
      laurels import gifts --from redis://localhost/0 --key highscores:42 --label room=42
    """
    url = sorted_set.from_ or (None if files else os.environ.get(FROM_VARIABLE))
    if url is not None:
        refuse_options_of_files(context, files)
        return import_from(url, board, sorted_set, columns, counting, target, json=json)
    refuse_options_of_sets(context, files)
    files = files or []
    _ensure_files(files, counting)
    if times.until is not None and (times.clock != "event" or len(files) > 1):
        raise Usage("expected --clock event and one file with --until, which pauses a replay")
    interrupts = Interrupts()
    results: list[FileResult] = []
    with ExitStack() as stack:
        lb = stack.enter_context(laurels.open(target.at, clock=times.clock, create=target.create))
        definition = board_named(lb, board, create=target.create)
        request = _request(
            definition, file_format, columns, times, counting, target.at, _replay_command(context)
        )
        replayed = request.in_time_order
        stack.callback(lambda: report(board, results, json=json, replayed=replayed))
        stack.enter_context(interrupts.caught())
        progress = stack.enter_context(progress_bar(not json))
        for file in files:
            results.append(import_file(lb, file, request, interrupts, progress))
            if results[-1].interrupted:
                return INTERRUPTED
            if (error := results[-1].error) is not None:
                raise error
    return _exit_code(results, late_ok=request.settings.late_ok)


def _request(
    board: laurels.Board,
    file_format: FileOptions,
    columns: ColumnOptions,
    times: TimeOptions,
    counting: CountingOptions,
    at: str,
    replay: str,
) -> Request:
    tz = columns.tz or board.tz
    return Request(
        board=board.name,
        mapping=_mapping(board, columns),
        form=file_format.form,
        header=file_format.header,
        delimiter=_delimiter(file_format.delimiter),
        in_time_order=times.clock == "event",
        source=counting.source,
        rejects=counting.rejects,
        settings=ImportSettings(
            batch=min(counting.batch, _max_batch(at)),
            latest_ms=_no_latest if counting.allow_future else _latest_ms,
            late_ok=times.late == "ok",
            replay=replay,
            until_ms=MAX_MS if times.until is None else instant("--until", times.until, tz),
        ),
    )


def _exit_code(results: Sequence[FileResult], *, late_ok: bool) -> int:
    """Return the exit code of a command that was not interrupted."""
    too_late = not late_ok and any(result.tally.late for result in results)
    return SOME_REJECTED if too_late or any(result.tally.rejected for result in results) else 0


def _replay_command(context: typer.Context) -> str:
    """Return this command as text, with `--clock event` added, so that it imports in time order."""
    words: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE" or parameter.name in ("clock", "late"):
            continue
        value = context.params[parameter.name or ""]
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if parameter.param_type_name == "argument":
                words.append(str(each))
            elif isinstance(each, bool):
                words.append((parameter.opts if each else parameter.secondary_opts)[0])
            else:
                words += [parameter.opts[0], config.without_login(str(each))]
    return shlex.join(["laurels", "import", *words, "--clock", "event"])


def _max_batch(at: str) -> int:
    """Return the maximum number of events that the store at a URL accepts in one commit."""
    if config.is_remote(at):
        return MAX_SENT
    return MAX_CALL_MEMBERS if config.is_direct(at) else MAX_BATCH


def _latest_ms() -> int:
    """Return the latest time an event may have: now on this machine, plus the tolerance of
    boards."""
    return time.time_ns() // 1_000_000 + AHEAD_MS


def _no_latest() -> int:
    return MAX_MS


def _ensure_files(files: list[str], counting: CountingOptions) -> None:
    ensure_batch(counting.batch)
    if len(files) > 1 and (counting.source is not None or counting.rejects is not None):
        raise Usage("--source and --rejects need exactly one file")
    if len(set(files)) < len(files):
        raise Usage("expected each file once, got a file twice")
    for file in files:
        if file != STDIN and not Path(file).exists():
            raise SourceUnreadable(f"{readable(file)}: there is no such file")


def _delimiter(text: str) -> str:
    text = "\t" if text in ("tab", "\\t") else text
    if len(text) != 1 or text in '"\r\n':
        raise Usage(f"expected one character or tab for --delimiter, got {text!r}")
    return text


def _mapping(board: laurels.Board, columns: ColumnOptions) -> Mapping:
    labels = label_sources(board, columns.label)
    zone = zone_named(columns.tz or board.tz)
    names = [column.name for column in board.columns]
    member, values, at, id_ = columns.member, columns.value, columns.at_column, columns.id_column
    if values and len(values) != len(names):
        raise Usage(
            f"{board.name} has {len(names)} columns ({', '.join(names)}): give --value for each"
        )
    explicit = (member, at, id_, *(values or ()))
    return Mapping(
        member=member or _MEMBER,
        values=tuple(values or names),
        at=at or _AT,
        id=id_ or _ID,
        read_time=time_reader(columns.at_format, zone),
        explicit=frozenset(name for name in explicit if name),
        labels=labels,
    )
