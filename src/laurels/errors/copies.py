"""The errors of copying boards from one store to another."""

from . import Conflict, InvalidInput, Unavailable


class CopyRefused(Conflict):
    """The clock or the archive of the target does not allow a copy of this board."""

    code = "copy_refused"
    advice = (
        "copy the board to a store of the same kind, with the same kind of clock, and check the "
        "clocks of both machines"
    )


class CopyLost(Conflict):
    """The unfinished copy of a board was finished or removed by another process."""

    code = "copy_lost"
    advice = "let one process at a time copy a board, and run the copy again"


class InvalidCopy(InvalidInput):
    """The data that was sent is not a part of a board."""

    code = "invalid_copy"
    advice = "send the parts exactly as the source returned them, as `laurels copy` does"


class NameTaken(Conflict):
    """The target has another board of that name, or the unfinished copy of another board."""

    code = "name_taken"
    advice = "delete the board in the target, or leave it out with --board"


class BoardChanging(Unavailable):
    """Every attempt to copy the board failed, because the board was written to meanwhile."""

    code = "board_changing"
    advice = "stop the programs that write to the board, and run the copy again"
