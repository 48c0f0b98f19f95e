"""The due payouts of several stores. A cursor consists of the cursors of all stores, and each store
keeps its part of a reader's position."""

from collections.abc import Iterator, Sequence

from laurels.core.due_payouts import BoardSelection, DuePayouts, WaitingPayouts, page_limit
from laurels.core.payouts import PayoutPage
from laurels.errors import Unavailable
from laurels.errors.payouts import PayoutsDiverged

from .placed import PlacedStore

_SEPARATOR = "~"


class RoutedDuePayouts:
    """Implementation of `DuePayouts`. The payouts of each store are in order, but there is no order
    between the stores. A store that does not answer is left out of pages, and its part of the
    cursor stays the same."""

    def __init__(self, stores: Sequence[PlacedStore]) -> None:
        self._stores = stores

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        """Return a page of the first store that has payouts after its part of the cursor; an empty
        page if no store has."""
        page_limit(limit)
        cursors = _parts(after, len(self._stores))
        page, more = PayoutPage([]), False
        for number, due in self._answering():
            if page.payouts or more:
                more = more or due.page(cursors[number], 1, boards).cursor != cursors[number]
                continue
            page = due.page(cursors[number], limit, boards)
            cursors[number], more = page.cursor, page.next is not None
        cursor = _joined(cursors)
        return PayoutPage(page.payouts, cursor if more else None, cursor)

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        cursors = _parts(after, len(self._stores))
        found = [
            each
            for number, due in self._answering()
            for each in due.waiting(cursors[number], boards)
        ]
        return sorted(found, key=lambda each: each.board)

    def positions(self) -> dict[str, str]:
        """Return the positions of all readers. Raises IndexUnavailable if a store does not
        answer."""
        stored = [each.store.due_payouts.positions() for each in self._stores]
        names = sorted({name for positions in stored for name in positions})
        joined = {name: _joined([positions.get(name) for positions in stored]) for name in names}
        return {name: position for name, position in joined.items() if position is not None}

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        """Move the position in each store whose part of the cursor changes."""
        count = len(self._stores)
        parts = zip(_parts(before, count), _parts(position, count), strict=True)
        for store, (old, new) in zip(self._stores, parts, strict=True):
            if old != new:
                store.store.due_payouts.move(reader, old, new)

    def _answering(self) -> Iterator[tuple[int, DuePayouts]]:
        """Yield the stores that answer, with their numbers."""
        for number, each in enumerate(self._stores):
            try:
                due = each.store.due_payouts
            except Unavailable:
                continue
            yield number, due


def _joined(cursors: Sequence[str | None]) -> str | None:
    """Return the cursors of all stores as one; None if no store has one."""
    if not any(cursors):
        return None
    return _SEPARATOR.join([cursor or "" for cursor in cursors])


def _parts(cursor: str | None, count: int) -> list[str | None]:
    """Return each store's part of a cursor, None for a store without one. Raises PayoutsDiverged if
    the cursor was made for another number of stores."""
    if cursor is None:
        return [None] * count
    parts = [part or None for part in cursor.split(_SEPARATOR)]
    if len(parts) != count:
        raise PayoutsDiverged(f"expected a cursor of {count} stores, got one of {len(parts)}")
    return parts
