"""The stores of a service and moves between them, in the form of its answers."""

from typing import Literal

from laurels.model.answer import Answer

TakeoverMode = Literal["none", "checked", "target_lost"]
"""What happens to the move of a board that another service has begun: "none" leaves it alone.
"checked" ends it, after it was found out which store has the events. "target_lost" also ends a move
to a store that the own service does not have."""


class StoreStatus(Answer, frozen=True):
    """A store of the service: its number, its URL without credentials, and whether it answers. The
    default store has the number 1."""

    store: int
    url: str
    answers: bool


class MovedBoard(Answer, frozen=True):
    """A board that is now in the store with the number `store`. `rows` is the number of rows
    copied, and `held_ms` the time for which writes to the board were held. Both are 0 if the board
    was in that store already."""

    board: str
    store: int
    rows: int = 0
    held_ms: float = 0.0
