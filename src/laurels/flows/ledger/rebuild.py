"""Create boards from a ledger: definitions, entries with their times, data, positions of sources.

A board is copied from the ledger as from any other store: in pieces, into an unfinished board that
nobody else sees until it is complete. If that is interrupted, the next run begins the board anew.
Rolling windows, windows with decay and rankings by a label are not in a ledger and begin empty.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from laurels.errors.copies import NameTaken
from laurels.errors.ledger import NoLedger, RebuildTaken
from laurels.flows.copying.copying import is_copied, write_copy
from laurels.model.board_patterns import reaches
from laurels.stores.board_copies import BoardCopies

from .contents import LedgerContents, windows_without_entries
from .reading import LedgerReader


class RebuiltBoard(Struct, frozen=True):
    """The result for one board of a ledger.

    `entries` is the number of entries in its rankings. Two kinds of entries are not copied:
    `expired` counts entries in periods that the board no longer keeps, `left_out` counts entries in
    scopes whose labels are not in the ledger. `empty` names the windows, and the rankings by a
    label, that begin without members. `sealed` is the number of sealed periods, with all
    revisions. `was_done` is True if an earlier run created the board.
    """

    board: str
    entries: int = 0
    expired: int = 0
    left_out: int = 0
    data: int = 0
    sources: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    was_done: bool = False
    sealed: int = 0
    payouts: int = 0


def rebuild(
    ledger: LedgerReader,
    target: BoardCopies,
    patterns: Sequence[str] | None = None,
    progress: Callable[[str, int], None] = lambda _board, _entries: None,
) -> list[RebuiltBoard]:
    """Create the boards of a ledger whose names match; `progress` is called with the name of a
    board and the number of entries written so far. The call blocks. Raises NoLedger,
    LedgerIncomplete and RebuildTaken, usually before any board is created. Raises CopyRefused and
    InvalidEntry when some boards may have been created.
    """
    contents = LedgerContents(ledger, target.clock)
    names = [name for name in contents.boards() if patterns is None or reaches(patterns, name)]
    if not names:
        raise NoLedger("the ledger has no board of these names")
    exists = {name: _exists(contents, target, name) for name in names}
    return [
        RebuiltBoard(name, was_done=True)
        if exists[name]
        else _create(contents, target, name, progress)
        for name in names
    ]


def _exists(contents: LedgerContents, target: BoardCopies, name: str) -> bool:
    """Return whether the target already has this board. Raises RebuildTaken if it has another board
    of that name."""
    try:
        return is_copied(target, contents.origin(name))
    except NameTaken as error:
        raise RebuildTaken(f"there is another board {name!r}") from error


def _create(
    contents: LedgerContents,
    target: BoardCopies,
    name: str,
    progress: Callable[[str, int], None],
) -> RebuiltBoard:
    try:
        write_copy(contents, target, name, lambda _doing, rows: progress(name, rows))
    except NameTaken as error:
        raise RebuildTaken(f"there is another board {name!r}, or an unfinished one") from error
    counts = contents.counts[name]
    return RebuiltBoard(
        name,
        counts.entries,
        counts.expired,
        counts.left_out,
        counts.data,
        tuple(sorted(contents.origin(name).positions)),
        windows_without_entries(contents.rules(name)),
        sealed=counts.seasons.periods,
        payouts=counts.seasons.payouts,
    )


def describe(result: RebuiltBoard) -> str:
    """Return a sentence about the result."""
    if result.was_done:
        return f"{result.board}: made already"
    parts = [f"{result.board}: {result.entries:,} entries"]
    if result.data:
        parts.append(f"the data of {result.data:,} members")
    if result.sealed:
        parts.append(f"{result.sealed:,} sealed periods")
    if result.payouts:
        parts.append(f"{result.payouts:,} payouts")
    if result.sources:
        parts.append(f"the positions of {', '.join(result.sources)}")
    if result.expired:
        parts.append(f"left out {result.expired:,} entries of periods that are no longer kept")
    if result.left_out:
        parts.append(f"left out {result.left_out:,} entries whose labels the ledger does not have")
    if result.empty:
        parts.append(f"{', '.join(result.empty)} begin empty")
    return "; ".join(parts)
