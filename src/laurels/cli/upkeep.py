"""Maintenance commands for a store: `check`, `rebuild`, `snapshot`, `backup`, `restore`."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

import laurels
from laurels import config
from laurels.api.recording import AdministrativeCall
from laurels.errors import CheckFailed, LogDamaged, SnapshotDamaged
from laurels.flows.ledger.reading import LedgerReader
from laurels.flows.ledger.rebuild import describe
from laurels.flows.ledger.rebuild import rebuild as rebuild_from
from laurels.sql.databases import dialect_of

from .options import DEFAULT_URL, READING, AsJson, Url
from .progress import bytes_bar
from .show import complain, complain_of, put_json, put_line
from .texts import readable

NEGATIVE = 1
REPORT_EVERY = 100_000
"""The number of ledger entries between two progress messages of a rebuild."""


def check(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Check that the rankings agree with the log.

    Every data structure and every snapshot is checked, and the rankings are compared with rankings
    rebuilt from the log: from its beginning or, if it was trimmed, from the oldest snapshot. Exits
    with 1 if an error is found.

    \b
    Examples:
      laurels check
      laurels check --at /srv/boards --json
    """
    try:
        with laurels.open(at, create=False) as lb:
            report = lb.check()
    except (CheckFailed, LogDamaged, SnapshotDamaged) as error:
        complain_of(error)
        return NEGATIVE
    if json:
        put_json(report)
    else:
        put_line(
            f"in order: {report.boards:,} boards, {report.rankings:,} rankings, "
            f"{report.entries:,} entries, at offset {report.offset:,}"
        )
        for unverified in report.unverified:
            put_line(f"not verified: {unverified}")
    return 0


def rebuild(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LEDGER",
            help="Create boards from a ledger: postgresql://, mysql:// or sqlite:///FILE.",
            rich_help_panel=READING,
        ),
    ] = None,
    boards: Annotated[
        list[str] | None,
        typer.Option(
            "--boards",
            metavar="PATTERN",
            help="With --from: name or pattern of boards. May be repeated. Default: all.",
            rich_help_panel=READING,
        ),
    ] = None,
    clock: Annotated[
        Literal["system", "event"] | None,
        typer.Option(
            "--clock",
            help="With --from: the clock of a new folder, system (the default), or event if the "
            "ledger's boards replay history.",
        ),
    ] = None,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Rebuild all rankings from the log, or create boards from a ledger.

    A ledger has the definitions of boards, their entries with ties, the data of members, and the
    positions of sources, which then continue with the missing messages. After an interruption,
    repeat the command. No other program may write to the boards until the command has ended.

    \b
    Examples:
      laurels rebuild --at /srv/boards
      laurels rebuild --from postgresql://app@localhost/boards --at /srv/new
      laurels rebuild --from sqlite:///ledger.db --boards 'gift*' --at redis://localhost
    """
    if source is not None:
        return _rebuild_from(source, boards, clock, at, json=json)
    if boards or clock:
        raise typer.BadParameter("expected --from with --boards or --clock")
    with laurels.open(at, create=False) as lb:
        lb.rebuild()
        stats = lb.stats()
    if json:
        put_json(stats)
    else:
        put_line(f"rebuilt: {stats.boards:,} boards, at offset {stats.offset:,}")
    return 0


def _rebuild_from(
    source: str, boards: list[str] | None, clock: str | None, at: str, *, json: bool
) -> int:
    """Create boards from a ledger."""
    ledger = LedgerReader(*dialect_of(source))
    next_report = REPORT_EVERY

    def progress(board: str, entries: int) -> None:
        nonlocal next_report
        if not json and entries >= next_report:
            complain(f"{board}: {entries:,} entries")
        next_report = (entries // REPORT_EVERY + 1) * REPORT_EVERY

    with closing(ledger):
        ledger.open()
        with (
            closing(config.portable(at, clock, create=True)) as store,
            config.recorder_of(at) as record,
            record.call(
                AdministrativeCall("rebuild", request={"from": config.without_login(source)})
            ),
        ):
            made = rebuild_from(ledger, store.copies, boards, progress)
    if json:
        put_json(made)
    else:
        for each in made:
            put_line(describe(each))
    return 0


def snapshot(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Take a snapshot, so that opening the folder need not read the log before it.

    A server takes snapshots automatically as the log grows. This command is for a folder that is
    not in use.

    \b
    Example:
      laurels snapshot --at /srv/boards
    """
    with laurels.open(at, create=False) as lb:
        lb.snapshot()
        kept = lb.stats().kept
    if json:
        put_json(kept)
    else:
        put_line(
            f"snapshot of offset {kept.snapshot_offset:,} ({kept.snapshot_nbytes:,} bytes), "
            f"the log is kept from {kept.log_from:,}"
        )
    return 0


def seal(at: Url = DEFAULT_URL, json: AsJson = False) -> int:
    """Close all periods that are due, and write the closed ones to the archive.

    A server does this automatically, and so does a program with its next write to a board. This
    command is for a folder that is not in use, such as one that a scheduled job writes to.

    \b
    Example:
      laurels seal --at /srv/boards
    """
    with laurels.open(at, create=False) as lb:
        done = lb.seal()
    _put_result(f"{done.closed:,} periods closed, {done.sealed:,} sealed", done, json=json)
    return 0


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Write all boards of a folder to one file, even while another process serves them.

    The file contains the newest snapshot and the log after it. It appears under its name only after
    it was read back and checked.

    \b
    Examples:
      laurels backup boards.backup
      laurels backup /backups/$(date +%F).laurels --at /srv/boards
    """
    with bytes_bar(not json, f"backup of {config.without_login(at)}") as progress:
        written = config.back_up(at, file, overwrite=force, progress=progress)
    _put_result(
        f"{readable(str(file))}: everything up to offset {written.offset:,}", written, json=json
    )
    return 0


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Create a folder from a backup. The folder must not exist yet, or must be empty.

    \b
    Example:
      laurels restore boards.backup --at /srv/boards
    """
    with bytes_bar(not json, f"restore to {config.without_login(at)}") as progress:
        read = config.restore(file, at, progress=progress)
    _put_result(f"{readable(at)}: restored up to offset {read.offset:,}", read, json=json)
    return 0


def _put_result(sentence: str, backup: object, *, json: bool) -> None:
    if json:
        put_json(backup)
    else:
        put_line(sentence)
