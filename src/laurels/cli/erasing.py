"""The command `erase`: erasing a person from all boards."""

from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels

from .options import DEFAULT_URL, AsJson, Url
from .show import put_json, put_line, put_table
from .texts import Side, escaped

_COLUMNS: list[tuple[str, Side]] = [
    ("still named in", "left"),
    ("until", "left"),
    ("boards or sinks", "left"),
]


def erase(
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="The member's id.")],
    reason: Annotated[str, typer.Option("--reason", help="The reason, for the audit log.")],
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Erase a person who asks for it: remove a member from every board, and put a random token in
    its place in the archive, in payouts and in the audit log.

    This cannot be undone. The ranks in sealed periods do not change, and these periods still
    verify. The command lists what may still name the member, such as backups. If it is interrupted,
    repeat it.

    \b
    Examples:
      laurels erase alice --reason "asked for it on 2026-11-20"
    """
    with laurels.open(at, create=False) as lb:
        erasure = lb.erase(member, reason)
    if json:
        put_json(erasure)
        return 0
    put_line(
        f"{escaped(member)} is erased from {erasure.boards} boards; {erasure.periods} sealed "
        f"periods and {erasure.payouts} payouts name {erasure.token} now"
    )
    put_table(_COLUMNS, map(_row, erasure.remains))
    return 0


def _row(remaining: laurels.Remaining) -> list[str]:
    until = remaining.until
    if remaining.until_ms is not None:
        time = datetime.fromtimestamp(remaining.until_ms // 1_000, UTC)
        until = f"{time:%Y-%m-%dT%H:%M:%SZ}: {until}"
    return [remaining.place, until, ", ".join(remaining.names)]
