"""The errors of boards that are placed in several stores."""

from . import Conflict


class BoardElsewhere(Conflict):
    """A board of this name exists, but the placement of the service points to another store."""

    code = "board_elsewhere"
    advice = "let the operator move the board as the server's log describes, or use another name"
