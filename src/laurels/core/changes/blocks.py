"""Blocks: the changes of one record, in columns. Pure.

A store keeps changes in *blocks*: one block for each record that changed a board, with the columns
of the counted batch. A block is converted to changes only when it is read, so keeping it costs
little. The blocks of a shard are numbered from 1 without gaps, and each has the random tag of its
record. A cursor names the last change read and the tag of its block. If a store has lost the end of
its data, and has written other blocks under the same numbers since, the tags differ.
"""

from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.packing import pack, split_texts, unpack
from laurels.errors import LogDamaged
from laurels.model.labels import Values

from .answers import SINK_PREFIX, ChangeKind
from .payout_blocks import PayoutBlock


def is_sent(position: tuple[str, str] | None) -> bool:
    """Return whether sinks send the change that reports this position; False without a position.
    They do not send positions of sinks: each change that a sink sends moves the sink's position, so
    there would be no end."""
    return position is not None and not position[0].startswith(SINK_PREFIX)


class TracedRanking(Struct, frozen=True, array_like=True):
    """The effect of a block's events on the rankings of one ranking spec: a window, and the names
    of the labels whose values make the scopes.

    `route` has for each event the index, in the block's `targets`, of the ranking in which the
    event counted, or a negative number if it counted in none. A single index stands for all events.
    `words` are the words of the member's entry as each event left it, column by column.
    """

    route: int | bytes
    words: tuple[bytes, ...]


class EventBlock(Struct, frozen=True, array_like=True, tag="events"):
    """The changes of one batch of events, column by column, without the refused ones.

    `targets` are the rankings: window, instance and scope. `added` has the values of the events in
    units of the last decimal place; for an event with an absolute score it has the difference
    between the new and the old score.
    """

    sequence: int
    tag: int
    now_ms: int
    size: int
    members: bytes
    lengths: bytes
    added: tuple[bytes, ...]
    ages: bytes | None
    ids: list[bytes | None] | None
    absolute: bool
    labels: tuple[tuple[str, ...], tuple[Values, ...], bytes] | None
    targets: tuple[tuple[str, int, str], ...]
    rankings: tuple[TracedRanking, ...]
    position: tuple[str, str] | None = None

    @property
    def count(self) -> int:
        """The number of changes in the block."""
        return self.size + (self.position is not None)

    @property
    def sent(self) -> int:
        """The number of changes that sinks send."""
        return self.size + is_sent(self.position)


class WriteBlock(Struct, frozen=True, array_like=True, tag="write"):
    """The single change of a write that is not a batch of events."""

    sequence: int
    tag: int
    now_ms: int
    kind: ChangeKind
    member: bytes | None = None
    data: bytes | None = None

    @property
    def count(self) -> int:
        """The number of changes in the block."""
        return 1

    @property
    def sent(self) -> int:
        """The number of changes that sinks send."""
        if self.kind != "position" or self.data is None:
            return 1
        noted = msgspec.json.decode(self.data)
        return is_sent((noted["source"], noted["position"]))


class MendBlock(Struct, frozen=True, array_like=True, tag="mend"):
    """The changes of a record that replaced entries of a ranking. `target` has the window, instance
    and scope of the ranking. The members and their new entries follow, column by column."""

    sequence: int
    tag: int
    now_ms: int
    target: tuple[str, int, str]
    members: bytes
    lengths: bytes
    present: bytes
    words: tuple[bytes, ...]

    @property
    def count(self) -> int:
        """The number of changes in the block."""
        return len(self.present)

    @property
    def sent(self) -> int:
        """The number of changes that sinks send, which is all of them."""
        return len(self.present)

    def taken(self, done: bytes | bytearray) -> "MendBlock":
        """Return the block with only those entries whose byte in `done` is 1."""
        if done.count(1) == len(done):
            return self
        size, members = len(self.present), split_texts(self.members, self.lengths)
        kept = [i for i, is_done in enumerate(done) if is_done]
        columns = [unpack(column, size) for column in self.words]
        return replace(
            self,
            members=b"".join([members[i] for i in kept]),
            lengths=bytes([self.lengths[i] for i in kept]),
            present=bytes([self.present[i] for i in kept]),
            words=tuple([pack(array("q", [c[i] for i in kept])) for c in columns]),
        )


Block = EventBlock | WriteBlock | MendBlock | PayoutBlock


_encoder = msgspec.msgpack.Encoder()


_decoder = msgspec.msgpack.Decoder(list[Block])


def encode_blocks(blocks: Sequence[Block]) -> bytes:
    """Encode blocks as bytes."""
    return _encoder.encode(blocks)


def decode_blocks(body: bytes) -> list[Block]:
    """Decode blocks from bytes. Raises LogDamaged if they cannot be read."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"stored changes cannot be read: {error}") from error
