"""The options that select the ranking that a command reads."""

from typing import Annotated, Any

import typer

from laurels.cli.boards.scoping import By, Labels, parse_labels

from .option_groups import OptionGroup
from .options import READING, PeriodLabel, WindowName


class RankingOptions(OptionGroup, frozen=True):
    """The ranking of a board to read: its window, period and scope."""

    window: WindowName = None
    period: PeriodLabel = None
    revision: Annotated[
        int | None,
        typer.Option(
            "--revision",
            metavar="N",
            help="A revision of a sealed period. Default: the newest.",
            rich_help_panel=READING,
        ),
    ] = None
    label: Labels = None
    by: By = None

    def arguments(self) -> dict[str, Any]:
        """Return these options as arguments of methods such as `lb.top`. Raises Usage."""
        labels = parse_labels(self.label)
        return {
            "window": self.window,
            "period": self.period,
            "revision": self.revision,
            "labels": labels,
            "by": self.by,
        }
