"""The commands `hide`, `show` and `hidden`: hiding members of a board."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels
from laurels.core.hiding import HiddenMember
from laurels.timeline.zones import zone

from .errors import Usage
from .options import DEFAULT_URL, AsJson, Url
from .show import put_json, put_line, put_table
from .texts import Side, escaped
from .times import time_reader

NOT_HIDDEN = 1
_PAGE = 1_000
_COLUMNS: list[tuple[str, Side]] = [
    ("member", "left"),
    ("since", "left"),
    ("until", "left"),
    ("where", "left"),
    ("reason", "left"),
]

_Named = Annotated[
    list[str],
    typer.Argument(
        metavar="[BOARD] MEMBER", help="The board and the member's id; with --all only the member."
    ),
]
_OnAll = Annotated[bool, typer.Option("--all", help="On all boards, those created later included.")]


def hide(
    named: _Named,
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, for `hidden` and the audit log.")
    ],
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Show the member again at this time, such as 2026-12-01T12:00Z.",
        ),
    ] = None,
    on_all: _OnAll = False,
    at: Url = DEFAULT_URL,
) -> int:
    """Hide a member: it is still counted, but it is in no ranking until it is shown again.

    If the member is hidden already, the reason and the time are replaced.

    \b
    Examples:
      laurels hide gifts mallory --reason "scripted gifts"
      laurels hide gifts mallory --reason "under review" --until 2026-12-01
      laurels hide mallory --all --reason "banned"
    """
    board, member = _board_and_member(named, on_all=on_all)
    until_ms = None if until is None else time_reader("iso", zone("UTC"))(until)
    with laurels.open(at, create=False) as lb:
        lb.hide(board, member, reason, until_ms)
    put_line(f"{escaped(member)} is hidden on {_where(board)}{_until_words(until_ms)}")
    return 0


def show(named: _Named, on_all: _OnAll = False, at: Url = DEFAULT_URL) -> int:
    """Show a hidden member again, with everything that was counted meanwhile.

    Exits with 1 if the member was not hidden. With --all this removes the hiding on all boards; a
    hiding on a single board stays.

    \b
    Examples:
      laurels show gifts mallory
      laurels show mallory --all
    """
    board, member = _board_and_member(named, on_all=on_all)
    with laurels.open(at, create=False) as lb:
        was_hidden = lb.show(board, member)
    state = "is shown again" if was_hidden else "was not hidden"
    put_line(f"{escaped(member)} {state} on {_where(board)}")
    return 0 if was_hidden else NOT_HIDDEN


def hidden(
    board: Annotated[
        str | None,
        typer.Argument(metavar="BOARD", help="Default: the members hidden on all boards."),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """List the hidden members of a board, with the reason and the time of each.

    \b
    Examples:
      laurels hidden gifts
      laurels hidden
    """
    with laurels.open(at, create=False) as lb:
        members = list(_members(lb, board))
    if json:
        put_json(members)
    else:
        put_table(_COLUMNS, map(_row, members))
    return 0


def _board_and_member(named: list[str], *, on_all: bool) -> tuple[str | None, str]:
    """Return the board (None for all boards) and the member. Raises Usage for another number of
    arguments."""
    if len(named) != 2 - on_all:
        expected = "a member" if on_all else "a board and a member"
        raise Usage(f"expected {expected}, got {len(named)} arguments")
    return (None if on_all else named[0]), named[-1]


def _where(board: str | None) -> str:
    return "all boards" if board is None else board


def _members(lb: laurels.Leaderboards, board: str | None) -> Iterator[HiddenMember]:
    after: str | None = None
    while page := lb.hidden(board, after=after, limit=_PAGE):
        yield from page
        after = page[-1].member


def _row(hidden: HiddenMember) -> list[str]:
    until = "" if hidden.until_ms is None else _time(hidden.until_ms)
    where = "all boards" if hidden.everywhere else ""
    return [hidden.member, _time(hidden.since_ms), until, where, hidden.reason]


def _until_words(until_ms: int | None) -> str:
    return "" if until_ms is None else f" until {_time(until_ms)}"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
