"""`import`: CSV and JSON Lines files, or a sorted set of Redis, into a board."""

import os
import shlex
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

import laurels
from laurels import config
from laurels.cli.failures import SourceUnreadable, Usage
from laurels.cli.interrupts import Interrupts
from laurels.cli.migrating.command import (
    import_from,
    refuse_options_of_files,
    refuse_options_of_sets,
)
from laurels.cli.options import CONNECTION, DEFAULT_URL, AsJson, BoardName, Url
from laurels.cli.progress import progress_bar
from laurels.cli.show import readable
from laurels.cli.times import time_reader
from laurels.model.event import AHEAD_MS, MAX_BATCH
from laurels.stores.redis.writes import CALL_MOST
from laurels.timeline.instants import MAX_MS
from laurels.timeline.zones import Zone

from .file_import import STDIN, FileResult, Format, Request, import_file
from .options import board_named, ensure_batch, instant, label_sources, zone_named
from .reading import LabelSource, Mapping
from .report import report

SOME_REJECTED = 1
INTERRUPTED = 130
MAX_SENT = 10_000
"""Lines of one commit at most over HTTP: what a request takes."""
_MEMBER, _AT, _ID = "member", "at", "id"


FILE_FORMAT = "File format"
COLUMNS = "Columns"
TIME_ORDER = "Time order"
RESUMING = "Batches and rejects"
SORTED_SET = "Sorted set of Redis"

FROM_VARIABLE = "LAURELS_FROM"
"""The address of --from, where it has a password that the list of processes need not show."""


def import_(
    context: typer.Context,
    board: BoardName,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="CSV or JSON Lines, or .gz; - is stdin."),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="auto: JSON Lines where the first line begins with {.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = "auto",
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            help="Without a header columns are numbered from 1.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = True,
    delimiter: Annotated[
        str,
        typer.Option(
            "--delimiter",
            metavar="CHAR",
            help="Between CSV fields; tab for a tab.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = ",",
    member: Annotated[
        str | None,
        typer.Option(
            "--member", metavar="COL", help="Default: member, or column 1.", rich_help_panel=COLUMNS
        ),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="COL",
            help="Once for each column of the board, in its order. Default: value, or the names "
            "of the board's columns, or columns 2, 3, ...",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    at_column: Annotated[
        str | None,
        typer.Option(
            "--at-column",
            metavar="COL",
            help="When it happened. Default: at, if any.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="The event's id. Default: id, if any.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="A label of all events, such as room=42, or room=@COL for what a column has (@@ "
            "stands for @). May be repeated. Default: the columns of the labels' names, if any.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    at_format: Annotated[
        str,
        typer.Option(
            "--at-format",
            metavar="iso|ms|s|PATTERN",
            help="iso: date, or date and time; ms, s: since 1970 UTC; or such as %Y%m%d.",
            rich_help_panel=COLUMNS,
        ),
    ] = "iso",
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="Of times without one. Default: the board's.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    clock: Annotated[
        Literal["system", "event"] | None,
        typer.Option(
            "--clock",
            help="event: put the events in time order (whole files, in memory) and replay them "
            "as if live. Default: the clock the folder remembers, and the order of the file.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = None,
    late: Annotated[
        Literal["refuse", "ok"],
        typer.Option(
            "--late",
            help="ok: count a source of which windows refuse events as too late. Default: nothing "
            "of such a file is counted; of standard input, nothing from the batch with the first.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = "refuse",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="With --clock event: pause after what happened by then; the same command goes on.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option("--batch", metavar="N", help="Lines of one commit.", rich_help_panel=RESUMING),
    ] = 5_000,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="What the file is known by when it is imported again. Default: its path. "
            "Standard input is only resumed with a name.",
            rich_help_panel=RESUMING,
        ),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="Lines that were not counted. Default: NAME.BOARD.rejects.csv beside the file.",
            rich_help_panel=RESUMING,
        ),
    ] = None,
    allow_future: Annotated[
        bool,
        typer.Option(
            "--allow-future",
            help="Take times ahead of this machine's clock: in event time they move the boards "
            "there for good.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = False,
    create: Annotated[
        bool,
        typer.Option(
            "--create",
            help="Create what is missing: the folder, a default board.",
            rich_help_panel=CONNECTION,
        ),
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="Instead of files, the sorted set at --key: redis://[user:password@]host[:port]"
            "[/db], rediss://, redis+cluster://. It is only read. Default: the variable "
            f"{FROM_VARIABLE}.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Of the sorted set.", rich_help_panel=SORTED_SET),
    ] = None,
    data_key: Annotated[
        str | None,
        typer.Option(
            "--data-key",
            metavar="KEY",
            help="A hash with the members' data. Default: KEY:member_data, if there.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None,
    no_data: Annotated[
        bool,
        typer.Option(
            "--no-data", help="Leave the members' data where it is.", rich_help_panel=SORTED_SET
        ),
    ] = False,
    event_at: Annotated[
        str | None,
        typer.Option(
            "--event-at",
            metavar="now|TIME",
            help="When the scores of a sorted set were reached. Default: 1970, so that they count "
            "in the window all and in no running period.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Count the events of files, or take a sorted set of Redis over. Interrupted and run again,
    it counts nothing twice.

    Ends with 1 when some lines were rejected, or when a sorted set and the board do not agree.

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
    url = from_ or (None if files else os.environ.get(FROM_VARIABLE))
    if url is not None:
        refuse_options_of_files(context, files)
        return import_from(
            url,
            board,
            key=key,
            data_key=data_key,
            with_data=not no_data,
            event_at=event_at,
            labels=label,
            tz=tz,
            batch=batch,
            source=source,
            rejects=rejects,
            create=create,
            at=at,
            json=json,
        )
    refuse_options_of_sets(context, files)
    files = files or []
    _judge(files, source=source, rejects=rejects, batch=batch)
    if until is not None and (clock != "event" or len(files) > 1):
        raise Usage("--until pauses the replay of one file: it goes with --clock event")
    interrupts = Interrupts()
    results: list[FileResult] = []
    with ExitStack() as stack:
        lb = stack.enter_context(laurels.open(at, clock=clock, create=create))
        definition = board_named(lb, board, at=at, create=create)
        request = Request(
            board=board,
            mapping=_mapping(
                definition,
                member=member,
                values=value,
                at=at_column,
                id=id_column,
                labels=label_sources(definition, label),
                at_format=at_format,
                zone=zone_named(tz or definition.tz),
            ),
            form=form,
            header=header,
            delimiter=_delimiter(delimiter),
            in_time_order=clock == "event",
            batch=min(batch, _most_at_once(at)),
            source=source,
            rejects=rejects,
            latest_ms=_no_latest if allow_future else _latest_ms,
            late_ok=late == "ok",
            replay=_replay_command(context),
            until_ms=MAX_MS if until is None else instant("--until", until, tz or definition.tz),
        )
        stack.callback(lambda: report(board, results, json=json, replayed=clock == "event"))
        stack.enter_context(interrupts.caught())
        progress = stack.enter_context(progress_bar(not json))
        for file in files:
            results.append(import_file(lb, file, request, interrupts, progress))
            if results[-1].interrupted:
                return INTERRUPTED
            if (error := results[-1].error) is not None:
                raise error
    refused = late != "ok" and any(result.tally.late for result in results)
    return SOME_REJECTED if refused or any(result.tally.rejected for result in results) else 0


def _replay_command(context: typer.Context) -> str:
    """This command, with the option that replays its files in the order of their times."""
    words: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE" or parameter.name in ("clock", "late"):
            continue
        found = context.params[parameter.name or ""]
        for each in found if isinstance(found, (list, tuple)) else [found]:
            if parameter.param_type_name == "argument":
                words.append(str(each))
            elif isinstance(each, bool):
                words.append((parameter.opts if each else parameter.secondary_opts)[0])
            else:
                words += [parameter.opts[0], config.without_login(str(each))]
    return shlex.join(["laurels", "import", *words, "--clock", "event"])


def _most_at_once(at: str) -> int:
    """The largest batch that is one commit there."""
    if config.is_remote(at):
        return MAX_SENT
    return CALL_MOST if config.is_direct(at) else MAX_BATCH


def _latest_ms() -> int:
    """The latest time an event may have: this machine's, and what the boards tolerate."""
    return time.time_ns() // 1_000_000 + AHEAD_MS


def _no_latest() -> int:
    return MAX_MS


def _judge(files: list[str], *, source: str | None, rejects: Path | None, batch: int) -> None:
    ensure_batch(batch)
    if len(files) > 1 and (source is not None or rejects is not None):
        raise Usage("--source and --rejects go with one file")
    if len(set(files)) < len(files):
        raise Usage("a file is given twice")
    for file in files:
        if file != STDIN and not Path(file).exists():
            raise SourceUnreadable(f"{readable(file)}: there is no such file")


def _delimiter(text: str) -> str:
    text = "\t" if text in ("tab", "\\t") else text
    if len(text) != 1 or text in '"\r\n':
        raise Usage(f"--delimiter is one character or tab, not {text!r}")
    return text


def _mapping(
    board: laurels.Board,
    *,
    member: str | None,
    values: list[str] | None,
    at: str | None,
    id: str | None,
    labels: tuple[LabelSource, ...],
    at_format: str,
    zone: Zone,
) -> Mapping:
    names = [column.name for column in board.columns]
    if values and len(values) != len(names):
        raise Usage(
            f"{board.name} has {len(names)} columns ({', '.join(names)}): give --value for each"
        )
    given = (member, at, id, *(values or ()))
    return Mapping(
        member=member or _MEMBER,
        values=tuple(values or names),
        at=at or _AT,
        id=id or _ID,
        read_time=time_reader(at_format, zone),
        given=frozenset(name for name in given if name),
        labels=labels,
    )
