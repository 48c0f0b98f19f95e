"""The stores of a service and moves between them, in the form of its answers."""

from laurels.model.answer import Answer


class StoreStatus(Answer, frozen=True):
    """A store of the service: its number, its URL without credentials, and whether it answers. The
    default store has the number 1."""

    store: int
    url: str
    answers: bool


class MovedBoard(Answer, frozen=True):
    """A board that is in the store of this number now. `rows` is the number of rows copied, and
    `held_ms` the time for which writes to the board were held. Both are 0 if the board was in that
    store already."""

    board: str
    store: int
    rows: int = 0
    held_ms: float = 0.0
