"""`archive list | removed | export` and `verify`: the standings of sealed periods."""

from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels
from laurels.cli.boards.scoping import scope_words
from laurels.errors import ArchiveDamaged

from .errors import Usage
from .exporting import ExportOptions
from .exporting import export as export_ranking
from .option_groups import command
from .options import DEFAULT_URL, READING, AsJson, BoardName, SealedLabel, Url, WindowName
from .ranking_options import RankingOptions
from .show import complain_of, put_json, put_line, put_table
from .texts import escaped

NEGATIVE = 1
_SHOWN = 16
"""The number of characters of a digest in the table."""

app = typer.Typer(help="Read the standings of sealed periods.", rich_markup_mode=None)


@command(app, "list")
def list_(
    board: BoardName,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="NAME",
            help="Only periods of this window. Default: of all windows.",
            rich_help_panel=READING,
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", help="How many periods, 10,000 at most.", rich_help_panel=READING),
    ] = 1_000,
    offset: Annotated[
        int,
        typer.Option("--offset", help="How many periods to skip.", rich_help_panel=READING),
    ] = 0,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """List the sealed periods of a board, newest first.

    \b
    Examples:
      laurels archive list gifts
      laurels archive list gifts --window month --json
    """
    with laurels.open(at, create=False) as lb:
        sealed = lb.archived(board, window, limit=limit, offset=offset)
    if json:
        put_json(sealed)
        return 0
    put_table(
        [
            ("window", "left"),
            ("period", "left"),
            ("entries", "right"),
            ("revision", "right"),
            ("digest", "left"),
        ],
        [
            [
                each.window,
                each.period,
                f"{each.entries:,}",
                str(each.revision),
                f"{each.digest[:_SHOWN]}…",
            ]
            for each in sealed
        ],
    )
    return 0


@command(app, "removed")
def removed(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """List the boards that were deleted, or removed by their `retain`, and that can be restored
    with `laurels undelete`.

    \b
    Example:
      laurels archive removed
    """
    with laurels.open(at, create=False) as lb:
        boards = lb.restorable_boards()
    if json:
        put_json(boards)
        return 0
    put_table(
        [
            ("board", "left"),
            ("uid", "left"),
            ("removed", "left"),
            ("periods", "right"),
            ("payouts", "right"),
        ],
        [
            [
                escaped(each.name),
                each.uid,
                _time_text(each.removed_ms),
                f"{each.periods:,}",
                f"{each.payouts:,}",
            ]
            for each in boards
        ],
    )
    return 0


@command(app, "export")
def export(
    board: BoardName,
    ranking: RankingOptions,
    target: ExportOptions,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Write the whole standings of a period, best first. It is `laurels export`, for a period,
    which --period has to name.

    \b
    Examples:
      laurels archive export gifts --window month --period 2026-10 > october.csv
      laurels archive export gifts --window day --period 2026-10-31 --label room=42
    """
    if ranking.period is None:
        raise Usage("expected --period with the label of a period, as `archive list` shows it")
    return export_ranking(board, ranking, target, at, json)


def _time_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def verify(
    board: BoardName,
    window: WindowName = None,
    period: SealedLabel = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Verify the standings of a sealed period.

    Its digest is computed once more: from the archive and, if the log reaches back to the period,
    from a second fold of the log. Exits with 1 if it is not the digest that was sealed, or if the
    archive is damaged. Places whose member was erased are listed.

    \b
    Example:
      laurels verify gifts --window month --period 2026-10
    """
    try:
        with laurels.open(at, create=False) as lb:
            found = lb.verify(board, window=window, period=period)
    except ArchiveDamaged as error:
        complain_of(error)
        return NEGATIVE
    if json:
        put_json(found)
    else:
        put_line(f"{found.window} {found.period}: {found.entries:,} entries, {found.digest}")
        put_line(_agreement("the archive", found.archive, found.digest))
        put_line(_agreement("the log", found.log, found.digest))
        for place in found.erased:
            scope = scope_words(place.labels, None)
            put_line(f"erased: position {place.position:,}{scope}, {place.token}")
    return 0 if found.verified else NEGATIVE


def _agreement(source: str, digest: str | None, sealed: str) -> str:
    if digest is None:
        return f"{source}: not compared, since it does not have the period as it was sealed"
    return f"{source}: agrees" if digest == sealed else f"{source}: DIFFERS, {digest}"
