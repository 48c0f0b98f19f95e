"""The shards of a board: which shard has a member, and how to call several shards."""

import asyncio
from array import array
from collections.abc import Awaitable, Iterable
from typing import TypeVar
from zlib import crc32

from msgspec.structs import replace

from laurels.core.hidden import Exclusion
from laurels.core.record import EntryRows, MendRanking
from laurels.engine.batch.packing import pack, split_texts, unpack
from laurels.stores.redis.outdated import (
    ClosingsMoved,
    DefinitionOutdated,
    PassesNotReady,
    PlanExpired,
    ScopesNotReady,
    StepNotReady,
)
from laurels.stores.redis.remote import Opened

REFUSED = (DefinitionOutdated, PlanExpired, StepNotReady, PassesNotReady, ClosingsMoved)
"""The errors by which a shard refuses a call without changing anything; the call is repeated."""

T = TypeVar("T")


def shard_of(member: bytes, shards: int) -> int:
    """Return the shard of a member: the CRC-32 of its id modulo the number of shards. This rule
    must never change, since otherwise a member of a stored board could be in two shards."""
    return crc32(member) % shards


def shards(board: Opened) -> list[Opened]:
    """Return the shards of a board. Each can be used as a board of its own."""
    return [replace(board, shard=shard) for shard in range(board.rules.shards)]


def home(board: Opened, member: bytes) -> Opened:
    """Return the shard of a member. It can be used as a board of its own."""
    return replace(board, shard=shard_of(member, board.rules.shards))


def mends_by_shard(record: MendRanking, shards: int) -> dict[int, MendRanking]:
    """Divide the entries of a record by the shards of their members."""
    if shards == 1:
        return {0: record}
    members = split_texts(record.members, record.lengths)
    places: dict[int, list[int]] = {}
    for i, member in enumerate(members):
        places.setdefault(shard_of(member, shards), []).append(i)

    def take(rows: EntryRows, kept: list[int]) -> EntryRows:
        columns = [unpack(column, len(members)) for column in rows.words]
        return EntryRows(
            bytes([rows.present[i] for i in kept]),
            tuple([pack(array("q", [column[i] for i in kept])) for column in columns]),
        )

    return {
        shard: replace(
            record,
            members=b"".join([members[i] for i in kept]),
            lengths=bytes([record.lengths[i] for i in kept]),
            entries=take(record.entries, kept),
            expected=None if record.expected is None else take(record.expected, kept),
        )
        for shard, kept in places.items()
    }


def hidden_in(hidden: Exclusion | None, shard: int, count: int) -> Exclusion | None:
    """Return the hidden members of a shard; None if there are none."""
    if hidden is None:
        return None
    part = hidden.divided(count, shard_of)[shard]
    return part if part.members else None


def label_replica(board: Opened) -> Opened:
    """Return the label replica of a board in several shards. It can be used as a board of its
    own."""
    count = board.rules.shards
    return replace(board, rules=board.rules.by_label, shard=count, feeds=count)


def parts_of(board: Opened) -> list[Opened]:
    """Return the parts of a board: its shards, and its label replica if there is one."""
    return (
        [*shards(board), label_replica(board)] if board.rules.has_label_replica else shards(board)
    )


async def gather(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await calls concurrently. When all have ended, return their results or raise the worst
    error."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:
        raise worst(errors)
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def worst(errors: Iterable[BaseException]) -> BaseException:
    """Return the error to raise if several calls failed. An error after which events may have been
    counted comes first, then any other error that is not a refusal, then a refusal. After a refusal
    the caller tries again, so it must not hide another error. If all calls were refused because of
    stale scopes, the error names the scopes of all these calls."""
    all_errors = list(errors)
    error = max(all_errors, key=_severity)
    if isinstance(error, StepNotReady):
        stale = [each for each in all_errors if isinstance(each, StepNotReady)]
        kind = (
            ScopesNotReady
            if any(isinstance(each, ScopesNotReady) for each in stale)
            else StepNotReady
        )
        return kind(scope for each in stale for scope in each.scopes)
    return error


def _severity(error: BaseException) -> tuple[int, int]:
    if isinstance(error, PlanExpired):
        return 1, error.now_ms
    if isinstance(error, REFUSED):
        return (2 if isinstance(error, DefinitionOutdated) else 0), 0
    return (4 if getattr(error, "may_have_applied", False) else 3), 0
