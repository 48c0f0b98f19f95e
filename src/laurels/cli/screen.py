"""The screen of `watch`: a table of a board, drawn in place of the previous one."""

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

import laurels
from laurels.cli.boards.scoping import scope_words

from .ranking import Ranking
from .tables import table_of
from .texts import Side, harmless, numbers

_REFRESHES = 10
"""Refreshes of the screen per second."""


class screen:  # noqa: N801 (it is used as a function)
    """A context manager that yields a function, which draws a picture in place of the previous one,
    or below it if standard output is not a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=_REFRESHES)

    def __enter__(self) -> Callable[[RenderableType], None]:
        if not self._console.is_terminal:
            return self._console.print
        self._live.start()
        return self._live.update

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def picture(board: laurels.Board, ranking: Ranking) -> RenderableType:
    """Return a ranking as a table, in which members whose rank has changed are marked."""
    as_of = ranking.as_of
    subject = as_of.by if as_of is not None and as_of.by is not None else "member"
    columns: list[tuple[str, Side]] = [("rank", "right"), ("", "left"), (subject, "left")]
    columns += [(column.name, "right") for column in board.columns]
    rows = [
        [str(entry.rank), ranking.mark(entry.member), entry.member, *numbers(entry.score)]
        for entry in ranking.entries
    ]
    table = table_of(columns, rows)
    title = board.title or board.name
    if as_of is not None:
        title = f"{title}, {as_of.window}{f' {as_of.period}' if as_of.period else ''}"
        title += scope_words(as_of.labels, as_of.by)
    return Group(
        Text(harmless(title), style="bold"), table, Text(f"{ranking.total:,} members", style="dim")
    )
