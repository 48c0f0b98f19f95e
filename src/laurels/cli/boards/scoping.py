"""The options that select scopes, and the command `scopes`, which lists them."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

import laurels
from laurels.cli.errors import Usage
from laurels.cli.options import DEFAULT_URL, READING, AsJson, BoardName, Url
from laurels.cli.show import put_json, put_line, put_table

LABELS = "Labels"
"""The help panel of scopes and labels."""

Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        help="Count only events with this label, such as room=42. May be repeated.",
        rich_help_panel=READING,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="LABEL",
        help="Rank the values of a label instead of members.",
        rich_help_panel=READING,
    ),
]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="LABELS",
        help='Also count events by these labels, such as room or zone,gender; "" is the scope of '
        "all events. May be repeated; receipts show the first scope.",
        rich_help_panel=LABELS,
    ),
]
RankBy = Annotated[
    list[str] | None,
    typer.Option(
        "--rank-by",
        metavar="LABEL",
        help="Also rank the values of this label. May be repeated.",
        rich_help_panel=LABELS,
    ),
]


def parse_labels(texts: Sequence[str] | None, option: str = "--label") -> dict[str, str]:
    """Parse labels from NAME=VALUE. Raises Usage."""
    labels: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise Usage(f"expected NAME=VALUE for {option}, got {text!r}")
        if name in labels:
            raise Usage(f"expected each name once for {option}, got {name} twice")
        labels[name] = value
    return labels


def parse_scope(text: str) -> list[str]:
    """Return the label names in a text such as `zone,gender`."""
    return text.split(",") if text else []


def with_scopes(
    board: laurels.Board, scopes: Sequence[str] | None, rank_by: Sequence[str] | None
) -> dict[str, Any]:
    """Return the arguments for `change` that add scopes and labels to rank by to a board."""
    changes: dict[str, Any] = {}
    if scopes:
        changes["scopes"] = [*board.scopes, *map(parse_scope, scopes)]
    if rank_by:
        changes["rank_by"] = [*board.rank_by, *rank_by]
    return changes


def scope_words(labels: Mapping[str, str] | None, by: str | None) -> str:
    """Return the text for a scope in a title, such as `, room=42`; empty for the scope of all
    events."""
    if by is not None:
        return f", by {by}"
    return "".join([f", {name}={value}" for name, value in sorted((labels or {}).items())])


def scopes_text(board: laurels.Board) -> str:
    """Return the scopes of a board and the labels that it ranks by, as text: `room; gender, zone;
    by room`."""
    forms = [form_text(",".join(labels)) for labels in board.scopes]
    return "; ".join([*forms, *[f"by {label}" for label in board.rank_by]])


def form_text(form: str) -> str:
    """Return the label names of a scope as text for people: `gender, zone` for `gender,zone`, and
    `all` if there are none."""
    return form.replace(",", ", ") or "all"


def scopes(
    board: BoardName,
    labels: Annotated[
        list[str], typer.Argument(metavar="LABEL...", help="The labels of the scopes.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of scopes.", rich_help_panel=READING)
    ] = 100,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="NAME=VALUE",
            help="Continue after this scope.",
            rich_help_panel=READING,
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """List the scopes of the given labels, sorted by label value. Scopes without members are left
    out.

    \b
    Examples:
      laurels scopes gifts room
      laurels scopes gifts room --limit 1000 --after room=42
      laurels scopes gifts zone gender --json
    """
    start = parse_labels(after, "--after") or None
    with laurels.open(at, create=False) as lb:
        page = lb.scopes(board, *labels, after=start, limit=limit)
    if json:
        put_json(page)
        return 0
    names = sorted(labels)
    put_table([(name, "left") for name in names], [[each[name] for name in names] for each in page])
    if page and len(page) == limit:
        put_line(f"next page: {_after(page[-1].items())}")
    return 0


def _after(labels: Iterable[tuple[str, str]]) -> str:
    return " ".join([f"--after {name}={shlex.quote(value)}" for name, value in sorted(labels)])
