"""The options of `board create` and `board change` that define a board."""

from typing import Annotated, Any

import typer

from laurels import Board
from laurels.cli.errors import Usage
from laurels.cli.option_groups import OptionGroup

from .definitions import column_of, definition_in, windows_with
from .scoping import LABELS, RankBy, Scopes, parse_scope, with_scopes

DEFINITION = "Definition"
RANKING = "Ranking"
WINDOWS = "Windows"
EVENT_IDS = "Event ids"

Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="WINDOW",
        help="all, hour, day, week, month, quarter or year; rolling:7d/1h, the last 7 days in "
        "steps of an hour; decay:6h, scores that decay by half in 6 hours. Options follow: "
        "month:keep=12,tz=Asia/Shanghai,grace=1h or rolling:30d/1d,refresh=1h; a name precedes: "
        "today=day. May be repeated.",
        rich_help_panel=WINDOWS,
    ),
]
Title = Annotated[
    str | None,
    typer.Option("--title", help="The title that people see.", rich_help_panel=DEFINITION),
]
Keep = Annotated[
    int | None,
    typer.Option(
        "--keep",
        metavar="N",
        help="Number of periods that can be read, including the current one.",
        rich_help_panel=WINDOWS,
    ),
]
Changes = Annotated[
    str | None,
    typer.Option(
        "--changes",
        metavar="TIME",
        help="How long changes are kept, such as 7d; '' to keep none.",
        rich_help_panel=DEFINITION,
    ),
]
Head = Annotated[
    int | None,
    typer.Option(
        "--head",
        metavar="N",
        help="List only the first N positions; ranks below may be estimates. 0 lists all.",
        rich_help_panel=RANKING,
    ),
]

HideZero = Annotated[
    bool | None,
    typer.Option(
        "--hide-zero/--rank-zero",
        help="Leave members out of the ranking while their score is 0; or rank them.",
        show_default=False,
        rich_help_panel=RANKING,
    ),
]

CloseWait = Annotated[
    str | None,
    typer.Option(
        "--close-wait",
        metavar="TIME",
        help="How long the end of a period waits for sources that lag.",
        rich_help_panel=WINDOWS,
    ),
]

Starts = Annotated[
    str | None,
    typer.Option(
        "--starts",
        metavar="TIME",
        help="When the board begins to count events, such as 2026-12-01 (in the zone of --tz) or "
        "2026-12-01T20:00+08:00; '' for no limit.",
        rich_help_panel=DEFINITION,
    ),
]
Ends = Annotated[
    str | None,
    typer.Option(
        "--ends",
        metavar="TIME",
        help="When the board ends: later events are refused, and the standings stay; '' for never.",
        rich_help_panel=DEFINITION,
    ),
]
Retain = Annotated[
    str | None,
    typer.Option(
        "--retain",
        metavar="DURATION",
        help="How long after its end the board and its data are removed; '' for never.",
        rich_help_panel=DEFINITION,
    ),
]
MaxAge = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="DURATION",
        help="How long a process may repeat an answer of an index server; 0s asks every time.",
        rich_help_panel=DEFINITION,
    ),
]
LedgerName = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="NAME",
        help="The ledger that has the archive of the board on an index server; '' for none.",
        rich_help_panel=DEFINITION,
    ),
]


class DefinitionOptions(OptionGroup, frozen=True):
    """The definition of a new board, from `--file` and from the other options, which take
    precedence."""

    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="COLUMN",
            help="score, or with options score:op=sum|last|best,order=desc|asc,scale=2,min=0,"
            "max=100, or a weighted sum: hot:scale=1,measure=like*1,measure=gift*0.2. May be "
            "repeated, up to four.",
            rich_help_panel=RANKING,
        ),
    ] = None
    window: Windows = None
    title: Title = None
    tie: Annotated[
        str | None,
        typer.Option(
            "--tie",
            metavar="first|last|member",
            help="The order of equal scores: the first reached or the last reached ranks higher, "
            "or they are ordered by member id.",
            rich_help_panel=RANKING,
        ),
    ] = None
    tie_resolution: Annotated[
        str | None,
        typer.Option(
            "--tie-resolution",
            metavar="TIME",
            help="The resolution of the times that decide ties, such as 1ms or 1s.",
            rich_help_panel=RANKING,
        ),
    ] = None
    rank: Annotated[
        str | None,
        typer.Option(
            "--rank",
            metavar="ordinal|competition|dense",
            help="How equal scores are numbered: 1234, 1224 or 1223.",
            rich_help_panel=RANKING,
        ),
    ] = None
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="The IANA name of the time zone. Default: UTC.",
            rich_help_panel=WINDOWS,
        ),
    ] = None
    week_start: Annotated[
        str | None,
        typer.Option(
            "--week-start",
            metavar="DAY",
            help="The first day of a week. Default: monday.",
            rich_help_panel=WINDOWS,
        ),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="TIME",
            help="How long after the end of a period its events are counted. Default: 5m.",
            rich_help_panel=WINDOWS,
        ),
    ] = None
    dedupe: Annotated[
        str | None,
        typer.Option(
            "--dedupe",
            metavar="TIME",
            help="How long ids are remembered. Default: 1h, or the longest grace if that is "
            "longer.",
            rich_help_panel=EVENT_IDS,
        ),
    ] = None
    dedupe_max: Annotated[
        int | None,
        typer.Option(
            "--dedupe-max",
            metavar="N",
            help="Maximum number of remembered ids.",
            rich_help_panel=EVENT_IDS,
        ),
    ] = None
    keep: Keep = None
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="N",
            help="The number of shards on an index server.",
            rich_help_panel=DEFINITION,
        ),
    ] = None
    scope: Scopes = None
    rank_by: RankBy = None
    ignore_labels: Annotated[
        bool,
        typer.Option(
            "--ignore-labels",
            help="Accept events with labels that the board does not have, and ignore those labels.",
            rich_help_panel=LABELS,
        ),
    ] = False
    changes: Changes = None
    close_wait: CloseWait = None
    starts: Starts = None
    ends: Ends = None
    retain: Retain = None
    max_age: MaxAge = None
    ledger: LedgerName = None
    head: Head = None
    hide_zero: HideZero = None
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="A definition as JSON; - reads it from stdin.",
            rich_help_panel=DEFINITION,
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the fields that the user gave, as `Board.from_json` accepts them. Raises Usage."""
        columns, scopes = self.column, self.scope
        options = {
            "columns": None if columns is None else [column_of(text) for text in columns],
            "windows": self.window,
            "title": self.title,
            "tie": self.tie,
            "tie_resolution": self.tie_resolution,
            "rank": self.rank,
            "tz": self.tz,
            "week_start": self.week_start,
            "grace": self.grace,
            "dedupe": self.dedupe,
            "dedupe_max": self.dedupe_max,
            "keep": self.keep,
            "shards": self.shards,
            "scopes": None if scopes is None else [parse_scope(text) for text in scopes],
            "rank_by": self.rank_by,
            "labels": "ignore" if self.ignore_labels else None,
            "changes": self.changes,
            "close_wait": self.close_wait,
            "starts": self.starts,
            "ends": self.ends,
            "retain": self.retain,
            "max_age": self.max_age,
            "ledger": self.ledger,
            "head": self.head,
            "hide_zero": self.hide_zero,
        }
        in_file = {} if self.file is None else definition_in(self.file)
        return dict(in_file) | {
            field: value for field, value in options.items() if value is not None
        }


class ChangeOptions(OptionGroup, frozen=True):
    """The settings of an existing board that `board change` can change."""

    title: Title = None
    keep: Keep = None
    window: Windows = None
    scope: Scopes = None
    rank_by: RankBy = None
    changes: Changes = None
    close_wait: CloseWait = None
    starts: Starts = None
    ends: Ends = None
    retain: Retain = None
    max_age: MaxAge = None
    ledger: LedgerName = None
    head: Head = None
    hide_zero: HideZero = None

    def fields(self, board: Board) -> dict[str, Any]:
        """Return the fields of `board` to change, as keyword arguments of `change`. Raises Usage.

        Windows, scopes and labels are added to those of `board`.
        """
        options = {
            "title": self.title,
            "keep": self.keep,
            "changes": self.changes,
            "close_wait": self.close_wait,
            "starts": self.starts,
            "ends": self.ends,
            "retain": self.retain,
            "max_age": self.max_age,
            "ledger": self.ledger,
            "head": self.head,
            "hide_zero": self.hide_zero,
        }
        fields: dict[str, Any] = {
            field: value for field, value in options.items() if value is not None
        }
        if self.window:
            fields["windows"] = windows_with(board.windows, self.window)
        if self.scope or self.rank_by:
            fields |= with_scopes(board, self.scope, self.rank_by)
        if not fields:
            raise Usage(
                "expected something to change: --title, --keep, --changes, --close-wait, --starts, "
                "--ends, --retain, --max-age, --ledger, --head, --hide-zero, --rank-zero, "
                "--window, --scope or --rank-by"
            )
        return fields
