"""Requests with an Idempotency-Key. A repeated request gets the same answer, and a different
request with the same key is refused.

The board remembers the ids of the request's events durably, so a repeat is never counted twice,
even after a restart. Only the answer is stored here, in memory: a caller that did not receive the
first answer gets it again instead of receipts of duplicates.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct

from laurels.errors.service import IdempotencyMismatch, InvalidIdempotencyKey
from laurels.model.validation import quoted, safe_repr

MOST = 20_000
MOST_BYTES = 64 << 20
_LARGE = 1 << 20

Answered = tuple[bytes, str, int]
"""The content of an answer, its content type and its status."""


class _Kept(Struct):
    digest: bytes
    answer: "asyncio.Future[Answered] | None"
    nbytes: int = 0


def judged_key(key: str) -> str:
    """Return the Idempotency-Key if it is valid. Otherwise raise InvalidIdempotencyKey."""
    if not 1 <= len(key) <= 100 or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidIdempotencyKey(
            "expected an Idempotency-Key of 1 to 100 visible ASCII characters, got "
            f"{safe_repr(key)}"
        )
    return key


class Replays:
    """The most recent answers to requests with an Idempotency-Key."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()
        self._nbytes = 0

    async def answer(
        self,
        place: tuple[str, str, str],
        request: tuple[bytes, ...],
        compute: Callable[[], Awaitable[Answered]],
    ) -> tuple[Answered, bool]:
        """Return the answer to a request, and whether the answer had been computed before. `place`
        identifies the request: its caller, path and Idempotency-Key.

        A repeat that comes while the first request is in progress waits for the answer to the first
        one. A failed request is forgotten, so it may be sent again. `request` has the query string,
        the body and the Accept header. Raise IdempotencyMismatch if the same key was used before
        with another `request`.
        """
        digest = hashlib.blake2b(b"\0".join(request), digest_size=16).digest()
        while (kept := self._kept.get(place)) is not None:
            if kept.digest != digest:
                raise IdempotencyMismatch(
                    f"the Idempotency-Key {quoted(place[2])} was used with another body"
                )
            if kept.answer is None:
                return await compute(), False
            try:
                return await asyncio.shield(kept.answer), True
            except _Refused:
                continue
        coming: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        kept = self._kept[place] = _Kept(digest, coming)
        try:
            answered = await compute()
        except BaseException:
            del self._kept[place]
            coming.set_exception(_Refused())
            coming.exception()  # mark the error as retrieved, though nobody may have waited for it
            raise
        coming.set_result(answered)
        self._keep(kept, len(answered[0]))
        return answered, False

    def _keep(self, kept: _Kept, nbytes: int) -> None:
        """Keep an answer, unless it is large, and forget the oldest answers beyond the limits. A
        repeated request whose answer was large is carried out again, so its receipts report
        duplicates."""
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


class _Refused(Exception):  # noqa: N818 (tells waiting repeats)
    """The request that a repeat waited for has failed."""
