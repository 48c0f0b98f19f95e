"""The protocols for copying whole boards from store to store, even while they are written."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from laurels.core.contents import (
    ChangedPiece,
    CopyClock,
    Origin,
    OriginRest,
    Piece,
    UnfinishedCopy,
)
from laurels.core.season_pieces import PayoutRows


class BoardContents(Protocol):
    """Whole boards of a store, read as pieces."""

    def settle(self, board: str) -> None:
        """Close the periods of a board that are due, and seal the closed ones, so that the pieces
        have them. Raises UnknownBoard, and the errors of sealing."""

    def origin(self, board: str) -> Origin:
        """Advance the rankings of a board to the current time, then return the state of the board
        without its rankings. Raises UnknownBoard."""

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board. If `origin` returns the same result before and after, all
        pieces belong to one state of the board."""


class BoardCopies(BoardContents, Protocol):
    """Whole boards of a store, read as pieces and written from pieces. While a board is being
    written it is *unfinished*: readers and writers do not find it."""

    def clock(self) -> CopyClock:
        """Return the time of the store."""

    def unfinished(self, board: str) -> UnfinishedCopy | None:
        """Return the unfinished copy of a board; None if there is none."""

    def begin(self, origin: Origin) -> None:
        """Begin an unfinished copy of a board in this store. Raises NameTaken, CopyRefused."""

    def extend(self, board: str, rest: OriginRest) -> None:
        """Add a part that was left out of the origin of an unfinished copy. Adding it again has no
        effect. Raises CopyLost."""

    def put(self, board: str, pieces: Sequence[Piece]) -> None:
        """Write pieces of an unfinished copy. Writing a piece again has no effect. Raises
        CopyLost."""

    def finish(self, board: str) -> None:
        """Make a complete copy visible to readers and writers. Raises CopyLost."""

    def give_up(self, board: str) -> None:
        """Remove an unfinished copy. Raises CopyLost."""


class TrackedBoard(Protocol):
    """A board whose changes are tracked, so that it can be copied while it is written. The methods
    block. They raise BoardChanging if changes may be missing, for example because the definition
    was changed; then the copy has to be begun anew."""

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the board. Rows that change meanwhile may be outdated, missing, or
        repeated in the pieces."""

    def changed_pieces(self) -> Iterator[ChangedPiece]:
        """Yield the current rows of the members that were changed since tracking began or since the
        last call, and the event ids added since then. In a copy these pieces replace the earlier
        rows."""

    def block(self) -> None:
        """Refuse all further writes to the board, of every process, as BoardMoving."""

    def end(self) -> None:
        """End tracking, and accept writes again. Does nothing if another move tracks or blocks the
        board."""


class MovableCopies(BoardCopies, Protocol):
    """Whole boards that can be copied while they are written."""

    def track(self, board: str, owner: str) -> TrackedBoard:
        """Begin to track the changes of a board. `owner` is the random token of a move. If this
        move tracks or blocks the board already, that is ended first. Raises UnknownBoard, and
        BoardMoving if another move tracks or blocks the board."""

    def unblock(self, board: str, owner: str) -> bool:
        """End the tracking or blocking by a move, which may have been killed. Return False if
        another move tracks or blocks the board. Raises UnknownBoard."""

    def owner(self, board: str) -> str | None:
        """Return the owner of the move that tracks or blocks a board, which may have been killed;
        "" for a move by an earlier release, None if there is none. Raises UnknownBoard."""

    def seize(self, board: str, owner: str) -> None:
        """Take over the tracking or blocking of a board from another move: `owner` is the new
        owner. If writes were blocked, they stay blocked. From then on, calls of the earlier owner
        raise BoardChanging. Raises UnknownBoard."""

    def put(self, board: str, pieces: Sequence[ChangedPiece]) -> None:
        """Write pieces of an unfinished copy. Writing a piece again has no effect. Raises
        CopyLost."""

    def payouts(self, board: str) -> Iterator[PayoutRows]:
        """Yield the payouts of a board. Raises UnknownBoard."""

    def renew(self, origin: Origin) -> None:
        """Replace the origin of an unfinished copy of the board by a later one. Raises CopyLost."""
