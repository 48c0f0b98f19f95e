"""The options of `source`."""

from typing import Annotated

import typer

from laurels.cli.option_groups import OptionGroup
from laurels.cli.options import OUTPUT, READING, AsJson
from laurels.flows.sources.mapping import DEFAULT

MAPPING = "Mapping of messages"
SourceName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the source; boards store their positions under it."
    ),
]
Boards = Annotated[
    str | None,
    typer.Option(
        "--boards",
        metavar="PATTERN",
        help="Feed only boards whose names match, such as 'gifts-*'; skip the others.",
        rich_help_panel=MAPPING,
    ),
]


class MappingOptions(OptionGroup, frozen=True):
    """Options for the translation of messages into events."""

    map: Annotated[
        str,
        typer.Option(
            "--map",
            metavar="TEMPLATE",
            help="board=FIELD,member=FIELD,value=FIELD,at=FIELD,id=FIELD,labels.NAME=FIELD",
            rich_help_panel=MAPPING,
        ),
    ] = DEFAULT
    boards: Boards = None


class RunningOptions(OptionGroup, frozen=True):
    """Options for reading the stream."""

    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="N",
            min=1,
            max=10_000,
            help="Maximum number of messages per commit.",
            rich_help_panel=READING,
        ),
    ] = 1_000
    begin: Annotated[
        str | None,
        typer.Option(
            "--begin",
            metavar="start|now",
            help="Where to begin for boards without a position in this stream: at the oldest "
            "message (start) or the next new one (now). Also accepts a stream that was recreated.",
            rich_help_panel=READING,
        ),
    ] = None
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Exit when no message is pending.", rich_help_panel=READING
        ),
    ] = False


class ResultOptions(OptionGroup, frozen=True):
    """Options for reporting messages that were not counted."""

    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            envvar="LAURELS_REJECTS",
            show_envvar=True,
            metavar="FILE|SUBJECT",
            help="File for messages that were not counted, or nats://host:port/subject. "
            "Default: NAME.rejects.jsonl.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    json: AsJson = False
