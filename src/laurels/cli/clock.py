"""`clock`: shows the time that a store uses, and corrects the effects of a wrong system clock."""

from datetime import UTC, datetime
from typing import Annotated

import typer

import laurels
from laurels import config
from laurels.api.recording import AdministrativeCall
from laurels.core.clock_status import ClockStatus
from laurels.stores.local.recovery.rewind import Rewound
from laurels.timeline.zones import zone

from .option_groups import command
from .options import DEFAULT_URL, AsJson, Url
from .show import put_json, put_line
from .times import time_reader

PROBLEM = 1

app = typer.Typer(help="The time that the boards use.", rich_markup_mode=None)


@command(app, "show")
def show(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Show the time that the boards use. Exits with 1 if something is wrong with the clock.

    \b
    Example:
      laurels clock show --at http://localhost:8080
    """
    with laurels.open(at, create=False) as lb:
        status = lb.clock_status()
    _put(status, json=json)
    return 0 if status.problem is None else PROBLEM


@command(app, "accept")
def accept(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Accept the time of the machine's clock at once, even after a large leap.

    By default, a leap of more than max_clock_step is accepted only after it has lasted for ten
    minutes. Check the clock first: time in a store never goes back.

    \b
    Examples:
      laurels clock accept
      laurels clock accept --at http://localhost:8080
    """
    with laurels.open(at, create=False) as lb:
        status = lb.accept_clock()
    _put(status, json=json)
    return 0


@command(app, "rewind")
def rewind(
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TIME",
            help="The time to return to, in ISO 8601 (UTC if it has no offset). Default: now.",
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Change the folder. Without --yes, only show what would change."
        ),
    ] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Set back the times in a folder that is ahead of the clock.

    Records and events later than TIME are set to TIME; their order, members, values and ids stay.
    Make a backup first, and stop the server: the folder must not be in use. Without --yes nothing
    is changed, and the command exits with 1 if there is anything to do.

    \b
    Examples:
      laurels backup before.backup
      laurels clock rewind
      laurels clock rewind --yes
      laurels clock rewind --to 2026-11-22T10:00:00Z --yes
    """
    until_ms = None if to is None else time_reader("iso", zone("UTC"))(to)
    if yes:
        call = AdministrativeCall("rewind_clock", request={"to": to})
        with config.recorder_of(at) as record, record.call(call):
            rewound = config.rewind(at, until_ms, dry_run=False)
    else:
        rewound = config.rewind(at, until_ms, dry_run=True)
    if json:
        put_json(rewound)
    else:
        put_line(_rewound_words(rewound, done=yes))
    return PROBLEM if rewound.entries and not yes else 0


def _rewound_words(rewound: Rewound, *, done: bool) -> str:
    if not rewound.entries and not rewound.snapshots:
        return f"nothing is later than {_instant_text(rewound.until_ms)}"
    verb = "were set" if done else "would be set"
    return (
        f"{rewound.entries:,} entries of the log, up to {_instant_text(rewound.newest_ms)}, "
        f"{verb} back to {_instant_text(rewound.until_ms)}; snapshots set aside: "
        + (", ".join(rewound.snapshots) or "none")
        + ("" if done else "; run it again with --yes, after a backup")
    )


def _instant_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")


def _put(status: ClockStatus, *, json: bool) -> None:
    if json:
        put_json(status)
        return
    put_line(f"the time of the boards is {_instant_text(status.now_ms)}")
    if status.problem is not None:
        put_line(status.problem)
