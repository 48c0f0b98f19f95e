"""The blocks of log records other than batches of events. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from laurels.core.hiding import Hiding
from laurels.core.record import (
    Close,
    Confirm,
    Disqualify,
    Erase,
    Hide,
    MendRanking,
    Position,
    Seal,
    Show,
)
from laurels.model.labels import labels_of
from laurels.model.rules import Rules

from .answers import SINK_PREFIX, ChangeKind
from .blocks import MendBlock, WriteBlock


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
    return write_block(record, "position", None, _encode_position(*record.position), sequence)


def _encode_position(source: str, position: str) -> bytes:
    return msgspec.json.encode({"source": source, "position": position})


def hiding_block(record: Hide | Show, hiding: Hiding | None) -> WriteBlock:
    """Return the block of a record that hides a member or shows it again. `hiding` is the hiding
    that the member has after the record, on its board or on all boards; None if it has none."""
    if hiding is None:
        return write_block(record, "show", record.member)
    return write_block(record, "hide", record.member, encode_hiding(hiding))


def encode_hiding(hiding: Hiding) -> bytes:
    """Return a hiding as the data of a change."""
    return msgspec.json.encode(hiding.described())


def undelete_blocks(
    record: TaggedRecord,
    definition: bytes,
    hidings: Iterable[tuple[bytes, Hiding]],
    positions: Mapping[str, str],
) -> Iterator[WriteBlock]:
    """Yield the blocks of a record that restores a board: its definition, the members that it
    hides, and the positions of its sources. Readers dropped all of this when the board was
    deleted."""
    yield write_block(record, "undelete", None, definition)
    for member, hiding in hidings:
        if not hiding.is_over(record.now_ms):
            yield write_block(record, "hide", member, encode_hiding(hiding))
    for source, position in positions.items():
        if position and not source.startswith(SINK_PREFIX):
            yield write_block(record, "position", None, _encode_position(source, position))


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


def erase_block(record: Erase) -> WriteBlock:
    """Return the block of a record that erases a member."""
    noted = {"token": record.token, "reason": record.reason}
    return write_block(record, "erase", record.member, msgspec.json.encode(noted))


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
