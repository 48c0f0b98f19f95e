"""Blocks: the changes of one record, in columns. Pure.

A store keeps changes in *blocks*: one block for each record that changed a board, with the columns
of the counted batch. A block is converted to changes only when it is read, so keeping it costs
little. The blocks of a shard are numbered from 1 without gaps, and each has the random tag of its
record. A cursor names the last change read and the tag of its block. If a store has lost the end of
its data, and has written other blocks under the same numbers since, the tags differ.
"""

from array import array
from collections.abc import Sequence
from operator import neg
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.core.board_state import BoardState
from laurels.core.hiding import Hiding
from laurels.core.index import COUNTED, Outcomes
from laurels.core.plan import Plan
from laurels.core.record import (
    Close,
    Confirm,
    Disqualify,
    Hide,
    MendRanking,
    Position,
    Seal,
    Show,
)
from laurels.engine.batch.packing import differences, pack, split_texts, unpack
from laurels.errors import (
    LogDamaged,
)
from laurels.model.batch import Batch
from laurels.model.labels import Values, labels_of
from laurels.model.rules import Rules

from .answers import SINK_PREFIX, ChangeKind


def is_sent(position: tuple[str, str] | None) -> bool:
    """Return whether sinks send the change that reports this position. They do not send positions
    of sinks: each change that a sink sends moves the sink's position, so there would be no end.
    """
    return position is not None and not position[0].startswith(SINK_PREFIX)


_COUNTED = bytes(code in COUNTED for code in range(256))


class TracedRanking(Struct, frozen=True, array_like=True):
    """The effect of a block's events on the rankings of one ranking spec: a window, and the names
    of the labels whose values make the scopes.

    `route` has for each event the index in `targets` of the ranking in which the event counted, or
    a negative number if it counted in none. A single index stands for all events. `words` are the
    words of the member's entry after each event, column by column.
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


Block = EventBlock | WriteBlock | MendBlock


class TaggedRecord(Protocol):
    """A log record of a board, with a time and a tag."""

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
    """Return the block of a record other than a batch of events."""
    return WriteBlock(sequence, record.tag, record.now_ms, kind, member, data)


def position_block(record: Position, sequence: int = 0) -> WriteBlock:
    """Return the block of a position that was committed without events."""
    source, position = record.position
    noted = msgspec.json.encode({"source": source, "position": position})
    return write_block(record, "position", None, noted, sequence)


def hiding_block(record: Hide | Show, hiding: Hiding | None) -> WriteBlock:
    """Return the block of a record that hides a member or shows it again. `hiding` is the hiding
    that the member has after the record, on its board or on all boards; None if it has none."""
    if hiding is None:
        return write_block(record, "show", record.member)
    return write_block(record, "hide", record.member, encode_hiding(hiding))


def encode_hiding(hiding: Hiding) -> bytes:
    """Return a hiding as the data of a change."""
    return msgspec.json.encode(hiding.described())


def close_block(rules: Rules, record: Close) -> WriteBlock:
    """Return the block of a record that closes a period."""
    noted = {"window": record.window, "period": _label_of(rules, record.window, record.instance)}
    return write_block(record, "close", None, msgspec.json.encode(noted))


def seal_block(rules: Rules, record: Seal) -> WriteBlock:
    """Return the block of a record that seals a period."""
    noted = {
        "window": record.window,
        "period": _label_of(rules, record.window, record.instance),
        "revision": record.revision,
        "entries": record.entries,
        "digest": record.digest.hex(),
    }
    return write_block(record, "seal", None, msgspec.json.encode(noted))


def confirm_block(record: Confirm) -> WriteBlock:
    """Return the block of a record that confirms a payout."""
    noted = {"payout": record.payout, "reference": record.reference}
    return write_block(record, "confirm", record.member, msgspec.json.encode(noted))


def disqualify_block(rules: Rules, record: Disqualify) -> WriteBlock:
    """Return the block of a record that makes a new revision of a period without a member."""
    noted = {
        "window": record.window,
        "period": _label_of(rules, record.window, record.instance),
        "labels": None if record.scope is None else labels_of(record.scope),
        "reason": record.reason,
        "revision": record.revision,
        "entries": record.entries,
        "digest": record.digest.hex(),
    }
    return write_block(record, "disqualify", record.member, msgspec.json.encode(noted))


def _label_of(rules: Rules, window: str, instance: int) -> str | None:
    """Return the label of a period, None for the only period of a window."""
    return rules.windows[window].period_of(instance).label or None


def mend_block(record: MendRanking) -> MendBlock:
    """Return the block of a record that replaces entries. It has all entries of the record;
    `MendBlock.taken` later leaves out those that replaced nothing."""
    return MendBlock(
        0,
        record.tag,
        record.now_ms,
        (record.window, record.instance, record.scope),
        record.members,
        record.lengths,
        record.entries.present,
        record.entries.words,
    )


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


class CountedBatch(Struct, frozen=True):
    """A counted batch. Its block is made when it is needed."""

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
        """The number of changes in the block."""
        return self.outcomes.counted + (self.batch.position is not None)

    @property
    def sent(self) -> int:
        """The number of changes that sinks send."""
        return self.outcomes.counted + is_sent(self.batch.position)

    def block(self) -> EventBlock:
        """Return the block of the events that counted. O(size)."""
        begun = begin_block(self.rules, self.batch, self.plan)
        trace = self.outcomes.trace
        if trace is None:  # no event counted, so only the position has changed
            return replace(_taken(begun, []), sequence=self.sequence, tag=self.tag)
        words = [columns for _, columns in trace.rankings]
        return complete_block(
            self.rules, begun, self.sequence, self.tag, self.outcomes.codes, words, trace.added
        )


def begin_block(rules: Rules, batch: Batch, plan: Plan) -> EventBlock:
    """Return the block of a batch before it is counted: with all its events, but without their
    entries."""
    return EventBlock(
        0,
        0,
        batch.now_ms,
        batch.size,
        batch.members,
        bytes(batch.lengths),
        tuple([pack(column) for column in batch.values]),
        None if batch.ats is None else pack(differences(batch.now_ms, batch.ats)),
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
    """Return the block of the events that counted. `codes` are the outcomes of all events. `words`
    has, for each ranking, the entries after each event, column by column. `added` has, as words,
    the amounts by which events with an absolute score changed the scores."""
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
    """Return a block with only some of its events."""
    size, members = block.size, split_texts(block.members, block.lengths)

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


RecordedBlock = CountedBatch | WriteBlock | MendBlock


class ChangeRecorder(Protocol):
    """Receives the blocks of boards that keep their changes, in order. It is called while reads
    wait, so it must be fast."""

    def record(self, state: BoardState, block: RecordedBlock) -> None:
        """Record the next block of a board."""

    def restart(self, state: BoardState) -> None:
        """Drop all blocks up to the state's sequence number.

        This is called when a board begins to keep changes again. The changes of the time in which
        it kept none are missing.
        """

    def forget(self, board: int) -> None:
        """Drop the blocks of a deleted board, by its number."""
