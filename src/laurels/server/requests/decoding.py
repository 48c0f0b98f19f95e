"""Decodes large bodies in pieces, off the event loop.

A decoder holds the interpreter lock for as long as it runs, in any thread, and can create many
objects from few bytes. So a body of more than `bodies.SMALL` bytes is first scanned by
`laurels.engine.batch.outline`, which needs neither the lock nor memory. A list that is too long, an
element with too many values, or too many values in all, is refused before any object is created.
Then a thread decodes the body piece by piece. Between two pieces, everything else can run,
including the decoding of another body.

All decoded objects of a body are freed together when the last reference to them ends, and the
garbage collector visits all of them together. Both hold the interpreter lock. Decoding in pieces
does not shorten these times; only the limit on the number of values, `BODY_VALUES`, bounds them.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple, ParamSpec, TypeVar

from laurels.engine.batch.outline import (
    MALFORMED,
    TOO_DEEP,
    TOO_MANY_IN_ALL,
    TOO_MANY_VALUES,
    outline_json,
    outline_msgpack,
)
from laurels.errors import InvalidJson, JsonTooDeep, LaurelsError
from laurels.errors.service import InvalidMsgpack, TooManyValues
from laurels.wire import requests
from laurels.wire.requests import JSON, MSGPACK, NDJSON

from .bodies import SMALL

PIECE_BYTES = 32 << 10
"""The size of a piece in bytes. A piece is larger if a single element is larger. Decoding a piece
takes about a millisecond."""
EVENT_VALUES = 1_000
"""The most values that an event may have. An event of four columns with all labels has about 50."""
BODY_VALUES = 500_000
"""The most values of all events of a body: 50 for each of 10,000 events. The worst case is empty
lists. 500,000 of them are freed in about 15 ms, and visited by the garbage collector in about 25
ms."""
_AT_BYTE = re.compile(r"\(byte (\d+)\)")

P = ParamSpec("P")
T = TypeVar("T")


class _Outline(NamedTuple):
    is_list: bool
    length: int
    pieces: list[tuple[int, int, int]]
    is_whole: bool
    """Whether the whole body was scanned. If not, the body has too many values in all."""

    def ensure_whole(self, most: int) -> None:
        """Raise TooManyValues if the body has more than `most` values in all."""
        if not self.is_whole:
            raise TooManyValues(f"expected at most {most:,} values in the body, got more")


class Decoder:
    """Decodes large bodies, one piece at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decoder")

    async def elements(
        self, raw: bytes, kind: str, read: Callable[[bytes, str], tuple[list[T], bool]]
    ) -> tuple[list[T], bool]:
        """Return the events of a body, read by `read`, and whether the body is a single event.

        Raises BatchTooLong, TooManyValues and the errors of `read`.
        """
        if len(raw) <= SMALL:
            return read(raw, kind)
        outline = await self._run(_outline, raw, kind, EVENT_VALUES, BODY_VALUES)
        requests.ensure_count(outline.length)
        outline.ensure_whole(BODY_VALUES)
        if not outline.is_list:
            return await self._run(read, raw, kind)
        elements: list[T] = []
        for piece in outline.pieces:
            elements += await self._run(_read_piece, raw, kind, piece, read)
        return elements, False

    async def document(self, raw: bytes, kind: str, most_values: int) -> Any:
        """Return a document of at most `most_values` values. Raises TooManyValues, and the errors
        of `requests.document`."""
        if len(raw) <= SMALL:
            return requests.document(raw, kind)
        return await self._run(_document, raw, kind, most_values)

    def close(self) -> None:
        """Let the thread end after its current piece."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = copy_context()  # it has the notation of values in error messages
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: context.run(do, *args, **kwargs)
        )


def _outline(
    raw: bytes, kind: str, most_values: int, most_in_all: int, piece: int = PIECE_BYTES
) -> _Outline:
    if kind == MSGPACK:
        verdict, place, is_list, count, pieces = outline_msgpack(
            raw, most_values, piece, most_in_all
        )
    else:
        is_lines = kind == NDJSON
        verdict, place, is_list, count, pieces = outline_json(
            raw, most_values, piece, is_lines, most_in_all
        )
    if verdict == MALFORMED:
        error = InvalidMsgpack if kind == MSGPACK else InvalidJson
        raise error(
            f"expected one complete {kind} document, got one that is malformed at byte {place:,}"
        )
    if verdict == TOO_DEEP:
        raise JsonTooDeep("the body is nested too deeply")
    if verdict == TOO_MANY_VALUES:
        where = f"element {count:,} of the body" if is_list else "the body"
        raise TooManyValues(f"expected at most {most_values:,} values in {where}, got more")
    return _Outline(is_list, count, pieces, verdict != TOO_MANY_IN_ALL)


def _document(raw: bytes, kind: str, most_values: int) -> Any:
    # Each element of a list counts as a value, so the limit also applies to the length.
    outline = _outline(raw, kind, most_values, most_values, len(raw))
    if outline.length > most_values:
        raise TooManyValues(
            f"expected at most {most_values:,} values in the body, got {outline.length:,}"
        )
    outline.ensure_whole(most_values)
    return requests.document(raw, kind)


def _read_piece(
    raw: bytes,
    kind: str,
    piece: tuple[int, int, int],
    read: Callable[[bytes, str], tuple[list[T], bool]],
) -> list[T]:
    start, end, count = piece
    if kind == MSGPACK:
        head, tail = b"\xdd" + count.to_bytes(4, "big"), b""
    else:
        head, tail = (b"[", b"]") if kind == JSON else (b"", b"")
    try:
        elements, _ = read(b"".join((head, memoryview(raw)[start:end], tail)), kind)
    except (InvalidJson, InvalidMsgpack) as error:
        raise _moved(error, start - len(head)) from None
    if kind != NDJSON and len(elements) != count:
        raise InvalidJson(f"JSON is malformed: expected a value (byte {end:,})")
    return elements


def _moved(error: LaurelsError, nbytes: int) -> LaurelsError:
    """Return the error of a piece, with its position counted from the start of the body."""
    return type(error)(_AT_BYTE.sub(lambda at: f"(byte {int(at[1]) + nbytes})", error.what))
