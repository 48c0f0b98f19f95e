"""The grids of a report on a terminal and in Markdown.

`python -m bench.tables FILE` prints the Markdown of a report written earlier, as it stands in
docs/benchmarks.md.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.report import Grid, Measured, grids
from bench.timing import Sample

_LEAST_WIDTH = 132


def print_tables(samples: Sequence[Sample]) -> None:
    """Print every grid, on paper wide enough where it is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_LEAST_WIDTH)
    for grid in grids(samples):
        console.print(_table(grid))


def markdown(report: Measured) -> str:
    """The machine and every grid, ratios in bold."""
    parts = [f"Measured {report.started} on {report.line()}."]
    return "\n\n".join(parts + [_markdown_table(grid) for grid in grids(report.samples)]) + "\n"


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("settings")
    for case in grid.cases:
        table.add_column(case, justify="right")
    for row in grid.figures:
        table.add_row(*row)
    table.add_section()
    for row in grid.ratios:
        table.add_row(*row, style="bold")
    return table


def _markdown_table(grid: Grid) -> str:
    rows = [["", "settings", *grid.cases], ["---", "---", *("---:" for _ in grid.cases)]]
    rows += [[cell.replace("\n", "<br>") for cell in row] for row in grid.figures]
    rows += [[f"**{cell}**" if cell else "" for cell in row] for row in grid.ratios]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"### {grid.title}", "", *lines])


if __name__ == "__main__":
    read = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Measured)
    sys.stdout.write(markdown(read))
