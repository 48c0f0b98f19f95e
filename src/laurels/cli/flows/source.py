"""`source`: streams of events that feed boards."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

import laurels
from laurels.cli.errors import Usage, one_line
from laurels.cli.option_groups import command
from laurels.cli.options import DEFAULT_URL, READING, AsJson, Url
from laurels.cli.show import complain, put_json, put_line, put_table
from laurels.cli.texts import Side
from laurels.errors import InvalidName, ShardsDiffer
from laurels.flows.listing import list_flows
from laurels.flows.sources.opening import open_reader, open_rejects
from laurels.flows.sources.reader import decode_position
from laurels.flows.sources.retiring import retire
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import POSITION_PREFIX, SourceSettings
from laurels.flows.sources.template import parse_mapping
from laurels.model.validation import is_name, safe_repr
from laurels.stores.http.calls import sources

from .listing import put_listed
from .reports import report_of, wait_text
from .source_options import Boards, MappingOptions, ResultOptions, RunningOptions, SourceName
from .source_report import put_report
from .source_run import StreamProgress, complain_of_waiting, run_source, standard_input, writing

SOME_REJECTED = 1
INTERRUPTED = 130
_POSITION_COLUMNS: Sequence[tuple[str, Side]] = (
    ("board", "left"),
    ("stream", "left"),
    ("position", "right"),
    ("counted until", "left"),
)

app = typer.Typer(help="Streams of events that feed boards.", rich_markup_mode=None)


@command(app, "run")
def run(
    name: SourceName,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            envvar="LAURELS_FROM",
            show_envvar=True,
            metavar="STREAM",
            help="nats://host:port/STREAM, redis://host:port/0/KEY, a file of JSON lines, or -.",
            rich_help_panel=READING,
        ),
    ],
    *,
    mapping: MappingOptions,
    running: RunningOptions,
    result: ResultOptions,
    at: Url = DEFAULT_URL,
) -> int:
    """Count the events of a stream on boards as they arrive, each once, until Ctrl-C.

    After an interruption, run it again: it continues where it stopped. Exits with 1 if messages
    were rejected.

    \b
    Examples:
      laurels source run gifts --from nats://localhost:4222/EVENTS
          --map board=KeyPrefix,member=UserId,value=DeltaScore
      laurels source run gifts --from redis://localhost:6379/0/events --boards 'gifts-*'
      laurels source run log --from events.jsonl --until-end --at http://localhost:8080
      produce | laurels source run pipe --from - --map 'board="gifts",member=user,value=n'
    """
    settings = _settings(name, mapping.boards, running)
    template = parse_mapping(mapping.map)
    rejects = open_rejects(result.rejects, name, complain)
    reader = open_reader(
        from_, sleep=asyncio.sleep, stdin=standard_input(from_), run=secrets.token_hex(8)
    )
    make = partial(
        SourceRunner,
        reader=reader,
        mapping=template,
        settings=settings,
        rejects=rejects,
        sleep=asyncio.sleep,
        now_ms=_now_ms,
        waiting=complain_of_waiting,
        warn=complain,
        progress=StreamProgress(time.monotonic),
    )
    with writing(rejects.path):
        metrics, interrupted = asyncio.run(run_source(at, reader, rejects, make))
    put_report(name, reader, metrics, rejects, json=result.json)
    if interrupted:
        return INTERRUPTED
    return SOME_REJECTED if metrics.rejected else 0


@command(app, "status")
def status(
    name: SourceName, at: Url = DEFAULT_URL, boards: Boards = None, json: AsJson = False
) -> int:
    """Show how far boards have counted a source, and why it waits.

    A service at --at that runs the source reports why the source cannot read or count.

    \b
    Example:
      laurels source status gifts --at http://localhost:8080
    """
    settings = SourceSettings(name=name, boards=boards)
    rows: list[dict[str, str]] = []
    with laurels.open(at, create=False) as lb:
        for board in lb.boards():
            if not settings.feeds(board.name):
                continue
            try:
                texts = {lb.position(board.name, settings.key)}
            except ShardsDiffer as differ:
                texts = {*differ.positions}
                complain(f"{board.name}: [{differ.code}] {one_line(differ)}")
            positions = [decode_position(text) for text in texts if text]
            for stored in sorted(positions, key=lambda each: (each.position, each.passed_ms or 0)):
                passed = "" if stored.passed_ms is None else _utc(stored.passed_ms)
                rows.append(
                    {
                        "board": board.name,
                        "stream": stored.stream,
                        "position": stored.at,
                        "counted_until": passed,
                    }
                )
    report = report_of(at, sources, name)
    wait = None if report is None else report.wait
    if json:
        put_json({"source": name, "boards": rows, "wait": wait})
    else:
        put_table(_POSITION_COLUMNS, [tuple(row.values()) for row in rows], title=name)
    if wait is not None:
        complain(f"{name} has counted nothing {wait_text(wait, _now_ms())}")
    return 0


@command(app, "list")
def list_(boards: Boards = None, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Show the sources whose messages boards have counted.

    \b
    Example:
      laurels source list
    """
    with laurels.open(at, create=False) as lb:
        patterns = None if boards is None else [boards]
        put_listed(list_flows(lb, POSITION_PREFIX, patterns), "source", json=json)
    return 0


@command(app, "retire")
def retire_(
    name: SourceName, at: Url = DEFAULT_URL, boards: Boards = None, json: AsJson = False
) -> int:
    """Stop boards from waiting for a source that no longer runs.

    The end of a period waits for every source of its board, for up to the board's close wait.
    Boards keep the position, so the source may run again; then they wait for it again.

    \b
    Example:
      laurels source retire gifts --boards 'gifts-*'
    """
    with laurels.open(at, create=False) as lb:
        retired = retire(lb, SourceSettings(name=name, boards=boards))
    if json:
        put_json({"source": name, "boards": retired})
    for board in [] if json else retired:
        put_line(f"{board}: no longer waits for {name}")
    return 0


def _settings(name: str, boards: str | None, running: RunningOptions) -> SourceSettings:
    if not is_name(name):
        raise InvalidName(f"expected a name for a source, got {safe_repr(name)}")
    if running.begin not in (None, "start", "now"):
        raise Usage(f"expected start or now for --begin, got {running.begin!r}")
    return SourceSettings(
        name=name,
        boards=boards,
        batch=running.batch,
        begin=running.begin,
        until_end=running.until_end,
    )


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
