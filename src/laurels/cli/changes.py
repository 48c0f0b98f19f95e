"""`changes`: prints the changes of a board, and with --follow waits for further ones."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

import typer

import laurels
from laurels.core.changes.answers import Change, ChangedRanking, ChangePage

from .options import DEFAULT_URL, READING, AsJson, BoardName, Url
from .show import json_bytes, put_bytes, put_line
from .texts import escaped, number, numbers

_KIND_WIDTH = 8


def changes(
    board: BoardName,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="CURSOR",
            help="Continue after a cursor; `now`: only future changes.",
            rich_help_panel=READING,
        ),
    ] = None,
    initial: Annotated[
        bool,
        typer.Option("--initial", help="Begin with every current entry.", rich_help_panel=READING),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            help="Exit after N changes.",
            rich_help_panel=READING,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Wait for further changes, until Ctrl-C.",
            rich_help_panel=READING,
        ),
    ] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show the changes of a board that keeps them, one on each line.

    With --json each change is a line of JSON, and the last line has the cursor to continue from,
    also after Ctrl-C.

    \b
    Examples:
      laurels changes gifts
      laurels changes gifts --follow --after now --at http://127.0.0.1:8080
      laurels changes gifts --json --limit 1000 > changes.jsonl
    """
    with laurels.open(at, create=False) as lb:
        _show(_pages(lb, board, after, limit, initial=initial, follow=follow), json=json)
    return 0


def _show(pages: Iterator[ChangePage], *, json: bool) -> None:
    """Print changes. In JSON, the last line has the cursor after the last printed page."""
    cursor = ""
    try:
        for page in pages:
            for change in page:
                if json:
                    put_bytes(json_bytes(change) + b"\n")
                else:
                    put_line(line_of(change))
            cursor = page.cursor
    except KeyboardInterrupt:
        if json and cursor:
            _put_cursor(cursor)
        raise
    if json:
        _put_cursor(cursor)


def _put_cursor(cursor: str) -> None:
    put_bytes(json_bytes({"cursor": cursor}) + b"\n")


def _pages(
    lb: laurels.Leaderboards,
    board: str,
    after: str | None,
    limit: int | None,
    *,
    initial: bool,
    follow: bool,
) -> Iterator[ChangePage]:
    """Yield pages up to the newest change or up to the limit; with `follow`, wait for more."""
    left = limit
    while left is None or left > 0:
        size = 1_000 if left is None else min(left, 1_000)
        if follow:
            pages = lb.watch_changes(board, after=after, limit=size, initial=initial)
            page = next(islice(pages, 1))
        else:
            page = lb.changes(board, after=after, limit=size, initial=initial)
        yield page
        after, initial = page.cursor, False
        left = None if left is None else left - len(page)
        if page.is_end or not (follow or page.more):
            return


def line_of(change: Change) -> str:
    """Return a change as one line: the time, the action, the member, the value and the result."""
    at = datetime.fromtimestamp(change.at_ms / 1_000, UTC)
    parts = [f"{at:%Y-%m-%dT%H:%M:%S}.{change.at_ms % 1_000:03}Z", f"{change.kind:{_KIND_WIDTH}}"]
    if change.member is not None:
        parts.append(escaped(change.member))
    if change.delta is not None:
        parts.append(", ".join(map(_signed, _parts(change.delta))))
    if change.score is not None:
        parts.append(f"= {', '.join(numbers(change.score))}")
    parts += [f"{name}={escaped(value)}" for name, value in sorted(change.labels.items())]
    if change.event_id is not None:
        parts.append(f"id={escaped(change.event_id)}")
    if change.kind == "initial":
        parts += [_ranking(ranking) for ranking in change.rankings]
    if change.data is not None and change.kind in ("data", "position", "hide", "initial"):
        parts.append(json_bytes(change.data).decode())
    return "  ".join(parts)


def _ranking(ranking: ChangedRanking) -> str:
    scope = ",".join(f"{name}={escaped(value)}" for name, value in (ranking.labels or {}).items())
    named = [part for part in (ranking.window, ranking.period, scope) if part]
    score = "" if ranking.score is None else ", ".join(numbers(ranking.score))
    return f"{' '.join(named)}: {score}"


def _parts(delta: Any) -> tuple[Any, ...]:
    return delta if isinstance(delta, tuple) else (delta,)


def _signed(part: Any) -> str:
    if part is None:
        return "-"
    return f"+{number(part)}" if part >= 0 else number(part)
