"""The commands `hide`, `show` and `hidden`: hiding members of a board."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels
from laurels.core.hiding import HiddenMember
from laurels.timeline.zones import zone

from .options import DEFAULT_URL, AsJson, BoardName, Url
from .show import Side, escaped, put_json, put_line, put_table
from .times import time_reader

NOT_HIDDEN = 1
_PAGE = 1_000
_COLUMNS: list[tuple[str, Side]] = [
    ("member", "left"),
    ("since", "left"),
    ("until", "left"),
    ("reason", "left"),
]

_Member = Annotated[str, typer.Argument(metavar="MEMBER", help="The member's id.")]


def hide(
    board: BoardName,
    member: _Member,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; it is listed, and is in the audit log.")
    ],
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Show the member again at this time, such as 2026-12-01T12:00Z.",
        ),
    ] = None,
    at: Url = DEFAULT_URL,
) -> int:
    """Hide a member: it is still counted, but it is in no ranking until it is shown again.

    If the member is hidden already, the reason and the time are replaced.

    \b
    Examples:
      laurels hide gifts mallory --reason "scripted gifts"
      laurels hide gifts mallory --reason "under review" --until 2026-12-01
    """
    until_ms = None if until is None else time_reader("iso", zone("UTC"))(until)
    with laurels.open(at, create=False) as lb:
        lb.hide(board, member, reason, until_ms)
    put_line(f"{escaped(member)} is hidden on {board}{_until_words(until_ms)}")
    return 0


def show(board: BoardName, member: _Member, at: Url = DEFAULT_URL) -> int:
    """Show a hidden member again, with everything that was counted meanwhile.

    Exits with 1 if the member was not hidden.

    \b
    Examples:
      laurels show gifts mallory
    """
    with laurels.open(at, create=False) as lb:
        was_hidden = lb.show(board, member)
    state = "is shown again" if was_hidden else "was not hidden"
    put_line(f"{escaped(member)} {state} on {board}")
    return 0 if was_hidden else NOT_HIDDEN


def hidden(board: BoardName, at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """List the hidden members of a board, with the reason and the time of each.

    \b
    Examples:
      laurels hidden gifts
    """
    with laurels.open(at, create=False) as lb:
        members = list(_members(lb, board))
    if json:
        put_json(members)
    else:
        put_table(_COLUMNS, map(_row, members))
    return 0


def _members(lb: laurels.Leaderboards, board: str) -> Iterator[HiddenMember]:
    after: str | None = None
    while page := lb.hidden(board, after=after, limit=_PAGE):
        yield from page
        after = page[-1].member


def _row(hidden: HiddenMember) -> list[str]:
    until = "" if hidden.until_ms is None else _time(hidden.until_ms)
    return [hidden.member, _time(hidden.since_ms), until, hidden.reason]


def _until_words(until_ms: int | None) -> str:
    return "" if until_ms is None else f" until {_time(until_ms)}"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
