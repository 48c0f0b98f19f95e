"""Requests with an Idempotency-Key: the same one gets the same answer, another one is refused.

The ids of its events are remembered by the board, durably, so a repeat is never counted twice
whatever becomes of this process. What is remembered here is only the answer, so that a caller whose
first answer was lost gets that one and not a list of duplicates.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct

from laurels.errors.service import IdempotencyMismatch, InvalidIdempotencyKey
from laurels.model.validation import safe_repr

MOST = 20_000
MOST_BYTES = 64 << 20
_LARGE = 1 << 20

Answered = tuple[bytes, str, int]
"""Content, content type, status."""


class _Kept(Struct):
    digest: bytes
    answer: "asyncio.Future[Answered] | None"
    nbytes: int = 0


def judged_key(key: str) -> str:
    """Return the key of a request. Raise InvalidIdempotencyKey."""
    if not 1 <= len(key) <= 100 or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidIdempotencyKey(
            "expected an Idempotency-Key of 1 to 100 visible ASCII characters, got "
            f"{safe_repr(key)}"
        )
    return key


class Replays:
    """The answers to the requests with keys, the newest of them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()
        self._nbytes = 0

    async def answer(
        self,
        place: tuple[str, str, str],
        request: tuple[bytes, ...],
        ask: Callable[[], Awaitable[Answered]],
    ) -> tuple[Answered, bool]:
        """Return the answer to a request at a place (caller, path, key), and whether it was given
        before.

        A repeat that comes while the first is under way waits for it. A request that is refused is
        forgotten: it may be sent again. Raise IdempotencyMismatch.
        """
        digest = hashlib.blake2b(b"\0".join(request), digest_size=16).digest()
        while (kept := self._kept.get(place)) is not None:
            if kept.digest != digest:
                raise IdempotencyMismatch(
                    f"the Idempotency-Key {place[2]!r} came with another body"
                )
            if kept.answer is None:
                return await ask(), False
            try:
                return await asyncio.shield(kept.answer), True
            except _Refused:
                continue
        coming: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        kept = self._kept[place] = _Kept(digest, coming)
        try:
            answered = await ask()
        except BaseException:
            del self._kept[place]
            coming.set_exception(_Refused())
            coming.exception()  # nobody needs to have waited for it
            raise
        coming.set_result(answered)
        self._keep(kept, len(answered[0]))
        return answered, False

    def _keep(self, kept: _Kept, nbytes: int) -> None:
        """Keep an answer, unless it is large: a repeat of that gets receipts of duplicates."""
        if nbytes > _LARGE:
            kept.answer, nbytes = None, 0
        kept.nbytes = nbytes
        self._nbytes += nbytes
        while len(self._kept) > MOST or self._nbytes > MOST_BYTES:
            oldest, gone = next(iter(self._kept.items()))
            if gone.answer is not None and not gone.answer.done():
                self._kept.move_to_end(oldest)
                continue
            del self._kept[oldest]
            self._nbytes -= gone.nbytes


class _Refused(Exception):  # noqa: N818 (tells those who waited)
    """The request that was waited for was refused."""
