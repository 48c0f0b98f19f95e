"""Copies whole boards from and to a service, through the service's endpoints for copies."""

from collections.abc import Iterator, Sequence
from typing import Any

from laurels.core.contents import CopyClock, Origin, OriginRest, Piece, UnfinishedCopy
from laurels.errors.service import ServerUnreachable, UnknownAnswer
from laurels.wire.copies import (
    MAX_ORIGIN,
    PiecesEnd,
    UnfinishedAnswer,
    encode_json,
    origin_in,
    read_line,
)
from laurels.wire.parameters import board_path

from .call import Call, decoder, nothing
from .transport import Wire

_clock: Any = decoder(CopyClock)
_unfinished: Any = decoder(UnfinishedAnswer)


class RemoteCopies:
    """Implementation of `BoardCopies` for a service. It needs an admin key for all boards."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def clock(self) -> CopyClock:
        """Return the time of the service."""
        clock: CopyClock = self._wire.answer(Call("GET", "/v1/copies", _clock))
        return clock

    def settle(self, board: str) -> None:
        """Do nothing: the service closes and seals what is due before it returns an origin."""

    def origin(self, board: str) -> Origin:
        """Advance a board's rankings to the current time, then return the board's state without its
        rankings."""
        path = board_path(board, "copy", "origin")
        return self._wire.answer(Call("GET", path, origin_in, no_timeout=True))

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board. Raises ServerUnreachable if the answer ends before the last
        piece."""
        call = Call("GET", board_path(board, "copy", "pieces"), nothing, no_timeout=True)
        count = 0
        for line in self._wire.lines(call):
            try:
                piece = read_line(line)
            except ValueError as error:
                raise UnknownAnswer(f"expected a piece of a board ({error})") from error
            if isinstance(piece, PiecesEnd):
                if piece.pieces != count:
                    raise UnknownAnswer(f"expected {piece.pieces} pieces, got {count}")
                return
            yield piece
            count += 1
        raise ServerUnreachable(f"{self._wire.address.base} ended its answer after {count} pieces")

    def unfinished(self, board: str) -> UnfinishedCopy | None:
        """Return the unfinished copy of a board, without its definition; None if there is none."""
        uid = self._wire.answer(Call("GET", board_path(board, "copy"), _unfinished)).uid
        return None if uid is None else UnfinishedCopy(uid, b"")

    def begin(self, origin: Origin) -> None:
        """Begin an unfinished copy of a board at the service. A large origin is sent in parts."""
        name, body = origin.board_name, encode_json(origin)
        parts: list[OriginRest] = []
        if len(body) > MAX_ORIGIN:
            body, parts = encode_json(origin.head()), list(origin.rest())
        self._write("POST", board_path(name, "copy"), body, needs_idempotency_key=True)
        for part in parts:
            self.extend(name, part)

    def extend(self, board: str, rest: OriginRest) -> None:
        """Add a part of the origin of an unfinished copy."""
        self._write("POST", board_path(board, "copy", "origin"), encode_json(rest))

    def put(self, board: str, pieces: Sequence[Piece]) -> None:
        """Write pieces of an unfinished copy, in one commit."""
        self._write("POST", board_path(board, "copy", "pieces"), encode_json(pieces))

    def finish(self, board: str) -> None:
        """Make a complete copy visible to readers and writers."""
        self._write("POST", board_path(board, "copy", "finish"), needs_idempotency_key=True)

    def give_up(self, board: str) -> None:
        """Remove an unfinished copy."""
        self._write("DELETE", board_path(board, "copy"), needs_idempotency_key=True)

    def _write(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        needs_idempotency_key: bool = False,
    ) -> None:
        self._wire.answer(
            Call(
                method,
                path,
                nothing,
                body=body,
                needs_idempotency_key=needs_idempotency_key,
                no_timeout=True,
            )
        )
