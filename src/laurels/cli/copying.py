"""`copy`: copies boards with all their data from one store to another."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from laurels import config
from laurels.api.leaderboards import Leaderboards
from laurels.api.recording import AdministrativeCall
from laurels.errors import LaurelsError, UnknownBoard
from laurels.flows.copying.comparing import CopyCheck
from laurels.flows.copying.copying import CopiedBoard, copy_board
from laurels.flows.copying.sinks import move_sinks
from laurels.flows.ledger.contents import LedgerContents
from laurels.flows.ledger.reading import LedgerReader
from laurels.model.board_patterns import parse_patterns, reaches
from laurels.sql.databases import dialect_of, is_ledger
from laurels.stores.base import PortableStore
from laurels.stores.board_copies import BoardContents

from .errors import Usage, one_line
from .options import DEFAULT_URL, AsJson, Url
from .progress import progress_bar
from .show import complain_of, put_json, put_line
from .texts import escaped

DIFFERS = 1

Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--board",
        metavar="PATTERN",
        help="Copy only boards whose names match, such as 'gift*'. May be repeated.",
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
            metavar="SOURCE",
            help="The store to copy from: a folder, redis://…, http://… or a ledger.",
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="The store to copy to: a folder, redis://… or http://…."
        ),
    ],
    board: Patterns = None,
    json: AsJson = False,
) -> int:
    """Copy boards to another store, with all their data.

    A copy has the totals, ties, periods, steps of rolling windows, decay, event ids, member data
    and the positions of imports and sources. So an event that is sent again after the copy counts
    once. At the end the copy is compared with its source, row by row. Stop all writes to a board
    while it is copied.

    An interrupted copy of a board is invisible in the target. If the command is repeated, it copies
    that board from the beginning, and only compares the boards that are complete. Exits with 1 if
    a board differs or was not copied.

    A copy of a ledger has only what the ledger stores, as with `laurels rebuild --from`: no event
    ids, and empty rolling windows. A service needs an admin key that is not limited to some boards,
    as in http://KEY@HOST. If only one store is a service, its key may be in LAURELS_KEY.

    \b
    Examples:
      laurels copy ./boards redis://localhost:6379
      laurels copy redis://localhost:6379 /srv/boards --board 'gift*' --board points
      laurels copy http://localhost:8000 ./boards
      laurels copy postgresql://app@localhost/boards redis://localhost
    """
    results: list[CopiedBoard | Failed] = []
    with _opened(source, target) as (from_store, to_store), config.recorder_of(target) as record:
        for name in _chosen(from_store.boards, board):
            with _bar(not json, name) as report:
                try:
                    request = {"from": config.without_login(source)}
                    with record.call(AdministrativeCall("copy", name, request=request)):
                        copied = copy_board(from_store.contents, to_store.copies, name, report)
                        results.append(_with_notes(copied, from_store, to_store))
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


def abandon(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.")],
    at: Url = DEFAULT_URL,
    json: AsJson = False,
) -> int:
    """Remove the unfinished copy of a board, so that its name is free again.

    A copy is unfinished if `laurels copy` was interrupted and not repeated. Sealed periods that the
    ledger of an index server has received stay there. A service needs an admin key that is not
    limited to some boards.

    \b
    Examples:
      laurels abandon gifts --at redis://localhost:6379
    """
    with (
        closing(config.portable(at, create=False)) as store,
        config.recorder_of(at) as record,
        record.call(AdministrativeCall("abandon", board)),
    ):
        store.copies.give_up(board)
    if json:
        put_json({"board": board})
    else:
        put_line(f"removed the unfinished copy of {escaped(board)}")
    return 0


class _Source(Struct, frozen=True):
    """The store to copy from. `boards` are the names of its boards. `missing` returns sentences
    about data of a board, such as event ids, that the store does not have. `lb` is None for a
    ledger."""

    contents: BoardContents
    boards: list[str]
    missing: Callable[[str], list[str]] = lambda _board: []
    lb: Leaderboards | None = None


@contextmanager
def _opened(source: str, target: str) -> Iterator[tuple[_Source, PortableStore]]:
    """Open the source and the target. A target that is created uses event time if the source
    does."""
    if _location(source) == _location(target):
        raise Usage("the source and the target are the same")
    if is_ledger(source):
        with closing(LedgerReader(*dialect_of(source))) as reader:
            reader.open()
            with closing(config.portable(target, create=True)) as to_store:
                ledger = LedgerContents(reader, to_store.copies.clock)
                yield _Source(ledger, ledger.boards(), ledger.missing), to_store
        return
    with closing(config.portable(source, create=False)) as from_store:
        is_replay = from_store.copies.clock().event_time and not config.is_remote(target)
        names = [each.name for each in from_store.definitions()]
        with closing(
            config.portable(target, "event" if is_replay else None, create=True)
        ) as to_store:
            yield _Source(from_store.copies, names, lb=Leaderboards(from_store)), to_store


def _with_notes(done: CopiedBoard, source: _Source, target: PortableStore) -> CopiedBoard:
    """After a board was copied, set its sinks that have sent all its changes to continue with the
    first new change of the copy. Add notes to the result: on data that the source does not have,
    and on sinks that have not sent all changes."""
    notes = [*done.compared.not_compared, *source.missing(done.board)]
    if source.lb is not None and done.end is not None and not done.compared.differences:
        notes += move_sinks(source.lb, Leaderboards(target), done.board, done.end)
    return replace(done, compared=replace(done.compared, not_compared=notes))


def _location(url: str) -> str:
    return url if "://" in url else os.path.realpath(url.removeprefix("file:"))


def _chosen(boards: list[str], patterns: list[str] | None) -> list[str]:
    """Return the names of the boards that match the patterns."""
    chosen = None if patterns is None else parse_patterns(patterns)
    names = [name for name in boards if reaches(chosen, name)]
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
        put_line(f"{name}: {result}; equal: {_counts_text(compared)}")
    for sentence in compared.not_compared:
        put_line(f"  not compared: {escaped(sentence)}")


def _counts_text(compared: CopyCheck) -> str:
    return (
        f"{compared.rankings:,} rankings with {compared.entries:,} entries, "
        f"{compared.tallies:,} tallies, {compared.ids:,} event ids, "
        f"data of {compared.data:,} members, {compared.positions:,} positions, "
        f"{compared.sealed:,} sealed periods, {compared.payouts:,} payouts"
    )
