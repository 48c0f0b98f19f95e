"""Requests that move boards between the stores of a service."""

from urllib.parse import quote

from laurels.errors import UnknownBoard
from laurels.model.validation import is_name
from laurels.wire.answers import to_json
from laurels.wire.placement import MovedBoard, TakeoverMode

from .call import Call, decoder


def move(
    board: str, to: int | None, pause_seconds: int, takeover: TakeoverMode
) -> Call[MovedBoard]:
    """Return the call that moves a board to the store of this number; None stands for the store
    that its name points to. Writes to the board may be refused for up to `pause_seconds`. With
    `takeover`, the move of a killed service is ended first. The answer has no time limit."""
    if not is_name(board):
        raise UnknownBoard(f"there is no board {board!r}")
    body = to_json.encode({"to": to, "pause_seconds": pause_seconds, "takeover": takeover})
    path = f"/v1/boards/{quote(board)}/move"
    return Call("POST", path, decoder(MovedBoard), body=body, no_timeout=True)
