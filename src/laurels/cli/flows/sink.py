"""`sink`: sends the changes of boards to other systems."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import laurels
from laurels.api.aio import AsyncLeaderboards
from laurels.cli.option_groups import command
from laurels.cli.options import CONNECTION, DEFAULT_URL, AsJson, Url
from laurels.cli.show import complain, put_json, put_line, put_table
from laurels.cli.texts import Side
from laurels.errors import LaurelsError
from laurels.errors.service import Forbidden, NoSuchPath
from laurels.errors.sinks import TargetRefused, TargetUnavailable
from laurels.flows.ledger.views import drop_view, make_view
from laurels.flows.listing import list_sinks
from laurels.flows.sinks.metrics import SinkMetrics
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.parking import ParkingFile
from laurels.flows.sinks.positions import ensure_sink_name, remove_positions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import SinkBoardStatus, reset, statuses, with_waits
from laurels.flows.sinks.target import POSITION_PREFIX, SinkTarget
from laurels.model.validation import names_in_short
from laurels.sql.databases import dialect_of
from laurels.stores.http.calls import sinks
from laurels.timeline.clock import SystemClock
from laurels.wire.flow_wait import FlowWait

from .listing import put_listed
from .reports import report_of, wait_text
from .sink_options import (
    TO_VARIABLE,
    Boards,
    Parked,
    RunOptions,
    SendingOptions,
    SinkName,
    To,
    ToKnown,
)

T = TypeVar("T")
NEGATIVE = 1

app = typer.Typer(help="Changes of boards, sent to other systems.", rich_markup_mode=None)

_COLUMNS: Sequence[tuple[str, Side]] = (
    ("board", "left"),
    ("state", "left"),
    ("changes behind", "right"),
    ("seconds behind", "right"),
    ("limit used", "right"),
)


@command(app, "run")
def run(
    name: SinkName,
    to: To,
    sending: SendingOptions,
    running: RunOptions,
    boards: Boards = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Send the changes of boards to a target, in order, until Ctrl-C.

    The sink continues where it stopped, also after a kill. It waits for a target that is down and
    loses nothing. Exits with 1 if changes were parked or a board could not be followed.

    \b
    Examples:
      laurels sink run ledger --to postgresql://postgres@localhost/boards
      laurels sink run feed --to redis://localhost/0/changes --boards 'gift*'
      laurels sink run shop --to https://example.com/hook --secret-file hook.key
      laurels sink run copy --to - --fields KeyPrefix=board,UserId=member,Score=score
    """
    options = SinkOptions(
        *(name, boards, running.initial, running.until_end, running.tries), what=sending.what()
    )
    clock = SystemClock()
    parking = ParkingFile(_parked(running.parked, name), name)

    async def sink(lb: AsyncLeaderboards) -> SinkRunner:
        await ensure_sink_name(lb, name)
        target = open_target(to, name, sending.target(), lb, clock.now_ms)
        runner = SinkRunner(
            lb, target, options, now_ms=clock.now_ms, parking=parking, report=complain
        )
        with suppress(asyncio.CancelledError):
            await runner.run()
        return runner

    runner = _with_boards(at, sink)
    metrics = runner.metrics
    summary = {
        "delivered": metrics.delivered,
        "parked": metrics.parked,
        "payouts": {"delivered": metrics.payouts.delivered, "parked": metrics.payouts.parked},
        "failed": {board: error.code for board, error in runner.failed.items()},
    }
    if json and to != "-":
        put_json(summary)
    else:
        complain(_sent_text(metrics))
    has_parked = metrics.parked or metrics.payouts.parked
    return NEGATIVE if has_parked or runner.failed or runner.payouts_error is not None else 0


@command(app, "status")
def status(
    name: SinkName,
    to: ToKnown = None,
    boards: Boards = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show a sink's position on each board, how far it is behind, and why it waits.

    A service at --at that runs the sink reports why the sink waits. With --to, the target is tried.
    A warning is printed if the unsent changes take half of what the board can keep. Exits with 1 if
    the board no longer keeps the changes after a position, and with 2 if the target fails.

    \b
    Examples:
      laurels sink status ledger
      laurels sink status ledger --to postgresql://postgres@localhost/boards --json
    """
    options, clock = SinkOptions(name, boards), SystemClock()
    failed: LaurelsError | None = None

    async def ask(lb: AsyncLeaderboards) -> list[SinkBoardStatus]:
        nonlocal failed
        if to is not None:
            target = open_target(to, name, DeliveryOptions(), lb, clock.now_ms)
            try:
                return await _opened(target, lambda: statuses(lb, target, options, clock.now_ms()))
            except (TargetUnavailable, TargetRefused) as error:
                failed = error
        return await statuses(lb, None, options, clock.now_ms())

    board_statuses = with_waits(_with_boards(at, ask), report_of(at, sinks, name))
    if json:
        put_json(board_statuses)
    else:
        put_table(_COLUMNS, map(_row, board_statuses))
    for each in board_statuses:
        if each.is_nearly_lost:
            complain(
                f"{each.board}: the changes that {name} has not sent take {each.used:.0%} of what "
                "the board can keep: the board removes unsent changes above 100%"
            )
        if each.code is not None:
            complain(f"{each.board}: {name} has lost changes ({each.code})")
    _complain_of_waits(name, board_statuses, clock.now_ms())
    if failed is not None:
        raise failed
    return NEGATIVE if any(each.state == "lost" for each in board_statuses) else 0


@command(app, "list")
def list_(boards: Boards = None, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Show the sinks that have positions on boards.

    A sink that keeps its positions in its target appears within ten seconds. Among the boards of a
    sink, `payouts` stands for the list of due payouts.

    \b
    Example:
      laurels sink list
    """
    with laurels.open(at, create=False) as lb:
        put_listed(list_sinks(lb, POSITION_PREFIX, boards), "sink", json=json)
    return 0


@command(app, "forget")
def forget_(
    name: SinkName, boards: Boards = None, at: Url = DEFAULT_URL, json: AsJson = False
) -> int:
    """Forget a sink that no longer runs, so that boards no longer keep changes for it.

    A board keeps the changes that a registered sink has not sent, up to its changes_max.

    \b
    Example:
      laurels sink forget shop
    """
    with laurels.open(at, create=False) as lb:
        names = remove_positions(lb, POSITION_PREFIX + name, boards)
        _forget_payouts(lb, name)
    if json:
        put_json({"sink": name, "boards": names})
    for board in [] if json else names:
        put_line(f"{board}: no longer keeps changes for {name}")
    return 0


@command(app, "reset")
def reset_(
    name: SinkName,
    to: To,
    initial: Annotated[
        bool, typer.Option("--initial", help="Start over with every current entry.")
    ] = False,
    now: Annotated[bool, typer.Option("--now", help="Continue with changes from now on.")] = False,
    boards: Boards = None,
    at: Url = DEFAULT_URL,
) -> int:
    """Move a stopped sink: start over with every current entry, or continue from now on.

    \b
    Examples:
      laurels sink reset ledger --to postgresql://postgres@localhost/boards --initial
      laurels sink reset shop --to https://example.com/hook --now
    """
    if initial == now:
        raise typer.BadParameter("expected one of --initial and --now")
    options, clock = SinkOptions(name, boards), SystemClock()

    async def put(lb: AsyncLeaderboards) -> list[str]:
        target = open_target(to, name, DeliveryOptions(allows_private=True), lb, clock.now_ms)
        return await _opened(target, lambda: reset(lb, target, options, initial=initial))

    for board in _with_boards(at, put):
        put_line(f"{board}: {'every current entry' if initial else 'from now on'}")
    return 0


@command(app, "view")
def view(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar=TO_VARIABLE,
            show_envvar=True,
            metavar="LEDGER",
            help="The ledger: postgresql://, mysql:// or sqlite:///FILE.",
            rich_help_panel=CONNECTION,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The view's name. Default: view_BOARD."),
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the view.")] = False,
) -> int:
    """Create a database view of a board in its ledger, with the names of the board's columns.

    An existing view of the same name is replaced. No rows are copied.

    \b
    Examples:
      laurels sink view gifts --to postgresql://postgres@localhost/boards
      laurels sink view gifts --to sqlite:///ledger.db --name gifts
    """
    dialect, prefix = dialect_of(to)
    put_line((drop_view if drop else make_view)(dialect, prefix, board, name))
    return 0


@command(app, "parked")
def parked(name: SinkName, file: Parked = None, json: AsJson = False) -> int:
    """Show the changes that a target has refused for good, oldest first.

    \b
    Example:
      laurels sink parked shop
    """
    pages = ParkingFile(_parked(file, name)).read()
    if json:
        put_json(pages)
        return 0
    rows = [(page.board, str(len(page.changes)), page.error) for page in pages]
    put_table([("board", "left"), ("changes", "right"), ("reason", "left")], rows)
    return 0


@command(app, "resend")
def resend(
    name: SinkName,
    to: To,
    sending: SendingOptions,
    file: Parked = None,
    at: Url = DEFAULT_URL,
) -> int:
    """Send a sink's parked changes again, in order, and remove the delivered ones.

    \b
    Example:
      laurels sink resend shop --to https://example.com/hook --secret-file hook.key
    """
    clock = SystemClock()
    parking = ParkingFile(_parked(file, name))

    async def send(lb: AsyncLeaderboards) -> int:
        target = open_target(to, name, sending.target(), lb, clock.now_ms)
        if target.keeps_positions:
            raise typer.BadParameter(
                "expected a target that stores no positions: only those have parked changes"
            )
        return await _opened(target, lambda: parking.resend(target))

    put_line(f"sent {_with_boards(at, send):,} changes")
    return 0


def _forget_payouts(lb: laurels.Leaderboards, name: str) -> None:
    """Remove a sink's positions in the list of due payouts. Do nothing if the key may not do so, or
    if the service has no such list."""
    with suppress(Forbidden, NoSuchPath):
        for reader, position in lb.payout_positions().items():
            if reader.partition(" ")[0] == POSITION_PREFIX + name:
                lb.move_payout_position(reader, position, None)


def _sent_text(metrics: SinkMetrics) -> str:
    """Return how much a sink has sent and parked."""
    payouts = metrics.payouts
    parts = [f"sent {metrics.delivered:,} changes, parked {metrics.parked:,}"]
    if payouts.delivered or payouts.parked:
        parts.append(f"sent {payouts.delivered:,} payouts, parked {payouts.parked:,}")
    return "; ".join(parts)


def _complain_of_waits(name: str, board_statuses: Sequence[SinkBoardStatus], now_ms: int) -> None:
    """Print why a sink waits, once for each reason, with the boards concerned."""
    reasons: dict[str, tuple[FlowWait, list[str]]] = {}
    for each in board_statuses:
        if each.wait is not None:
            reasons.setdefault(each.wait.error, (each.wait, []))[1].append(each.board)
    for wait, names in reasons.values():
        complain(f"{names_in_short(names)}: {name} has sent nothing {wait_text(wait, now_ms)}")


def _parked(file: Path | None, name: str) -> Path:
    return Path(f"{name}.parked.jsonl") if file is None else file


def _row(status: SinkBoardStatus) -> tuple[str, ...]:
    lag = "" if status.lag_changes is None else f"{status.lag_changes:,}"
    seconds = "" if status.lag_seconds is None else f"{status.lag_seconds:,.1f}"
    used = "" if status.used is None else f"{status.used:.0%}"
    return status.board, status.state, lag, seconds, used


async def _opened(target: SinkTarget, work: Callable[[], Awaitable[T]]) -> T:
    try:
        await target.open()
        return await work()
    finally:
        await target.close()


def _with_boards(at: str, work: Callable[[AsyncLeaderboards], Awaitable[T]]) -> T:
    """Call `work` with the boards at a URL, and return its result. SIGTERM and Ctrl-C cancel the
    call."""

    async def main() -> T:
        async with laurels.open_async(at, create=False) as lb:
            task = asyncio.ensure_future(work(lb))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, task.cancel)
            try:
                return await task
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None

    return asyncio.run(main())
