"""`payouts`, `confirm`, `disqualify` and `story`: the payouts for sealed periods, and the history
of a period."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels
from laurels.cli.boards.scoping import parse_labels, scope_words
from laurels.core.archived import SealedInfo
from laurels.core.payouts import STATES, PayoutState
from laurels.errors.service import Forbidden
from laurels.wire.audit_entry import AuditEntry

from .errors import Usage
from .options import (
    DEFAULT_URL,
    READING,
    AsJson,
    BoardName,
    MemberName,
    PageCursor,
    SealedLabel,
    Url,
    WindowName,
)
from .settling import amount_text
from .show import put_json, put_line, put_table
from .texts import Side, escaped

_COLUMNS: list[tuple[str, Side]] = [
    ("period", "left"),
    ("scope", "left"),
    ("member", "left"),
    ("prize", "left"),
    ("amount", "right"),
    ("state", "left"),
    ("due", "left"),
    ("reference", "left"),
    ("id", "left"),
]
PAGE = 1_000
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="pending, due, confirmed or superseded.",
        rich_help_panel=READING,
    ),
]


def payouts(
    board: BoardName,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="NAME",
            help="Only of this window. Default: of all windows.",
            rich_help_panel=READING,
        ),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="LABEL",
            help="Only of this period, such as 2026-11. Default: of all periods.",
            rich_help_panel=READING,
        ),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option("--member", metavar="MEMBER", help="Of one member.", rich_help_panel=READING),
    ] = None,
    state: StateOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of payouts.", rich_help_panel=READING)
    ] = 100,
    after: PageCursor = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """List the payouts of a board: the prizes owed to members for sealed periods.

    \b
    Examples:
      laurels payouts gifts
      laurels payouts gifts --state due --json
      laurels payouts gifts --window month --period 2026-11
    """
    with laurels.open(at, create=False) as lb:
        page = lb.payouts(
            board,
            window=window,
            period=period,
            member=member,
            state=_state(state),
            limit=limit,
            after=after,
        )
    if json:
        put_json(page)
        return 0
    put_table(_COLUMNS, map(_cells, page), title=f"Payouts of {board}")
    if page.next is not None:
        put_line(f"next page: --after {page.next}")
    return 0


def confirm(
    board: BoardName,
    payout: Annotated[str, typer.Argument(metavar="PAYOUT", help="The payout's id.")],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="The reference of its payment.")
    ],
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Record that a payout was paid. Repeating the command changes nothing.

    \b
    Examples:
      laurels confirm gifts 9f2c/month/2026-11//alice/gold/0 bank-20261201-17
    """
    with laurels.open(at, create=False) as lb:
        confirmed = lb.confirm(board, payout, reference)
    if json:
        put_json(confirmed)
    else:
        amount = amount_text(confirmed.amount)
        is_returned = confirmed.withdrawn or (confirmed.amount or 0) < 0
        did = "returned" if is_returned else "received"
        put_line(
            f"{escaped(confirmed.member)} has {did} {escaped(confirmed.prize)}"
            f"{f' ({amount})' if amount else ''}: {escaped(reference)}"
        )
    return 0


def disqualify(
    board: BoardName,
    member: MemberName,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")],
    window: WindowName = None,
    period: SealedLabel = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="Only in the ranking of this label, such as room=42. May be repeated.",
            rich_help_panel=READING,
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Make a new revision of a sealed period, without a member.

    Payouts that change and are not due yet are superseded. For those that are due or confirmed the
    difference becomes a payout of its own. Without --label the member leaves the rankings of all
    scopes.

    \b
    Examples:
      laurels disqualify gifts mallory --window month --period 2026-11 --reason "a bot"
      laurels disqualify gifts mallory --period 2026-11 --label room=42 --reason "a bot"
    """
    labels = parse_labels(label) if label else None
    with laurels.open(at, create=False) as lb:
        revision = lb.disqualify(board, member, reason, window=window, period=period, labels=labels)
    if json:
        put_json(revision)
    else:
        called = " ".join(filter(None, (revision.window, revision.period)))
        put_line(
            f"{called} has revision {revision.revision} with {revision.entries:,} entries, "
            f"digest {revision.digest}"
        )
    return 0


def story(
    board: BoardName,
    window: WindowName = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="LABEL",
            help="A sealed period, such as 2026-11. Default: the newest.",
            rich_help_panel=READING,
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show what happened to a period after its end: when it was sealed, who corrected it and why,
    and what was paid.

    The names of the callers are shown only if the key may read the audit log.

    \b
    Examples:
      laurels story gifts --window month --period 2026-11
      laurels story gifts --window month --period 2026-11 --json
    """
    with laurels.open(at, create=False) as lb:
        default = next(iter(lb.get(board).rules().windows))
        window = window or default
        info = _period(lb, board, window, period)
        owed = list(_all_payouts(lb, board, window, info.period))
        windows = (window, None) if window == default else (window,)
        calls = _calls_about(lb, board, windows, info.period, {each.id for each in owed})
    if json:
        put_json({"period": info, "payouts": owed, "calls": calls})
        return 0
    put_line(f"{board}, {window} {info.period}: sealed {_time(info.sealed_ms)}")
    put_line(f"revision {info.revision}: {info.entries:,} entries, digest {info.digest}")
    for call in calls:
        put_line(_call_text(call))
    put_table(_COLUMNS, map(_cells, owed))
    return 0


def _period(lb: laurels.Leaderboards, board: str, window: str, period: str | None) -> SealedInfo:
    """Return a sealed period of a window, by default the newest one. Raises Usage."""
    offset = 0
    while page := lb.archived(board, window, limit=PAGE, offset=offset):
        for info in page:
            if period in (None, info.period):
                return info
        offset += len(page)
    raise Usage(f"expected a sealed period of the window {window}, got {period or 'none'}")


def _all_payouts(
    lb: laurels.Leaderboards, board: str, window: str, period: str
) -> Iterator[laurels.Payout]:
    """Yield all payouts of a period."""
    after: str | None = None
    while True:
        page = lb.payouts(board, window=window, period=period, after=after, limit=PAGE)
        yield from page
        if (after := page.next) is None:
            return


def _calls_about(
    lb: laurels.Leaderboards,
    board: str,
    windows: Collection[str | None],
    period: str,
    payouts: set[str],
) -> list[AuditEntry]:
    """Return the recorded calls that corrected a period or confirmed its payouts, oldest first;
    none if the key may not read the audit log. `windows` are all names by which calls may refer to
    the period's window."""
    calls: list[AuditEntry] = []
    before: str | None = None
    with suppress(Forbidden):
        while True:
            page = lb.audit(board, before=before, limit=PAGE)
            for entry in page:
                request = entry.request if isinstance(entry.request, dict) else {}
                corrects = request.get("period") == period and request.get("window") in windows
                pays = request.get("payout") in payouts
                if (entry.verb == "disqualify" and corrects) or (entry.verb == "confirm" and pays):
                    calls.append(entry)
            if (before := page.next) is None:
                break
    return calls[::-1]


def _call_text(call: AuditEntry) -> str:
    """Return a recorded call as one line."""
    request = call.request
    if call.verb == "confirm":
        what = f"{request['payout']} was paid: {request['reference']}"
    else:
        where = _corrected_scope(request.get("labels"))
        what = f"{request['member']} was disqualified{where}: {request['reason']}"
    return f"{_time(call.at_ms)} {what} (by {call.by})"


def _corrected_scope(labels: dict[str, str] | None) -> str:
    """Return the text for the scope of a correction; empty if all scopes were corrected."""
    if labels is None:
        return ""
    return f" in {scope_words(labels, None).removeprefix(', ') or 'the scope of all events'}"


def _cells(payout: laurels.Payout) -> list[str]:
    amount = "taken back" if payout.withdrawn else amount_text(payout.amount)
    return [
        " ".join(filter(None, (payout.window, payout.period))),
        scope_words(payout.labels, None).removeprefix(", "),
        payout.member,
        payout.prize,
        amount,
        payout.state,
        _time(payout.due_ms),
        payout.reference or "",
        payout.id,
    ]


def _state(text: str | None) -> PayoutState | None:
    """Parse a state of payouts. Raises Usage for any other text."""
    for state in STATES:
        if text == state:
            return state
    if text is None:
        return None
    raise Usage(f"expected one of {', '.join(STATES)} for --state, got {text!r}")


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
