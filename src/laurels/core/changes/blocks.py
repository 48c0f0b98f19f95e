"""Blocks: the changes of one record, in columns. Pure.

A store keeps changes in *blocks*: one block for each record that changed a board, in columns, as it
was counted. A block is turned into changes when somebody reads it, so that keeping it costs little.
Blocks of a shard are numbered from 1 without a gap, and each has the random tag of its record. A
cursor names the last change read, with that tag, so a store that lost its end and went on is
noticed.
"""

from array import array
from collections.abc import Sequence
from operator import neg
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.core.board_state import BoardState
from laurels.core.index import COUNTED, Outcomes
from laurels.core.plan import Plan
from laurels.core.record import Position
from laurels.engine.batch.packing import behind, cut, pack, unpack
from laurels.errors import (
    LogDamaged,
)
from laurels.model.event import Batch
from laurels.model.labels import Values
from laurels.model.rules import Rules

from .answers import ChangeKind

_COUNTED = bytes(code in COUNTED for code in range(256))


class TracedRanking(Struct, frozen=True, array_like=True):
    """What a block's events did in one window and kind of scope.

    `route` has for each event the index of the ranking in `targets` it counted in, below 0 for
    none; or the one that holds for all. `words` are the entries after each event, column by column.
    """

    route: int | bytes
    words: tuple[bytes, ...]


class EventBlock(Struct, frozen=True, array_like=True, tag="events"):
    """The changes of one batch of events, column by column; those that were refused are left out.

    `targets` are the rankings: window, instance and scope. `added` is what each event added to the
    columns; without it, the values themselves.
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
        """How many changes the block stands for."""
        return self.size + (self.position is not None)


class WriteBlock(Struct, frozen=True, array_like=True, tag="write"):
    """The one change of a write that is no event."""

    sequence: int
    tag: int
    now_ms: int
    kind: ChangeKind
    member: bytes | None = None
    data: bytes | None = None

    @property
    def count(self) -> int:
        """How many changes the block stands for."""
        return 1


Block = EventBlock | WriteBlock


class TaggedRecord(Protocol):
    """A log record of a board that has a tag."""

    @property
    def now_ms(self) -> int: ...
    @property
    def tag(self) -> int: ...


def write_block(
    record: TaggedRecord,
    kind: ChangeKind,
    member: bytes | None = None,
    data: bytes | None = None,
    sequence: int = 0,
) -> WriteBlock:
    """Return the block of a record that is no batch of events."""
    return WriteBlock(sequence, record.tag, record.now_ms, kind, member, data)


def position_block(record: Position, sequence: int = 0) -> WriteBlock:
    """Return the block of a position that no event came with."""
    source, position = record.position
    noted = msgspec.json.encode({"source": source, "position": position})
    return write_block(record, "position", None, noted, sequence)


_encoder = msgspec.msgpack.Encoder()


_decoder = msgspec.msgpack.Decoder(list[Block])


def encode_blocks(blocks: Sequence[Block]) -> bytes:
    """Return blocks as bytes."""
    return _encoder.encode(blocks)


def decode_blocks(body: bytes) -> list[Block]:
    """Return the blocks that bytes stand for; LogDamaged where they cannot be read."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"kept changes cannot be read: {error}") from error


class CountedBatch(Struct, frozen=True):
    """A batch as it was counted: what a block is made of, once somebody needs it."""

    rules: Rules
    sequence: int
    batch: Batch
    plan: Plan
    outcomes: Outcomes

    @property
    def now_ms(self) -> int:
        return self.batch.now_ms

    @property
    def tag(self) -> int:
        return self.batch.tag

    @property
    def count(self) -> int:
        """How many changes the block has."""
        return self.outcomes.counted + (self.batch.position is not None)

    def block(self) -> EventBlock:
        """Return the block of the events that counted. O(size)."""
        begun = begin_block(self.rules, self.batch, self.plan)
        trace = self.outcomes.trace
        if trace is None:  # no event counted, and only the position changed
            return replace(_taken(begun, []), sequence=self.sequence, tag=self.tag)
        words = [columns for _, columns in trace.rankings]
        return complete_block(
            self.rules, begun, self.sequence, self.tag, self.outcomes.codes, words, trace.added
        )


def begin_block(rules: Rules, batch: Batch, plan: Plan) -> EventBlock:
    """Return the block of a batch as far as it is known before the batch is counted: with all its
    events, and without their entries."""
    return EventBlock(
        0,
        0,
        batch.now_ms,
        batch.size,
        batch.members,
        bytes(batch.lengths),
        tuple([pack(column) for column in batch.values]),
        None if batch.ats is None else pack(behind(batch.now_ms, batch.ats)),
        batch.ids,
        batch.absolute,
        None
        if batch.labels is None
        else (batch.labels.names, batch.labels.groups, pack(batch.labels.each)),
        tuple([(key.window, key.instance, key.scope) for key, _ in plan.targets]),
        tuple([TracedRanking(_packed_route(plan.routes[place]), ()) for place in rules.recorded]),
        batch.position,
    )


def complete_block(
    rules: Rules,
    begun: EventBlock,
    sequence: int,
    tag: int,
    codes: bytes | bytearray,
    words: Sequence[Sequence["array[int]"]],
    added: Sequence["array[int]"] | None,
) -> EventBlock:
    """Return the block of the events that counted, by their outcomes and their entries after them,
    column by column for each ranking. `added` is what absolute events added, as words."""
    if added is not None:
        signs = [column.sign for column in rules.columns]
        plain = zip(added, signs, strict=True)
        units = [column if s > 0 else array("q", map(neg, column)) for column, s in plain]
        begun = replace(begun, added=tuple(map(pack, units)))
    rankings = tuple(
        [
            TracedRanking(ranking.route, tuple(map(pack, columns)))
            for ranking, columns in zip(begun.rankings, words, strict=True)
        ]
    )
    whole = replace(begun, sequence=sequence, tag=tag, rankings=rankings)
    counted = codes.translate(_COUNTED)
    if counted.count(1) == begun.size:
        return whole
    return _taken(whole, [i for i, is_counted in enumerate(counted) if is_counted])


def _taken(block: EventBlock, kept: Sequence[int]) -> EventBlock:
    """Return a block with some of its events."""
    size, members = block.size, cut(block.members, block.lengths)

    def take(column: bytes) -> bytes:
        values = unpack(column, size)
        return pack(array("q", [values[i] for i in kept]))

    return replace(
        block,
        size=len(kept),
        members=b"".join([members[i] for i in kept]),
        lengths=bytes([block.lengths[i] for i in kept]),
        added=tuple(map(take, block.added)),
        ages=None if block.ages is None else take(block.ages),
        ids=None if block.ids is None else [block.ids[i] for i in kept],
        labels=None
        if block.labels is None
        else (block.labels[0], block.labels[1], take(block.labels[2])),
        rankings=tuple(
            [
                TracedRanking(
                    ranking.route if isinstance(ranking.route, int) else take(ranking.route),
                    tuple(map(take, ranking.words)),
                )
                for ranking in block.rankings
            ]
        ),
    )


def _packed_route(route: "int | array[int]") -> int | bytes:
    return route if isinstance(route, int) else pack(array("q", route))


class ChangeRecorder(Protocol):
    """Takes the blocks of boards that keep their changes, in order. It is called while reads wait,
    so it must be fast."""

    def record(self, state: BoardState, block: CountedBatch | WriteBlock) -> None:
        """Take the next block of a board."""

    def restart(self, state: BoardState) -> None:
        """Keep nothing up to the state's sequence: a board keeps changes again that kept none for a
        while, and what it has from before does not lead on to what comes."""

    def forget(self, board: int) -> None:
        """Forget the blocks of a board that was deleted, by its number."""
