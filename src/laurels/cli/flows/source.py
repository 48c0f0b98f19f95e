"""`source`: streams of events that feed boards."""

import asyncio
import io
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import laurels
from laurels.cli.errors import OutputFailed, Usage, one_line
from laurels.cli.option_groups import OptionGroup, command
from laurels.cli.options import DEFAULT_URL, OUTPUT, READING, AsJson, Url
from laurels.cli.show import Side, complain, put_json, put_line, put_table
from laurels.errors import InvalidName, LaurelsError, ShardsDiffer
from laurels.errors.sources import SourceUnreadable
from laurels.flows.listing import list_flows
from laurels.flows.retries import FlowRetryPolicy
from laurels.flows.sources.mapping import DEFAULT, parse_mapping
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.opening import OpenedRejects, open_reader, open_rejects
from laurels.flows.sources.reader import StreamReader, decode_position
from laurels.flows.sources.rejects import Rejects
from laurels.flows.sources.rejects_subject import SubjectRejects
from laurels.flows.sources.retiring import retire
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import POSITION_PREFIX, SourceSettings
from laurels.model.validation import is_name, safe_repr
from laurels.stores.http.calls import sources

from .listing import put_listed
from .reports import report_of, wait_text

SOME_REJECTED = 1
INTERRUPTED = 130
PROGRESS_SECONDS = 10.0
MAPPING = "Mapping of messages"
_POSITION_COLUMNS: Sequence[tuple[str, Side]] = (
    ("board", "left"),
    ("stream", "left"),
    ("position", "right"),
    ("counted until", "left"),
)

app = typer.Typer(help="Streams of events that feed boards.", rich_markup_mode=None)

SourceName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the source; boards store their positions under it."
    ),
]
Boards = Annotated[
    str | None,
    typer.Option(
        "--boards",
        metavar="PATTERN",
        help="Feed only boards whose names match, such as 'gifts-*'; skip the others.",
        rich_help_panel=MAPPING,
    ),
]


class MappingOptions(OptionGroup, frozen=True):
    """Options for the translation of messages into events."""

    map: Annotated[
        str,
        typer.Option(
            "--map",
            metavar="TEMPLATE",
            help="board=FIELD,member=FIELD,value=FIELD,at=FIELD,id=FIELD,labels.NAME=FIELD",
            rich_help_panel=MAPPING,
        ),
    ] = DEFAULT
    boards: Boards = None


class RunningOptions(OptionGroup, frozen=True):
    """Options for reading the stream."""

    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            max=10_000,
            help="Maximum number of messages per commit.",
            rich_help_panel=READING,
        ),
    ] = 1_000
    begin: Annotated[
        str | None,
        typer.Option(
            "--begin",
            metavar="start|now",
            help="Where to begin for boards without a position in this stream: at the oldest "
            "message (start) or the next new one (now). Also accepts a stream that was recreated.",
            rich_help_panel=READING,
        ),
    ] = None
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Exit when no message is pending.", rich_help_panel=READING
        ),
    ] = False


class ResultOptions(OptionGroup, frozen=True):
    """Options for reporting messages that were not counted."""

    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            envvar="LAURELS_REJECTS",
            show_envvar=True,
            metavar="FILE|SUBJECT",
            help="File for messages that were not counted, or nats://host:port/subject. "
            "Default: NAME.rejects.jsonl.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    json: AsJson = False


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
        from_, sleep=asyncio.sleep, stdin=_standard_input(from_), run=secrets.token_hex(8)
    )
    make = partial(
        SourceRunner,
        reader=reader,
        mapping=template,
        settings=settings,
        rejects=rejects,
        sleep=asyncio.sleep,
        now_ms=_now_ms,
        waiting=_complain_of_waiting,
        warn=complain,
        progress=_Progress(time.monotonic),
    )
    with _writing(rejects.path):
        metrics, interrupted = asyncio.run(_run(at, reader, rejects, make))
    _report(name, reader, metrics, rejects, json=result.json)
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
        put_table(
            [
                ("board", "left"),
                ("stream", "left"),
                ("position", "right"),
                ("counted until", "left"),
            ],
            [tuple(row.values()) for row in rows],
            title=name,
        )
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


async def _run(
    at: str, reader: StreamReader, rejects: Rejects, make: Callable[..., SourceRunner]
) -> tuple[SourceMetrics, bool]:
    """Run a source over the boards at a URL. Return its counts, and whether Ctrl-C ended it."""
    interrupted = False
    opening = asyncio.ensure_future(
        FlowRetryPolicy(asyncio.sleep, _complain_of_waiting).call(
            partial(laurels.open_async, at, create=False)
        )
    )
    stop: Callable[[], object] = opening.cancel

    def interrupt(number: int) -> None:
        nonlocal interrupted
        interrupted = number == signal.SIGINT
        stop()

    with _signals(interrupt):
        try:
            lb = await opening
        except asyncio.CancelledError:
            return SourceMetrics(), interrupted
        try:
            runner = make(lb)
            stop = runner.stop
            complain(f"reading {reader.name}")
            await runner.run()
        finally:
            try:
                await rejects.close()
            finally:
                await reader.close()
                await lb.close()
    return runner.metrics, interrupted


@contextmanager
def _signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` for SIGINT and SIGTERM within the block. Do nothing outside of the main
    thread."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    with suppress(ValueError, RuntimeError):
        for number in numbers:
            loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


def _standard_input(address: str) -> Callable[[int], bytes]:
    """Return a function that reads up to `size` bytes of standard input, as soon as any arrive."""

    def read(size: int) -> bytes:
        if sys.stdin is None:
            raise OSError("standard input is closed")
        try:
            return os.read(sys.stdin.fileno(), size)
        except io.UnsupportedOperation:
            return sys.stdin.buffer.read(size)

    if address == "-" and sys.stdin is None:
        raise SourceUnreadable("standard input is closed")
    return read


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.filename is None or Path(os.fsdecode(error.filename)) != path:
            raise
        raise OutputFailed(
            f"the rejects file {path} cannot be written: {error.strerror}: choose another with "
            "--rejects"
        ) from error


class _Progress:
    """Prints the progress of a source, at most every ten seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()

    def __call__(self, metrics: SourceMetrics) -> None:
        if self._clock() - self._last >= PROGRESS_SECONDS:
            self._last = self._clock()
            complain(f"{metrics.read:,} messages read, at position {metrics.position}")


def _complain_of_waiting(error: LaurelsError, seconds: float) -> None:
    if isinstance(error, ShardsDiffer):
        complain(f"[{error.code}] {error.what}: counting the missing messages again")
        return
    complain(f"waiting {seconds:g} s [{error.code}]: {one_line(error)}")


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _report(
    name: str, reader: StreamReader, metrics: SourceMetrics, rejects: OpenedRejects, *, json: bool
) -> None:
    if metrics.rejected:
        reasons = ", ".join(f"{count:,} {code}" for code, count in metrics.reasons.most_common())
        complain(f"{metrics.rejected:,} messages rejected ({reasons}): {rejects.address}")
    if metrics.unknown:
        names = ", ".join(board for board, _ in metrics.unknown_boards.most_common(5))
        complain(f"{metrics.unknown:,} messages for boards that do not exist: {names}")
    if metrics.late:
        late = ", ".join(f"{count:,} for {window}" for window, count in metrics.late.items())
        complain(f"some events were too late: {late}")
    if metrics.recounted:
        complain(f"{metrics.recounted:,} events counted again in shards that had lost them")
    if json:
        put_json(_document(name, reader, metrics, rejects))
    else:
        put_line(
            f"{name}: {metrics.read:,} messages: {metrics.applied:,} applied, "
            f"{metrics.unchanged:,} unchanged, {metrics.duplicates:,} duplicates, "
            f"{metrics.rejected:,} rejected, {metrics.foreign + metrics.unknown:,} for other "
            f"boards, {metrics.repeated:,} counted before; at position {metrics.position}"
        )


def _document(
    name: str, reader: StreamReader, metrics: SourceMetrics, rejects: OpenedRejects
) -> dict[str, Any]:
    address = rejects.address if metrics.rejected else None
    is_subject = isinstance(rejects, SubjectRejects)
    return {
        "source": name,
        "stream": reader.name,
        "position": metrics.position,
        "read": metrics.read,
        "recounted": metrics.recounted,
        "applied": metrics.applied,
        "unchanged": metrics.unchanged,
        "duplicates": metrics.duplicates,
        "rejected": metrics.rejected,
        "foreign": metrics.foreign,
        "unknown": metrics.unknown,
        "repeated": metrics.repeated,
        "late": dict(metrics.late),
        "reasons": dict(metrics.reasons),
        "unknown_boards": dict(metrics.unknown_boards),
        "rejects_file": address if not is_subject else None,
        "rejects_subject": address if is_subject else None,
    }
