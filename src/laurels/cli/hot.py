"""`hot`: shows which boards and members a service is asked for most."""

from collections.abc import Iterator

import laurels
from laurels import config

from .errors import Usage
from .options import DEFAULT_URL, AsJson, Url
from .show import put_json, put_table
from .texts import Side

_COLUMNS: list[tuple[str, Side]] = [("board", "left"), ("member", "left"), ("queries", "right")]


def hot(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Show the boards and members that a server is asked for most.

    Each had at least 50 queries, and 0.5 % of all queries, within ten seconds. The server process
    that answers counts only its own queries, in the current ten seconds and the ten before. A key
    limited to some boards sees only these boards and their members.

    \b
    Examples:
      laurels hot --at http://localhost:8080
      laurels hot --at http://localhost:8080 --json
    """
    if not config.is_remote(at):
        raise Usage("only a server counts queries: give --at http://...")
    with laurels.open(at) as lb:
        report = lb.hot()
    if json:
        put_json(report)
    else:
        put_table(_COLUMNS, _rows(report), foot=f"queries of the last {report.seconds:.0f} s")
    return 0


def _rows(report: laurels.HotReport) -> Iterator[list[str]]:
    for board in report.boards:
        yield [board.board, "", f"{board.count:,}"]
    for member in report.members:
        yield [member.board, member.member, f"{member.count:,}"]
