"""The whole state of a board as plain records: the form in which boards are copied between stores.

A copy is an `Origin` and then pieces. The origin has the state that is not in rankings: definition,
time, positions. The pieces have the data of members, the remembered event ids, and rows of rankings
and tallies, as words (`model.score`). For each rolling window of a scope, the tallies come first,
in the order of their steps, and then the ranking. The sealed periods and the payouts come last
(`season_pieces`). Writing a piece twice has the effect of writing it once.

Derived data is left out, such as the ranking prepared for the next step of a rolling window.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.packing import pack, split_texts, unpack

from .closing import SealedPeriod, WindowClosing
from .hiding import Hiding
from .lifecycle import Floors
from .season_pieces import SeasonPiece

PIECE_ROWS = 4_096
"""The number of rows in a piece."""
GROUP_BYTES = 1 << 20
"""The total size of the pieces that are written together; a larger piece is written alone."""


REST_BYTES = 1 << 20
"""The approximate size of the parts in which a large origin is sent."""


class LastRefresh(Struct, frozen=True, array_like=True):
    """The refresh state of a window. `now_ms` is the time of the last refresh, None before the
    first one. `waiting` is False if another refresh would find no members, so that none is due."""

    now_ms: int | None
    waiting: bool


class CopyClock(Struct, frozen=True):
    """The time of a store: whether its boards use event time, and its current time. In event time,
    the current time is the latest time of any board."""

    event_time: bool
    now_ms: int


class UnfinishedCopy(Struct, frozen=True):
    """A board that is being copied: its uid and definition."""

    uid: str
    definition: bytes


class Origin(Struct, frozen=True, array_like=True):
    """The part of a board's state that the pieces of a copy do not have.

    `now_ms` is the time up to which the board has been advanced, and `running` has the step of each
    rolling window at that time. `ends` has, for each shard, the sequence number and the tag of the
    newest block of changes. `state` is a text that changes with every write; it is not copied.
    `hidden` has the hidden members with their hidings, `closing` the closed periods of each window.
    """

    definition: bytes
    uid: str
    version: int
    created_ms: int
    now_ms: int
    event_time: bool
    floors: Floors
    positions: dict[str, str]
    running: dict[str, int]
    shown: dict[str, LastRefresh]
    ends: list[tuple[int, int]]
    state: str = ""
    hidden: list[tuple[bytes, Hiding]] = []
    closing: dict[str, WindowClosing] = {}

    @property
    def board_name(self) -> str:
        """The name in the definition."""
        return _names.decode(self.definition).name

    def unsealed(self) -> str | None:
        """Return the name of a window with closed periods that are not sealed, or of a rolling
        window with rankings of past steps that are not closed yet; None if there is no such
        window."""
        for window, closing in self.closing.items():
            running = self.running.get(window)
            if closing.closed or (
                running is not None and any(instance < running for instance in closing.open)
            ):
                return window
        return None

    def head(self) -> "Origin":
        """Return the origin without its hidden members and its sealed periods."""
        closing = {
            window: WindowClosing(
                each.since_ms, each.open, each.closed, {}, each.trimmed, each.floor
            )
            for window, each in self.closing.items()
        }
        return replace(self, hidden=[], closing=closing)

    def rest(self) -> Iterator["OriginRest"]:
        """Yield the hidden members and the sealed periods, in parts of about REST_BYTES."""
        part, nbytes = OriginRest([], {}), 0
        for member, hiding in self.hidden:
            part.hidden.append((member, hiding))
            nbytes += len(member) + len(hiding.reason) + 60
            if nbytes > REST_BYTES:
                yield part
                part, nbytes = OriginRest([], {}), 0
        for window, closing in self.closing.items():
            for instance, seal in closing.sealed.items():
                part.sealed.setdefault(window, {})[instance] = seal
                nbytes += 150 + len(seal.prizes) + sum([len(each) + 4 for each in seal.hidden])
                if nbytes > REST_BYTES:
                    yield part
                    part, nbytes = OriginRest([], {}), 0
        if nbytes:
            yield part

    def with_rest(self, rest: "OriginRest") -> "Origin":
        """Return the origin with one more part of its rest. Adding the same part again changes
        nothing."""
        closing = dict(self.closing)
        for window, sealed in rest.sealed.items():
            each = closing.get(window, WindowClosing())
            closing[window] = WindowClosing(
                *(each.since_ms, each.open, each.closed, {**each.sealed, **sealed}),
                *(each.trimmed, each.floor),
            )
        hidden = list({**dict(self.hidden), **dict(rest.hidden)}.items())
        return replace(self, hidden=hidden, closing=closing)

    def equals_except_time(self, other: "Origin") -> bool:
        """Return whether `other` is equal except for the time."""
        return replace(self, now_ms=0) == replace(other, now_ms=0)


class OriginRest(Struct, frozen=True, array_like=True, tag="rest"):
    """A part of an origin that is sent after it, since the origin would be too large: hidden
    members with their hidings, and sealed periods by window and instance."""

    hidden: list[tuple[bytes, Hiding]]
    sealed: dict[str, dict[int, SealedPeriod]]


class RankingRows(Struct, frozen=True, array_like=True, tag="rows"):
    """Rows of a ranking, or of the tally of a step.

    `instance` is the instance in the `RankingKey`. In a rolling window `running` is the running
    step. `columns` has the 64-bit integers of all rows, one column after the other: the columns of
    the score, the tie stamp, the exact time, and the newest step of each member. The tie stamp and
    the exact time are left out if the board does not store them; the newest step is only in
    rankings of rolling windows that are not refreshed.
    """

    window: str
    instance: int
    scope: str
    running: int | None
    is_tally: bool
    members: bytes
    lengths: bytes
    columns: list[bytes]

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return len(self.members) + len(self.lengths) + sum(map(len, self.columns))

    def names(self) -> list[bytes]:
        """Return the members."""
        return split_texts(self.members, self.lengths)

    def words(self) -> list["array[int]"]:
        """Return the words, column by column."""
        return [unpack(column, self.size) for column in self.columns]


class EventIds(Struct, frozen=True, array_like=True, tag="ids"):
    """Remembered event ids in the order of their acceptance.

    The bytes of each id are the length of the member in one byte, the member, and the id.
    """

    groups: list[tuple[int, list[bytes]]]

    @property
    def size(self) -> int:
        """The number of ids."""
        return sum([len(keys) for _, keys in self.groups])

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return sum([len(key) for _, keys in self.groups for key in keys])


class MemberValues(Struct, frozen=True, array_like=True, tag="data"):
    """The JSON data of members."""

    items: list[tuple[bytes, bytes]]

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.items)

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return sum([len(member) + len(value) for member, value in self.items])


class ClearedRows(Struct, frozen=True, array_like=True, tag="cleared"):
    """Members that a copy has to remove from all rankings and tallies of a scope, before their
    current rows are written again. In the scope of all events, their data is removed, too."""

    scope: str
    members: list[bytes]

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def nbytes(self) -> int:
        """About how many bytes the piece takes."""
        return sum(map(len, self.members))


IndexPiece = RankingRows | EventIds | MemberValues
"""A piece that comes from an index."""
ChangedIndexPiece = IndexPiece | ClearedRows
"""A piece of an index that is written while it is copied."""
Piece = IndexPiece | SeasonPiece
ChangedPiece = Piece | ClearedRows
"""A piece of a board that is written while it is copied."""


class Renewed(Struct, frozen=True, array_like=True, tag="origin"):
    """A newer origin of an unfinished copy. It replaces the earlier one."""

    origin: Origin


LoggedPiece = ChangedIndexPiece | Renewed | OriginRest
"""What a store logs of an unfinished copy."""


PieceT = TypeVar("PieceT", Piece, ChangedPiece, IndexPiece, ChangedIndexPiece)


class _Named(Struct):
    name: str


_names = msgspec.json.Decoder(_Named)
_encoder = msgspec.msgpack.Encoder()
_origins = msgspec.msgpack.Decoder(Origin)
_pieces: msgspec.msgpack.Decoder[LoggedPiece] = msgspec.msgpack.Decoder(LoggedPiece)

encode = _encoder.encode


def decode_origin(body: bytes) -> Origin:
    """Return an origin from its bytes."""
    return _origins.decode(body)


def decode_piece(body: bytes) -> LoggedPiece:
    """Return a piece from its bytes."""
    return _pieces.decode(body)


def rows_of(
    window: str,
    instance: int,
    scope: str,
    running: int | None,
    members: Sequence[bytes],
    columns: Iterable["array[int]"],
    *,
    is_tally: bool,
) -> RankingRows:
    """Return rows of members, in their order."""
    return RankingRows(
        window,
        instance,
        scope,
        running,
        is_tally,
        b"".join(members),
        bytes(map(len, members)),
        list(map(pack, columns)),
    )


def grouped(pieces: Iterator[PieceT]) -> Iterator[list[PieceT]]:
    """Yield pieces in groups to be written together, since a board may have many small ones."""
    group: list[PieceT] = []
    size = nbytes = 0
    for piece in pieces:
        if group and (size + piece.size > PIECE_ROWS or nbytes + piece.nbytes > GROUP_BYTES):
            yield group
            group, size, nbytes = [], 0, 0
        group.append(piece)
        size, nbytes = size + piece.size, nbytes + piece.nbytes
    if group:
        yield group
