"""The errors of boards that are placed in several stores."""

from . import Conflict, NotFound, Unavailable


class BoardElsewhere(Conflict):
    """A board of this name exists, but the placement of the service points to another store."""

    code = "board_elsewhere"
    advice = "let the operator move the board as the server's log describes, or use another name"


class UnknownStore(NotFound):
    """The service has no store of this number, or no longer has the store of a moved board."""

    code = "unknown_store"
    advice = "list the stores of the service, and keep those that have boards in its placement"


class MoveRefused(Conflict):
    """The board cannot be moved."""

    code = "move_refused"
    advice = "serve the board by one process with several stores, and see docs/service.md"


class BoardMoving(Unavailable):
    """The board is being moved to another store, or could not be moved now; nothing was done."""

    code = "board_moving"
    advice = "try again"
    may_have_applied = False
