"""The shards of a board: which one a member is in, and calls that go to several of them."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar
from zlib import crc32

from msgspec.structs import replace

from .remote import Behind, Opened, Stale, Unturned

REFUSED = (Stale, Behind, Unturned)
"""What a shard raises that has done nothing and is asked again."""

T = TypeVar("T")


def shard_of(member: bytes, shards: int) -> int:
    """The shard a member is in: CRC-32 of its id, modulo. It is part of what is stored: a board
    that counted by another rule would count the same member twice."""
    return crc32(member) % shards


def shards(board: Opened) -> list[Opened]:
    """The shards of a board, each as a board of its own."""
    return [replace(board, shard=shard) for shard in range(board.rules.shards)]


def home(board: Opened, member: bytes) -> Opened:
    """The shard a member is in."""
    return replace(board, shard=shard_of(member, board.rules.shards))


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What calls answer that are made at once; when all have ended, the worst of their errors."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:
        raise worst(errors)
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def worst(errors: Iterable[BaseException]) -> BaseException:
    """The error to tell of several: one that may have counted, before one that has not, before a
    refusal after which the caller asks again."""
    return max(errors, key=_badness)


def _badness(error: BaseException) -> tuple[int, int]:
    if isinstance(error, Behind):
        return 1, error.now_ms
    if isinstance(error, REFUSED):
        return (2 if isinstance(error, Stale) else 0), 0
    return (4 if getattr(error, "may_have_applied", False) else 3), 0
