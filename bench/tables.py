"""The tables of a report on a terminal and in Markdown.

`python -m bench.tables FILE` prints the tables of an existing report in Markdown, as in
docs/benchmarks/. `python -m bench.tables FILE docs/benchmarks.md` writes the report's targets into
that page.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.outcome import Outcome
from bench.report import TARGET_HEADINGS, Grid, Measured, grids, target_row

_LEAST_WIDTH = 132
_PLACE = re.compile(r"(?<=docs/benchmarks.md -->\n).*?(?=<!-- end of targets -->)", re.DOTALL)


def print_tables(report: Measured) -> None:
    """Print every table and finally the targets. If the output is not a terminal, it gets a fixed
    width that is wide enough."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_LEAST_WIDTH)
    for grid in grids(report.samples):
        console.print(_table(grid))
    if report.outcomes:
        console.print(_targets_table(report.outcomes))


def markdown(report: Measured) -> str:
    """Return the machine, the targets and every table in Markdown, with ratios in bold."""
    parts = [f"Measured {report.started} on {report.line()}."]
    if report.outcomes:
        parts.append(f"### Targets\n\n{_target_lines(report.outcomes)}")
    return "\n\n".join(parts + [_markdown_table(grid) for grid in grids(report.samples)]) + "\n"


def _targets_table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="Targets", title_justify="left", title_style="bold")
    for heading in TARGET_HEADINGS:
        table.add_column(heading)
    for outcome in outcomes:
        table.add_row(*target_row(outcome), style="" if outcome.reached else "bold")
    return table


def _target_lines(outcomes: Sequence[Outcome]) -> str:
    rows = [list(TARGET_HEADINGS), ["---", "---:", "---:", "---", "---"]]
    rows += map(target_row, outcomes)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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


def with_targets(page: str, report: Measured) -> str:
    """Return a page in which the targets of a report replace those between the markers. Raise
    ValueError if the page has no markers."""
    written, count = _PLACE.subn(lambda _: _targets(report), page)
    if count != 1:
        raise ValueError("the page has no markers for the targets")
    return written


def _targets(report: Measured) -> str:
    return f"Measured {report.started} on {report.line()}.\n\n{_target_lines(report.outcomes)}\n"


def main(file: Path, page: Path | None = None) -> None:
    report = msgspec.json.decode(file.read_bytes(), type=Measured)
    if page is None:
        sys.stdout.write(markdown(report))
    else:
        page.write_text(with_targets(page.read_text(), report))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
