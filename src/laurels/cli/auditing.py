"""`audit`: shows the audit log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import msgspec
import typer

import laurels
from laurels import config
from laurels.wire.audit_entry import AuditEntry
from laurels.wire.audit_page import MAX_PAGE, AuditPage, about, page_of

from .options import DEFAULT_URL, READING, AsJson, Url
from .show import put_json, put_table
from .texts import Side

_COLUMNS: list[tuple[str, Side]] = [
    ("time", "left"),
    ("who", "left"),
    ("what", "left"),
    ("board or key", "left"),
    ("why", "left"),
    ("arguments", "left"),
]
_MAX_ARGUMENTS = 80
"The maximum number of characters of a call's arguments in the table. JSON output contains them "
"all."


def audit(
    board: Annotated[
        str | None, typer.Argument(metavar="BOARD", help="Show only calls about this board.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            help="Number of entries, newest first.",
            rich_help_panel=READING,
        ),
    ] = 50,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Show the audit log: administrative calls with caller, time and reason.

    The log has the calls that define, copy or mend boards, manage keys, maintain the store, and set
    or remove scores. A server requires a key with the scope admin. A key limited to some boards
    sees only the calls about these boards.

    \b
    Examples:
      laurels audit
      laurels audit gifts --limit 10 --at http://localhost:8080
      laurels audit --at redis://localhost:6379/0 --json
    """
    entries = _entries(at, board, limit)
    if json:
        put_json(entries)
    else:
        put_table(_COLUMNS, map(_row, entries))
    return 0


def _entries(url: str, board: str | None, limit: int) -> list[AuditEntry]:
    with _pages_of(url, board) as page_after:
        page, entries = AuditPage([], None), list[AuditEntry]()
        while True:
            page = page_after(page.next, min(limit - len(entries), MAX_PAGE))
            entries += page.entries
            if page.next is None or len(entries) >= limit:
                return entries


@contextmanager
def _pages_of(url: str, board: str | None) -> Iterator[Callable[[str | None, int], AuditPage]]:
    """Open an audit log, and yield a function that reads a page of it. A folder is not locked, so
    another process may be serving it."""
    if config.is_remote(url):
        with laurels.open(url) as lb:
            yield lambda before, limit: lb.audit(board, before=before, limit=limit)
    else:
        with config.audit_log_of(url) as log:
            yield partial(page_of, log, about(board))


def _row(entry: AuditEntry) -> list[str]:
    when = datetime.fromtimestamp(entry.at_ms // 1_000, UTC)
    return [
        f"{when:%Y-%m-%dT%H:%M:%SZ}",
        entry.by,
        entry.verb if entry.status < 400 else f"{entry.verb} (failed: {entry.status})",
        entry.board or entry.target or "",
        entry.reason or "",
        _shortened("" if entry.request is None else msgspec.json.encode(entry.request).decode()),
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ARGUMENTS else f"{text[: _MAX_ARGUMENTS - 1]}…"
