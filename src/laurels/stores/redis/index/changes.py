"""Encodes changes for the scripts that record them, and decodes the blocks that scripts return."""

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from laurels.core.changes.blocks import (
    Block,
    EventBlock,
    MendBlock,
    decode_blocks,
    encode_blocks,
)
from laurels.core.changes.counted_batch import begin_block, complete_block
from laurels.core.changes.cursor import BlockPlace
from laurels.core.plan import Plan
from laurels.model.batch import Batch
from laurels.model.rules import Rules
from laurels.stores.redis.remote import Opened, ShardChanges

from .coding import as_text

_ENTRY = 6
"""The number of items in a script's answer for each block."""


def encode_batch_changes(
    board: Opened, batch: Batch, plan: Plan, *, expires: bool
) -> dict[str, Any]:
    """Encode the part of a batch's block that is known before the batch is counted."""
    rules = board.rules
    block = begin_block(rules, batch, plan)
    return _encoded(rules, block, batch.tag, expires=expires) | {
        "count": int(batch.position is not None),
        "windows": [place + 1 for place in rules.recorded],
        "absolute": batch.absolute,
    }


def encode_write_changes(board: Opened, recorded: Block, *, expires: bool) -> dict[str, Any]:
    """Encode the block of a write that is not a batch."""
    return _encoded(board.rules, recorded, recorded.tag, expires=expires)


def _encoded(rules: Rules, block: Block, tag: int, *, expires: bool) -> dict[str, Any]:
    return {
        "tag": str(tag),
        "unsent": block.count - block.sent,
        "block": as_text(encode_blocks([block])),
        "keep": rules.changes_ms,
        "most": rules.changes_max,
        "expires": expires,
    }


def decode_changes(rules: Rules, ends: Sequence[int], parts: Sequence[bytes]) -> ShardChanges:
    """Decode blocks of changes of a shard, as `changes_read.lua` returns them. `ends` has five
    numbers: the sequence number and the tag of the newest block, the sequence number and the tag of
    the newest block that was removed, and the number of changes for sinks that were ever added."""
    newest, tag, floor, floor_tag, sent = ends
    blocks = [
        _block(rules, *parts[first : first + _ENTRY - 2]) for first in range(0, len(parts), _ENTRY)
    ]
    clears = [int(parts[first + _ENTRY - 1]) for first in range(0, len(parts), _ENTRY)]
    # `sent` counts the changes for sinks in all blocks ever added. The fifth part of an entry is
    # this count right after the block was added. So `waiting` is the number of changes in the first
    # of these blocks and in all later ones.
    waiting = sent - int(parts[_ENTRY - 2]) + blocks[0].sent if blocks else 0
    places = BlockPlace(floor, floor_tag), BlockPlace(newest, tag)
    return ShardChanges(*places, blocks, waiting, clears)


def _block(rules: Rules, sequence: bytes, tag: bytes, encoded: bytes, result: bytes) -> Block:
    (block,) = decode_blocks(encoded)
    if isinstance(block, MendBlock):
        done = bytes(map(int, msgspec.msgpack.decode(result)))
        return replace(block.taken(done), sequence=int(sequence), tag=int(tag))
    if not isinstance(block, EventBlock):
        return replace(block, sequence=int(sequence), tag=int(tag))
    codes, traced, added = msgspec.msgpack.decode(result)
    words = [[_column(column) for column in columns] for columns in traced]
    totals = [_column(column) for column in added] if block.absolute else None
    return complete_block(
        rules, block, int(sequence), int(tag), bytes(map(int, codes)), words, totals
    )


def _column(payload: Sequence[Any]) -> "array[int]":
    return array("q", [int(word or 0) for word in payload])
