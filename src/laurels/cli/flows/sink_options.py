"""The options of `sink`."""

from pathlib import Path
from typing import Annotated

import typer

from laurels.cli.option_groups import OptionGroup
from laurels.cli.options import CONNECTION, READING
from laurels.flows.sinks.opening import DeliveryOptions, webhook_secret, what_to_send
from laurels.flows.sinks.options import What

TO_VARIABLE = "LAURELS_TO"
"""The environment variable with the target of a sink. A target may contain a password, and command
lines are visible to other users of a machine."""
SinkName = Annotated[str, typer.Argument(metavar="NAME", help="The sink's name.")]
To = Annotated[
    str,
    typer.Option(
        "--to",
        envvar=TO_VARIABLE,
        show_envvar=True,
        metavar="TARGET",
        help="postgresql://, mysql://, sqlite:///FILE, redis://HOST/0/KEY, nats://HOST/SUBJECT, "
        "https://..., a file, or - for standard output.",
        rich_help_panel=CONNECTION,
    ),
]
ToKnown = Annotated[
    str | None,
    typer.Option(
        "--to",
        envvar=TO_VARIABLE,
        show_envvar=True,
        metavar="TARGET",
        help="The target, if it stores the sink's position.",
        rich_help_panel=CONNECTION,
    ),
]
Boards = Annotated[
    list[str] | None,
    typer.Option(
        "--boards",
        metavar="PATTERN",
        help="Name or pattern of boards; may be repeated. Default: all boards.",
        rich_help_panel=READING,
    ),
]
Parked = Annotated[
    Path | None,
    typer.Option(
        "--parked",
        metavar="FILE",
        help="File for changes that the target refuses. Default: NAME.parked.jsonl.",
        rich_help_panel=READING,
    ),
]


class SendingOptions(OptionGroup, frozen=True):
    """Options for the content and the delivery of changes."""

    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            metavar="MAPPING",
            help="Fields to send: KeyPrefix=board,UserId=member,DeltaScore=delta,Score=score.",
            rich_help_panel="What to send",
        ),
    ] = None
    payout_fields: Annotated[
        str | None,
        typer.Option(
            "--payout-fields",
            metavar="MAPPING",
            help="Fields of payouts to send: UserId=member,Coins=amount,Payment=id.",
            rich_help_panel="What to send",
        ),
    ] = None
    payouts_only: Annotated[
        bool,
        typer.Option(
            "--payouts-only",
            help="Send due payouts, no changes.",
            rich_help_panel="What to send",
        ),
    ] = False
    changes_only: Annotated[
        bool,
        typer.Option(
            "--changes-only",
            help="Send changes, no payouts.",
            rich_help_panel="What to send",
        ),
    ] = False
    secret: Annotated[
        str | None,
        typer.Option(
            "--secret",
            envvar="LAURELS_WEBHOOK_SECRET",
            show_envvar=True,
            metavar="TEXT",
            help="Key that signs the requests of a webhook. Command lines are visible to other "
            "users of this machine: use the variable or --secret-file.",
            rich_help_panel="Webhook",
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file",
            metavar="FILE",
            help="File with the key of --secret.",
            rich_help_panel="Webhook",
        ),
    ] = None
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private",
            help="Allow a webhook in a private network.",
            rich_help_panel="Webhook",
        ),
    ] = False
    authorities: Annotated[
        str | None,
        typer.Option(
            "--authorities",
            metavar="FILE",
            help="File with certificate authorities, instead of the system's.",
            rich_help_panel="Webhook",
        ),
    ] = None

    def target(self) -> DeliveryOptions:
        """Return the options that the target needs."""
        secret = webhook_secret(self.secret, self.secret_file)
        return DeliveryOptions(
            self.fields, self.payout_fields, secret, self.allow_private, self.authorities
        )

    def what(self) -> What:
        """Return what the sink sends."""
        if self.payouts_only and self.changes_only:
            raise typer.BadParameter("expected one of --payouts-only and --changes-only")
        only: What | None = "payouts" if self.payouts_only else None
        return what_to_send("changes" if self.changes_only else only, self.target())


class RunOptions(OptionGroup, frozen=True):
    """Options for the start and the end of a run."""

    initial: Annotated[
        bool,
        typer.Option("--initial", help="Begin with every current entry.", rich_help_panel=READING),
    ] = False
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Exit when everything has been sent.", rich_help_panel=READING
        ),
    ] = False
    tries: Annotated[
        int,
        typer.Option(
            "--tries",
            metavar="N",
            min=1,
            help="Number of attempts after which refused changes are parked.",
            rich_help_panel=READING,
        ),
    ] = 5
    parked: Parked = None
