"""`import`: CSV and JSON Lines files into a board."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import laurels
from laurels import config
from laurels.direct.writes import CALL_MOST
from laurels.errors import InvalidAt, UnknownBoard
from laurels.event import AHEAD_MS
from laurels.windows import MAX_MS
from laurels.zones import Zone, zone

from .failures import SourceUnreadable, Usage
from .file_import import STDIN, FileResult, Format, Request, import_file
from .interrupts import Interrupts
from .options import DEFAULT_URL, AsJson, BoardName, Url
from .progress import progress_bar
from .reading import Mapping
from .show import complain, escaped, put_json, put_line, readable
from .times import time_reader

SOME_REJECTED = 1
INTERRUPTED = 130
MAX_BATCH = 100_000
"""Lines of one commit at most: what the board takes at once."""
MAX_SENT = 10_000
"""The same over HTTP: what a request takes."""
LATE_BY_THE_CLOCK = "history wants --clock event"
LATE_IN_HISTORY = "later ones were counted before; import a history from its beginning on"
_MEMBER, _AT, _ID = "member", "at", "id"


def import_(
    board: BoardName,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="CSV or JSON Lines, or .gz; - is stdin.")
    ],
    form: Annotated[
        Format,
        typer.Option("--format", help="auto: JSON Lines where the first line begins with {."),
    ] = "auto",
    header: Annotated[
        bool,
        typer.Option("--header/--no-header", help="Without a header columns are numbered from 1."),
    ] = True,
    delimiter: Annotated[
        str, typer.Option("--delimiter", metavar="CHAR", help="Between CSV fields; tab for a tab.")
    ] = ",",
    member: Annotated[
        str | None, typer.Option("--member", metavar="COL", help="Default: member, or column 1.")
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="COL",
            help="Once for each column of the board, in its order. Default: value, or the names "
            "of the board's columns, or columns 2, 3, ...",
        ),
    ] = None,
    at_column: Annotated[
        str | None,
        typer.Option("--at-column", metavar="COL", help="When it happened. Default: at, if any."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COL", help="The event's id. Default: id, if any."),
    ] = None,
    at_format: Annotated[
        str,
        typer.Option(
            "--at-format",
            metavar="iso|ms|s|PATTERN",
            help="iso: date, or date and time; ms, s: since 1970 UTC; or such as %Y%m%d.",
        ),
    ] = "iso",
    tz: Annotated[
        str | None,
        typer.Option("--tz", metavar="ZONE", help="Of times without one. Default: the board's."),
    ] = None,
    clock: Annotated[
        Literal["system", "event"] | None,
        typer.Option(
            "--clock",
            help="event: put the events in time order (whole files, in memory) and replay them "
            "as if live. Default: the clock the folder remembers, and the order of the file.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="With --clock event: pause after what happened by then; the same command goes on.",
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Lines of one commit.")
    ] = 5_000,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="What the file is known by when it is imported again. Default: its path. "
            "Standard input is only resumed with a name.",
        ),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="Lines that were not counted. Default: NAME.BOARD.rejects.csv beside the file.",
        ),
    ] = None,
    allow_future: Annotated[
        bool,
        typer.Option(
            "--allow-future",
            help="Take times ahead of this machine's clock: in event time they move the boards "
            "there for good.",
        ),
    ] = False,
    create: Annotated[
        bool,
        typer.Option("--create", help="Create what is missing: the folder, a default board."),
    ] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Count the events of files. Interrupted and run again, it counts nothing twice.

    Ends with 1 when some lines were rejected.

    \b
    Examples:
      laurels import gifts gifts.csv
      laurels import spent purchases.csv.gz --member customer --value amount
          --at-column date --clock event
      zcat log.gz | laurels import gifts - --format jsonl --source log
    """
    _judge(files, source=source, rejects=rejects, batch=batch)
    if until is not None and (clock != "event" or len(files) > 1):
        raise Usage("--until pauses the replay of one file: it goes with --clock event")
    interrupts = Interrupts()
    results: list[FileResult] = []
    with ExitStack() as stack:
        lb = stack.enter_context(laurels.open(at, clock=clock, create=create))
        definition = _board(lb, board, create=create)
        request = Request(
            board=board,
            mapping=_mapping(
                definition,
                member=member,
                values=value,
                at=at_column,
                id=id_column,
                at_format=at_format,
                zone=_zone(tz or definition.tz),
            ),
            form=form,
            header=header,
            delimiter=_delimiter(delimiter),
            in_time_order=clock == "event",
            batch=min(batch, _most_at_once(at)),
            source=source,
            rejects=rejects,
            latest_ms=_no_latest if allow_future else _latest_ms,
            ordered=clock == "event" and len(files) > 1,
            until_ms=MAX_MS if until is None else _instant(until, tz or definition.tz),
        )
        stack.callback(lambda: _report(board, results, json=json, replayed=clock == "event"))
        stack.enter_context(interrupts.caught())
        progress = stack.enter_context(progress_bar(not json))
        for file in files:
            results.append(import_file(lb, file, request, interrupts, progress))
            if results[-1].interrupted:
                return INTERRUPTED
            if (error := results[-1].error) is not None:
                raise error
    return SOME_REJECTED if any(result.tally.rejected for result in results) else 0


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
    if not 1 <= batch <= MAX_BATCH:
        raise Usage(f"--batch is 1 to {MAX_BATCH:,}")
    if len(files) > 1 and (source is not None or rejects is not None):
        raise Usage("--source and --rejects go with one file")
    if len(set(files)) < len(files):
        raise Usage("a file is given twice")
    for file in files:
        if file != STDIN and not Path(file).exists():
            raise SourceUnreadable(f"{readable(file)}: there is no such file")


def _board(lb: laurels.Leaderboards, name: str, *, create: bool) -> laurels.Board:
    try:
        return lb.get(name)
    except UnknownBoard:
        if not create:
            raise
        return lb.create(laurels.Board(name))


def _delimiter(text: str) -> str:
    text = "\t" if text in ("tab", "\\t") else text
    if len(text) != 1 or text in '"\r\n':
        raise Usage(f"--delimiter is one character or tab, not {text!r}")
    return text


def _zone(name: str) -> Zone:
    try:
        return zone(name)
    except KeyError:
        raise Usage(f"--tz: there is no time zone {name!r}") from None


def _instant(text: str, tz: str) -> int:
    """A time on the command line, ISO 8601."""
    try:
        return time_reader("iso", _zone(tz))(text)
    except InvalidAt as error:
        raise Usage(f"--until: {error.what}") from error


def _mapping(
    board: laurels.Board,
    *,
    member: str | None,
    values: list[str] | None,
    at: str | None,
    id: str | None,
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
    )


def _report(board: str, results: list[FileResult], *, json: bool, replayed: bool) -> None:
    if json and results:
        put_json({"board": board, "files": [_figures(result) for result in results]})
    for result in results:
        _complain_of(result, replayed=replayed)
        if not json:
            put_line(_sentence(result))


def _figures(result: FileResult) -> dict[str, Any]:
    tally = result.tally
    return {
        "file": result.file,
        "source": result.source,
        "resumed_after": result.resumed_after,
        "last_line": result.last_line,
        "lines": tally.lines,
        "applied": tally.applied,
        "unchanged": tally.unchanged,
        "duplicates": tally.duplicates,
        "rejected": tally.rejected,
        "left": tally.left,
        "late": dict(tally.late),
        "reasons": dict(tally.reasons),
        "rejects_file": result.rejects_file,
        "interrupted": result.interrupted,
        "error": None if result.error is None else result.error.code,
        "seconds": round(result.seconds, 3),
    }


def _sentence(result: FileResult) -> str:
    tally = result.tally
    name = escaped(result.file)
    if result.resumed_after and not tally.lines and not tally.left:
        return f"{name}: nothing new after line {result.resumed_after:,}, imported before"
    resumed = f" (resumed after line {result.resumed_after:,})" if result.resumed_after else ""
    left = f", {tally.left:,} later ones left" if tally.left else ""
    rate = f"{tally.lines / result.seconds:,.0f}/s" if result.seconds > 0 else "at once"
    return (
        f"{name}: {tally.lines:,} lines{resumed}: {tally.applied:,} applied, "
        f"{tally.unchanged:,} unchanged, {tally.duplicates:,} duplicates, "
        f"{tally.rejected:,} rejected{left} ({result.seconds:.1f} s, {rate})"
    )


def _complain_of(result: FileResult, *, replayed: bool) -> None:
    """What went wrong with a file, on standard error."""
    tally, name = result.tally, escaped(result.file)
    for reject in tally.first_rejects:
        complain(f"{name}, line {reject.line:,}: [{reject.code}] {reject.message}")
    if tally.rejected:
        by_code = ", ".join(f"{count:,} {code}" for code, count in tally.reasons.most_common())
        complain(f"{name}: {tally.rejected:,} lines rejected ({by_code}): {result.rejects_file}")
    if tally.late:
        by_window = ", ".join(f"{count:,} for {name}" for name, count in tally.late.items())
        hint = LATE_IN_HISTORY if replayed else LATE_BY_THE_CLOCK
        complain(f"{name}: events came too late ({by_window}); {hint}")
    if result.interrupted and result.source is not None:
        complain(f"{name}: interrupted; the same command goes on where it stopped")
    elif result.interrupted:
        complain(
            f"{name}: interrupted; without --source a new run counts from the first line again"
        )
