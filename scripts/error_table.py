"""Writes docs/errors.md from the classes in laurels.errors.

python scripts/error_table.py
"""

from pathlib import Path

import laurels.cli.errors
import laurels.errors.client
import laurels.errors.copies
import laurels.errors.index_server
import laurels.errors.ledger
import laurels.errors.payouts
import laurels.errors.placement
import laurels.errors.service
import laurels.errors.sinks
import laurels.errors.sources
import laurels.wire.problems
import laurels.wire.requests  # noqa: F401 (imported to register their error codes)
from laurels.errors import ErrorRow, by_code, table

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

SERVICE = (
    "laurels.errors.service",
    "laurels.errors.placement",
    "laurels.errors.client",
    "laurels.wire.",
)
_HEAD = """\
# Error codes

Every error is a `laurels.LaurelsError` with a stable `code`. A program decides by the code, by
the class in `laurels.errors` or by `retryable`; a person reads `str(error)`, which says what
happened and what to do. An event of a batch that is refused is no error: its receipt carries the
code as its `reason`.

This page is made by `scripts/error_table.py`; the status is the HTTP status a code maps to.
"""
_COLUMNS = """\
| code | class | status | retry | meaning | what to do |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return docs/errors.md as Markdown."""
    rows = table()
    shell = [row for row in rows if _module(row).startswith("laurels.cli.")]
    service = [row for row in rows if _module(row).startswith(SERVICE)]
    server = [row for row in rows if _module(row) == "laurels.errors.index_server"]
    copies = [row for row in rows if _module(row) == "laurels.errors.copies"]
    ledger = [row for row in rows if _module(row) == "laurels.errors.ledger"]
    payouts = [row for row in rows if _module(row) == "laurels.errors.payouts"]
    sinks = [row for row in rows if _module(row) == "laurels.errors.sinks"]
    sources = [row for row in rows if _module(row) == "laurels.errors.sources"]
    library = [row for row in rows if _module(row) == "laurels.errors"]
    return (
        f"{_HEAD}\n{_lines(library)}\n## Of the service and its client alone\n\n{_lines(service)}"
        f"\n## Of an index server alone\n\n{_lines(server)}"
        f"\n## Of imports and sources alone\n\n{_lines(sources)}"
        f"\n## Of sinks alone\n\n{_lines(sinks)}"
        f"\n## Of entries and ledgers alone\n\n{_lines(ledger)}"
        f"\n## Of payouts alone\n\n{_lines(payouts)}"
        f"\n## Of copies alone\n\n{_lines(copies)}"
        f"\n## Of the command line alone\n\n{_lines(shell)}"
    )


def _module(row: ErrorRow) -> str:
    return by_code(row.code).__module__


def _lines(rows: list[ErrorRow]) -> str:
    return _COLUMNS + "".join(_line(row) + "\n" for row in rows)


def _line(row: ErrorRow) -> str:
    retry = "yes" if row.retryable else ""
    advice = row.advice[0].upper() + row.advice[1:] + "."
    cells = (f"`{row.code}`", f"`{row.name}`", str(row.status), retry, row.meaning, advice)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
