"""The due payouts of all boards of a store, as one list that only grows at its end. Pure.

Payouts enter the list by a record of the log, once they are due (`records.EmitPayouts`). Each
program that pays, or sends payouts elsewhere, reads the list from its own position on.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from laurels.errors import InvalidCursor, InvalidLimit
from laurels.errors.payouts import InvalidReader
from laurels.model.answer import Answer
from laurels.model.board_patterns import reaches
from laurels.model.validation import integer_within, is_unicode, safe_repr

from .payouts import BEFORE_ALL, DuePlace, PayoutPage, PayoutRow

MAX_PAGE = 2_000
MAX_READER = 4_096
"""The maximum length of the name of a reader, in characters."""
SCANNED = 10_000
"""The maximum number of payouts of other boards that are skipped to fill one page."""
_CURSOR = re.compile(r"(-?[0-9]{1,15})-([0-9]{1,18})-([0-9a-f]{1,16})")


class DueCursor(Struct, frozen=True):
    """A place in the list, and the random tag of the record that made the payout before it. By the
    tag, a store that was restored from a backup detects a cursor that it did not make."""

    place: DuePlace
    tag: int

    def encode(self) -> str:
        """Return the cursor as URL-safe text."""
        return f"{self.place.due_ms}-{self.place.serial}-{self.tag:x}"


def due_cursor(text: object) -> DueCursor | None:
    """Decode a cursor; None is the beginning of the list. Raises InvalidCursor."""
    if text is None:
        return None
    match = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidCursor(f"expected the cursor of a page of due payouts, got {safe_repr(text)}")
    return DueCursor(DuePlace(int(match[1]), int(match[2])), int(match[3], 16))


def page_limit(limit: object) -> int:
    """Return the number of payouts that a caller wants. Raises InvalidLimit."""
    if (count := integer_within(limit, 1, MAX_PAGE)) is None:
        raise InvalidLimit(
            f"expected an integer from 1 to {MAX_PAGE:,} for limit, got {safe_repr(limit)}"
        )
    return count


def reader_name(reader: object) -> str:
    """Return the name of a reader. Raises InvalidReader for anything but text of 1 to 4,096
    characters."""
    if isinstance(reader, str) and 1 <= len(reader) <= MAX_READER and is_unicode(reader):
        return reader
    raise InvalidReader(
        f"expected text of 1 to {MAX_READER:,} characters for the reader, got {safe_repr(reader)}"
    )


class BoardSelection(Struct, frozen=True):
    """A selection of boards by name: those that match one of `patterns`, or all if it is None, as
    far as the caller of a service may see them (`is_visible`)."""

    patterns: Sequence[str] | None = None
    is_visible: Callable[[str], bool] | None = None

    @property
    def is_all(self) -> bool:
        """Whether every board is selected."""
        return self.patterns is None and self.is_visible is None

    def has(self, board: str) -> bool:
        """Return whether a board is selected."""
        return reaches(self.patterns, board) and (self.is_visible is None or self.is_visible(board))


class DueScan(Struct, frozen=True):
    """Due payouts of some boards, each with the cursor after it. The list was read up to `cursor`,
    which is None at the beginning of the list. `more` tells whether the list has further
    payouts."""

    payouts: list[tuple[DueCursor, PayoutRow]]
    cursor: DueCursor | None
    more: bool


def scan_due(
    rows_after: Callable[[DuePlace, int], list[tuple[DueCursor, PayoutRow]]],
    after: DueCursor | None,
    limit: int,
    boards: BoardSelection,
) -> DueScan:
    """Return up to `limit` due payouts of some boards after a cursor. `rows_after(place, n)`
    returns up to n payouts of all boards after a place. At most SCANNED payouts of other boards are
    skipped."""
    found: list[tuple[DueCursor, PayoutRow]] = []
    cursor, scanned, read = after, 0, limit
    while len(found) < limit and scanned < max(SCANNED, limit) and read == limit:
        rows = rows_after(BEFORE_ALL if cursor is None else cursor.place, limit)
        read, scanned = len(rows), scanned + len(rows)
        for cursor, row in rows:
            if boards.has(row.board):
                found.append((cursor, row))
            if len(found) == limit:
                break
    place = BEFORE_ALL if cursor is None else cursor.place
    return DueScan(found, cursor, bool(rows_after(place, 1)))


class WaitingPayouts(Answer, frozen=True):
    """The due payouts of a board after a place in the list: their number, and when the first of
    them was due."""

    board: str
    payouts: int
    oldest_ms: int


class DuePayouts(Protocol):
    """The list of due payouts of a store, and the positions of its readers. The methods block."""

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        """Return up to `limit` due payouts of some boards after a cursor. A page may be empty while
        `next` says that there are more. Raises InvalidCursor, and PayoutsDiverged if the store has
        no such place, since it has lost its newest data or was restored from a backup."""

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        """Return how many payouts of each board come after a cursor. O(payouts after it). Raises
        InvalidCursor, PayoutsDiverged."""

    def positions(self) -> dict[str, str]:
        """Return the stored positions of all readers, by their names."""

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        """Replace the stored position `before` of a reader by another one; None is no position.
        Raises PositionMoved if another position is stored."""


class UnerasedPayouts:
    """A list of due payouts that first lets the erasure of a member be completed if a page has
    payouts of the member. `settle` does that: it takes the members of a page, and returns whether
    one of them was being erased."""

    def __init__(self, due: DuePayouts, settle: Callable[[Collection[str]], bool]) -> None:
        self._due = due
        self._settle = settle

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        page = self._due.page(after, limit, boards)
        if page.payouts and self._settle({payout.member for payout in page.payouts}):
            return self._due.page(after, limit, boards)
        return page

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        return self._due.waiting(after, boards)

    def positions(self) -> dict[str, str]:
        return self._due.positions()

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        self._due.move(reader, before, position)


class NoDuePayouts:
    """The due payouts of a store that makes none."""

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        due_cursor(after)
        page_limit(limit)
        return PayoutPage([])

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        due_cursor(after)
        return []

    def positions(self) -> dict[str, str]:
        return {}

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        """Do nothing: no page of this store has a cursor to be stored."""
        reader_name(reader)
