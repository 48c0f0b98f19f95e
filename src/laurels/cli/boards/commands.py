"""`board create | list | show | change | delete`: what is ranked, and how."""

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import typer

import laurels
from laurels.cli.errors import Usage
from laurels.cli.option_groups import command
from laurels.cli.options import CONNECTION, DEFAULT_URL, AsJson, BoardName, Url
from laurels.cli.show import complain, put_json, put_line, put_pairs, put_table

from .definition_options import DEFINITION, ChangeOptions, DefinitionOptions
from .scoping import form_text, scopes_text

NOT_DELETED = 1

app = typer.Typer(help="Define boards: what is ranked, and how.", rich_markup_mode=None)

Clock = Annotated[
    Literal["system", "event"] | None,
    typer.Option(
        "--clock",
        help="The clock of a new folder: system (the default), or event, which shows the time of "
        "the newest event, to import history.",
        rich_help_panel=CONNECTION,
    ),
]


@command(app, "create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The board's name.")],
    definition: DefinitionOptions,
    clock: Clock = None,
    exist_ok: Annotated[
        bool,
        typer.Option(
            "--exist-ok",
            help="Succeed if an equal board already exists.",
            rich_help_panel=DEFINITION,
        ),
    ] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Create a board, and the folder if there is none.

    Options override the definition in --file.

    \b
    Examples:
      laurels board create gifts --window all --window month:keep=12 --tz Asia/Shanghai
      laurels board create spent --column amount:scale=2 --tie member
      laurels board create race --column time:op=best,order=asc,scale=3 --rank competition
      laurels board create gifts --scope "" --scope room --scope zone,gender --rank-by room
      laurels board create gifts --file gifts.json
      laurels board create millions --head 1000
    """
    defined = laurels.Board.from_json(definition.fields() | {"name": name})
    with laurels.open(at, clock=clock, create=True) as lb:
        board = lb.create(defined, exist_ok=exist_ok)
    if json:
        put_json(msgspec.Raw(board.to_json()))
    else:
        put_line(f"created {board.name}: {summary(board)}")
    return 0


@command(app, "list")
def list_(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """List the boards.

    \b
    Example:
      laurels board list --at /srv/boards
    """
    with laurels.open(at, create=False) as lb:
        boards = lb.boards()
    if json:
        put_json([msgspec.Raw(board.to_json()) for board in boards])
        return 0
    put_table(
        [("board", "left"), ("title", "left"), ("columns", "left"), ("windows", "left")],
        [[board.name, board.title, _columns_text(board), _windows_text(board)] for board in boards],
    )
    return 0


@command(app, "show")
def show(name: BoardName, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Show a board's definition, its windows and the periods that they keep.

    \b
    Examples:
      laurels board show gifts
      laurels board show gifts --json > gifts.json
    """
    with laurels.open(at, create=False) as lb:
        board = lb.get(name)
        windows = board.rules().windows if () in board.scopes else ()
        periods = {window: lb.periods(name, window) for window in windows}
        stats = lb.stats(name)
    if json:
        put_json(msgspec.Raw(board.to_json()))
        return 0
    _put_definition(board)
    if stats.layout is not None:
        put_pairs(_layout_rows(stats.layout), title="layout")
    if stats.left_out:
        left = f"{stats.left_out:,} events would have taken a total out of the range"
        put_pairs([("left out", left)], title="rankings by a label")
    if stats.scopes:
        counted = [(form_text(form), f"{count:,}") for form, count in stats.scopes.items()]
        put_table([("scopes of", "left"), ("", "right")], counted)
        put_line(f"about {stats.scopes_nbytes:,} bytes in {stats.nbytes:,} of the board")
    put_table(
        [("window", "left"), ("period", "left"), ("members", "right"), ("", "left")],
        [
            [window, period.label, f"{period.total:,}", _period_state(period)]
            for window, in_window in periods.items()
            for period in in_window
        ],
    )
    return 0


@command(app, "change")
def change(
    name: BoardName,
    options: ChangeOptions,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Change settings of a board, or add windows, scopes and labels to rank by.

    Added windows, scopes and labels count events from now on. A --window with the name of an
    existing window changes its keep: NAME=day:keep=5. A window without a name of its own is named
    by its text, so day is changed by day=day:keep=5.

    \b
    Examples:
      laurels board change gifts --title "Gifts of the season" --keep 12
      laurels board change gifts --window day --window hours=hour:keep=48
      laurels board change gifts --window hours=hour:keep=72
      laurels board change gifts --scope room --rank-by room
    """
    with laurels.open(at, create=False) as lb:
        board = lb.change(name, **options.fields(lb.get(name)))
    if json:
        put_json(msgspec.Raw(board.to_json()))
    else:
        put_line(f"changed {board.name}: {summary(board)}")
    return 0


@command(app, "delete")
def delete(
    name: BoardName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Delete a board and everything in it.

    The changes of the board stay readable for as long as the board has kept them. Warns first if a
    sink has not sent all of them. Exits with 1 if the user does not confirm.

    \b
    Example:
      laurels board delete gifts --yes
    """
    with laurels.open(at, create=False) as lb:
        board = lb.get(name)
        if unsent := lb.stats(name).changes_unsent:
            complain(
                f"{name}: a sink has not reported {unsent:,} changes as sent; they are kept for "
                f"{board.changes} after the deletion"
            )
        if not (yes or _confirmed(f"Delete {name} and everything in it?")):
            put_json({"deleted": None}) if json else put_line(f"{name} was not deleted")
            return NOT_DELETED
        lb.delete(name)
    if json:
        put_json({"deleted": name})
    else:
        put_line(f"deleted {name}")
    return 0


@command(app, "clear")
def clear(
    name: BoardName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Remove all members of a board, and keep its definition, sealed periods and payouts.

    Event ids, hidden members and the positions of sources stay. Exits with 1 if the user does not
    confirm.

    \b
    Example:
      laurels board clear gifts --yes
    """
    with laurels.open(at, create=False) as lb:
        lb.get(name)
        if not (yes or _confirmed(f"Remove all members of {name}?")):
            put_json({"cleared": None}) if json else put_line(f"{name} was not cleared")
            return NOT_DELETED
        lb.clear(name)
    put_json({"cleared": name}) if json else put_line(f"cleared {name}")
    return 0


def _confirmed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise Usage(f"expected --yes, since there is no terminal to answer: {question}")
    return typer.confirm(question, err=True)


def _period_state(period: laurels.PeriodInfo) -> str:
    if period.current and not period.final:
        return "current"
    waits = ", ".join(period.waits_for)
    return f"{period.state}, waits for {waits}" if waits else period.state


def _put_definition(board: laurels.Board) -> None:
    rows = [
        ("title", board.title),
        *[(f"column {column.name}", _column_text(column)) for column in board.columns],
        ("tie", f"{board.tie}, to {board.tie_resolution}"),
        ("rank", board.rank),
        ("tz", board.tz),
        ("week start", board.week_start),
        ("grace", board.grace),
        ("close wait", "" if board.close_wait == "1d" else board.close_wait),
        ("starts", board.starts),
        ("ends", board.ends),
        ("answers", f"repeated for {board.max_age}" if board.max_age != "0s" else ""),
        ("ledger", board.ledger),
        ("retained", f"{board.retain} after the end" if board.retain else ""),
        ("dedupe", f"{board.dedupe}, at most {board.dedupe_max:,} ids"),
        ("keep", str(board.keep)),
        ("shards", str(board.shards) if board.shards > 1 else ""),
        ("scopes", "; ".join([form_text(",".join(labels)) for labels in _counted_scopes(board)])),
        ("ranked by", ", ".join(board.rank_by)),
        ("other labels", "ignored" if board.labels == "ignore" else ""),
        ("changes", _changes_text(board)),
        ("head", f"the first {board.head:,} positions are listed" if board.head else ""),
        ("zero", "members whose score is 0 are not ranked" if board.hide_zero else ""),
    ]
    put_pairs([row for row in rows if row[1]], title=board.name)


def _changes_text(board: laurels.Board) -> str:
    kept = f"kept for {board.changes}, at most {board.changes_max:,}"
    return kept if board.changes else ""


def _layout_rows(layout: laurels.BoardLayout) -> list[tuple[str, str]]:
    rows = [(layout.name, layout.means)]
    return rows if layout.cheaper is None else [*rows, ("cheaper", layout.cheaper)]


def _column_text(column: laurels.Column) -> str:
    parts = [column.op, column.order, f"scale {column.scale}"]
    parts += [f"min {column.min}"] if column.min is not None else []
    parts += [f"max {column.max}"] if column.max is not None else []
    parts += [f"{name} times {weight}" for name, weight in column.measures.items()]
    return ", ".join(parts)


def summary(board: laurels.Board) -> str:
    """Return the columns, windows and scopes of a board on one line."""
    text = f"{_columns_text(board)} in {_windows_text(board)}"
    return f"{text}, by scopes: {scopes_text(board)}" if board.rules().scoped else text


def _counted_scopes(board: laurels.Board) -> Sequence[Sequence[str]]:
    """Return the scopes of a board; none if the board does not count by labels."""
    return board.scopes if board.rules().scoped else ()


def _columns_text(board: laurels.Board) -> str:
    return ", ".join(column.name for column in board.columns)


def _windows_text(board: laurels.Board) -> str:
    return ", ".join(board.rules().windows)
