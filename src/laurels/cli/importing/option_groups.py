"""The options of `import`, in groups."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from laurels.cli.option_groups import OptionGroup
from laurels.cli.options import CONNECTION, DEFAULT_URL, Url

from .file_import import Format

FILE_FORMAT = "File format"
COLUMNS = "Columns"
TIME_ORDER = "Time order"
RESUMING = "Batches and rejects"
SORTED_SET = "Sorted set of Redis"

FROM_VARIABLE = "LAURELS_FROM"
"""The environment variable with the address of --from. It keeps a password out of the list of
processes."""


class FileOptions(OptionGroup, frozen=True):
    """The format of the files."""

    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="auto: JSON Lines if the first line begins with {, otherwise CSV.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = "auto"
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            help="Without a header, columns are numbered from 1.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = True
    delimiter: Annotated[
        str,
        typer.Option(
            "--delimiter",
            metavar="CHAR",
            help="The character between CSV fields; tab for a tab.",
            rich_help_panel=FILE_FORMAT,
        ),
    ] = ","


class ColumnOptions(OptionGroup, frozen=True):
    """The columns with the fields of an event, and how its times are read."""

    member: Annotated[
        str | None,
        typer.Option(
            "--member",
            metavar="COL",
            help="The column with the member's id. Default: member, or column 1.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="COL",
            help="The column with the value; repeated for each column of the board, in order. "
            "Default: value, or the names of the board's columns, or columns 2, 3, ...",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    at_column: Annotated[
        str | None,
        typer.Option(
            "--at-column",
            metavar="COL",
            help="The column with the time. Default: at, if it exists.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="The column with the event's id. Default: id, if it exists.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="A label of all events, such as room=42, or room=@COL for the value in a column "
            "(@@ stands for @). May be repeated. Default: the columns with the names of the "
            "labels, if they exist.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    at_format: Annotated[
        str,
        typer.Option(
            "--at-format",
            metavar="iso|ms|s|PATTERN",
            help="iso (a date, or a date and time), ms or s (since 1970 UTC), or a pattern such as "
            "%Y%m%d.",
            rich_help_panel=COLUMNS,
        ),
    ] = "iso"
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="The time zone of times without an offset. Default: the board's.",
            rich_help_panel=COLUMNS,
        ),
    ] = None


class TimeOptions(OptionGroup, frozen=True):
    """The order in which events are counted, the treatment of late events, and the time up to which
    events are counted."""

    clock: Annotated[
        Literal["system", "event"] | None,
        typer.Option(
            "--clock",
            help="event: sort the events of a file by time (in memory), and count each as if it "
            "arrived at its time. Default: the folder's clock, and the order of the file.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = None
    late: Annotated[
        Literal["refuse", "ok"],
        typer.Option(
            "--late",
            help="ok: count a source even if some events are too late for a window. Default: "
            "count no event of such a file, and of standard input only the batches before the "
            "first such event.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = "refuse"
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="With --clock event: count only the events up to this time. To continue, repeat "
            "the command with a later time.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = None


class CountingOptions(OptionGroup, frozen=True):
    """The size of batches, the name of the source, and the file of rejects."""

    batch: Annotated[
        int,
        typer.Option("--batch", metavar="N", help="Lines per commit.", rich_help_panel=RESUMING),
    ] = 5_000
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="The name under which the position in the file is stored. Default: its path. "
            "Standard input can be resumed only with a name.",
            rich_help_panel=RESUMING,
        ),
    ] = None
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="The file for lines that were not counted. Default: NAME.BOARD.rejects.csv beside "
            "the file.",
            rich_help_panel=RESUMING,
        ),
    ] = None
    allow_future: Annotated[
        bool,
        typer.Option(
            "--allow-future",
            help="Accept times ahead of this machine's clock. In event time they move the time of "
            "the boards forward permanently.",
            rich_help_panel=TIME_ORDER,
        ),
    ] = False


class SortedSetOptions(OptionGroup, frozen=True):
    """A sorted set of Redis to import instead of files."""

    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="The server with the sorted set to import instead of files: redis://[user:password@]host[:port]"
            "[/db], rediss://, redis+cluster://. Nothing is written to it. Default: the variable "
            f"{FROM_VARIABLE}.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="The key of the sorted set.", rich_help_panel=SORTED_SET
        ),
    ] = None
    data_key: Annotated[
        str | None,
        typer.Option(
            "--data-key",
            metavar="KEY",
            help="A hash with the members' data. Default: KEY:member_data, if it exists.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None
    no_data: Annotated[
        bool,
        typer.Option(
            "--no-data", help="Do not import the members' data.", rich_help_panel=SORTED_SET
        ),
    ] = False
    event_at: Annotated[
        str | None,
        typer.Option(
            "--event-at",
            metavar="now|TIME",
            help="The time at which the scores were reached. Default: 1970, so that only the "
            "window all counts them.",
            rich_help_panel=SORTED_SET,
        ),
    ] = None


class TargetOptions(OptionGroup, frozen=True):
    """The board to import into, and whether to create it."""

    create: Annotated[
        bool,
        typer.Option(
            "--create",
            help="Create the folder and a default board if they do not exist.",
            rich_help_panel=CONNECTION,
        ),
    ] = False
    at: Url = DEFAULT_URL
