"""Tables as text: as wide as the terminal, or as wide as their content if there is none."""

from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .texts import Side, escaped, harmless

_UNBOUNDED = 100_000
"""The width of a table that is not printed on a terminal, so that no line is wrapped."""


def table_of(
    columns: Sequence[tuple[str, Side]], rows: Iterable[Sequence[str]], *, headed: bool = True
) -> Table:
    """Return a table. Cells are plain text, and are escaped here."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=headed)
    for heading, side in columns:
        table.add_column(Text(heading), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*[Text(escaped(cell)) for cell in row])
    return table


def lines_of(
    columns: Sequence[tuple[str, Side]],
    rows: Iterable[Sequence[str]],
    *,
    title: str,
    foot: str,
    headed: bool,
) -> Iterator[str]:
    """Yield the lines of a table, below a title and above a foot."""
    table = table_of(columns, rows, headed=headed)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_UNBOUNDED)
    with console.capture() as captured:
        if title:
            console.print(Text(harmless(title), style="bold"))
        console.print(table)
        if foot:
            console.print(Text(harmless(foot), style="dim"))
    for line in captured.get().splitlines():
        yield line.rstrip()
