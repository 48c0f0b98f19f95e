"""`copy`: boards from one store to another, with everything they have."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from msgspec import Struct

from laurels import config
from laurels.errors import LaurelsError, UnknownBoard
from laurels.flows.copying.comparing import CopyCheck
from laurels.flows.copying.copying import CopiedBoard, copy_board
from laurels.model.board_patterns import parse_patterns, reaches
from laurels.stores.base import PortableStore

from .failures import Usage, one_line
from .options import AsJson
from .progress import progress_bar
from .recording import Recorder
from .show import complain_of, escaped, put_json, put_line

DIFFERS = 1

Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--board",
        metavar="PATTERN",
        help="Copy only boards whose names match, such as 'gift*'; may be given several times.",
    ),
]


class Failed(Struct, frozen=True):
    """A board that was not copied."""

    board: str
    code: str
    error: str


def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Where the boards are: a folder, redis://… or http://…."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Where to copy them: a folder, redis://… or http://…."
        ),
    ],
    board: Patterns = None,
    json: AsJson = False,
) -> int:
    """Copy boards to another store, with everything they have.

    Totals, ties, periods, the steps of rolling windows, decay, event ids, member data and the
    positions of imports and sources go with a board, so that an event that is sent again after the
    move counts once. At the end the copy is compared with its source, row by row. Stop what writes
    to a board while it is copied.

    A copy that is interrupted is invisible in the target; the same command begins that board anew,
    and only compares those that are complete. Ends with 1 if a board differs or was not copied.

    A service needs an admin key that is not limited to some boards: http://KEY@HOST, or the
    variable LAURELS_KEY where one of the two is a service.

    \b
    Examples:
      laurels copy ./boards redis://localhost:6379
      laurels copy redis://localhost:6379 /srv/boards --board 'gift*' --board points
      laurels copy http://localhost:8000 ./boards
    """
    results: list[CopiedBoard | Failed] = []
    with _opened(source, target) as (there, here), Recorder(target) as record:
        for name in _chosen(there, board):
            with _bar(not json, name) as report:
                try:
                    request = {"from": config.without_login(source)}
                    with record.call("copy", board=name, request=request):
                        results.append(copy_board(there.copies, here.copies, name, report))
                except LaurelsError as error:
                    if error.retryable and error.code != "board_changing":
                        raise
                    results.append(Failed(name, error.code, one_line(error)))
                    complain_of(error)
            if not json and isinstance(results[-1], CopiedBoard):
                _put(results[-1])
    if json:
        put_json(results)
    done = [each for each in results if isinstance(each, CopiedBoard)]
    is_whole = len(done) == len(results) and not any(each.compared.differences for each in done)
    return 0 if is_whole else DIFFERS


@contextmanager
def _opened(source: str, target: str) -> Iterator[tuple[PortableStore, PortableStore]]:
    """Open both stores. A target that is new gets the kind of clock of the source."""
    if _place(source) == _place(target):
        raise Usage("the source and the target are the same")
    there = config.portable(source, create=False)
    try:
        is_replay = there.copies.clock().event_time and not config.is_remote(target)
        clock = "event" if is_replay else None
        here = config.portable(target, clock, create=True)
        try:
            yield there, here
        finally:
            here.close()
    finally:
        there.close()


def _place(url: str) -> str:
    return url if "://" in url else os.path.realpath(url.removeprefix("file:"))


def _chosen(store: PortableStore, patterns: list[str] | None) -> list[str]:
    """Return the names of the boards that match the patterns."""
    chosen = None if patterns is None else parse_patterns(patterns)
    names = [each.name for each in store.definitions() if reaches(chosen, each.name)]
    if not names and patterns is not None:
        raise UnknownBoard(f"no board matches {', '.join(patterns)}")
    return names


@contextmanager
def _bar(enabled: bool, board: str) -> Iterator[Callable[[str, int], None]]:
    with progress_bar(enabled) as progress:
        if progress is None:
            yield lambda _doing, _rows: None
            return
        task = progress.add_task(escaped(board), total=None, count=0, unit="rows")

        def report(doing: str, rows: int) -> None:
            progress.update(task, description=f"{doing} {escaped(board)}", count=rows)

        yield report


def _put(done: CopiedBoard) -> None:
    """Print the result for a board."""
    name, compared = escaped(done.board), done.compared
    result = f"copied {done.rows:,} rows" if done.copied else "copied before"
    if compared.differences:
        put_line(f"{name}: {result}; the copy differs from the source:")
        for difference in compared.differences:
            put_line(f"  {escaped(difference)}")
    else:
        put_line(f"{name}: {result}; equal: {_what(compared)}")
    for sentence in compared.not_compared:
        put_line(f"  not compared: {escaped(sentence)}")


def _what(compared: CopyCheck) -> str:
    return (
        f"{compared.rankings:,} rankings with {compared.entries:,} entries, "
        f"{compared.tallies:,} tallies, {compared.ids:,} event ids, "
        f"data of {compared.data:,} members, {compared.positions:,} positions"
    )
