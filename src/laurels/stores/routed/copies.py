"""Whole boards of several stores."""

from collections.abc import Callable, Iterator, Sequence

from laurels.core.contents import (
    ChangedPiece,
    CopyClock,
    Origin,
    OriginRest,
    Piece,
    UnfinishedCopy,
)
from laurels.core.season_pieces import PayoutRows
from laurels.stores.board_copies import MovableCopies, TrackedBoard


class RoutedCopies:
    """Implementation of `MovableCopies`: each call goes to the store of the board. For a board that
    does not exist, this is the store that its name points to."""

    def __init__(
        self, default: Callable[[], MovableCopies], copies_of: Callable[[str], MovableCopies]
    ) -> None:
        self._default = default
        self._copies_of = copies_of

    def clock(self) -> CopyClock:
        """Return the time of the default store."""
        return self._default().clock()

    def settle(self, board: str) -> None:
        """Close the due periods of a board, and seal the closed ones."""
        self._copies_of(board).settle(board)

    def origin(self, board: str) -> Origin:
        """Advance the rankings of a board, and return its state without its rankings."""
        return self._copies_of(board).origin(board)

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board."""
        return self._copies_of(board).pieces(board)

    def unfinished(self, board: str) -> UnfinishedCopy | None:
        """Return the unfinished copy of that name; None if there is none."""
        return self._copies_of(board).unfinished(board)

    def begin(self, origin: Origin) -> None:
        """Begin to copy a board into its store."""
        self._copies_of(origin.board_name).begin(origin)

    def extend(self, board: str, rest: OriginRest) -> None:
        """Add a part of the origin of an unfinished copy."""
        self._copies_of(board).extend(board, rest)

    def put(self, board: str, pieces: Sequence[ChangedPiece]) -> None:
        """Write pieces of an unfinished copy."""
        self._copies_of(board).put(board, pieces)

    def track(self, board: str, owner: str) -> TrackedBoard:
        """Begin to track the changes of a board."""
        return self._copies_of(board).track(board, owner)

    def unblock(self, board: str, owner: str) -> bool:
        """End the tracking or blocking of a board by a move. Return False if another move tracks or
        blocks the board."""
        return self._copies_of(board).unblock(board, owner)

    def owner(self, board: str) -> str | None:
        """Return the owner of the move that tracks or blocks a board; "" for a move by an earlier
        release, None if there is none."""
        return self._copies_of(board).owner(board)

    def seize(self, board: str, owner: str) -> None:
        """Transfer the tracking or blocking of a board to the move `owner`, whichever move has
        it."""
        self._copies_of(board).seize(board, owner)

    def payouts(self, board: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board."""
        return self._copies_of(board).payouts(board)

    def renew(self, origin: Origin) -> None:
        """Replace the origin of an unfinished copy."""
        self._copies_of(origin.board_name).renew(origin)

    def finish(self, board: str) -> None:
        """Make a copied board known to readers and writers."""
        self._copies_of(board).finish(board)

    def give_up(self, board: str) -> None:
        """Remove an unfinished copy."""
        self._copies_of(board).give_up(board)
