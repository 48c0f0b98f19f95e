"""Decoding large bodies, beside the event loop and in pieces.

A decoder holds the interpreter for as long as it runs, in whichever thread, and builds much of few
bytes. So a body of more than `bodies.SMALL` bytes is first outlined
(`laurels.engine.batch.outline`), which needs neither interpreter nor memory: a list too long, or an
element of too many values, is refused before anything is built. Then it is decoded piece by piece
in a thread; between two pieces everything else has its turn, the next body as well.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

from laurels.engine.batch.outline import (
    MALFORMED,
    TOO_DEEP,
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
"""Decoded at a time, unless one element is larger: about a millisecond."""
EVENT_VALUES = 1_000
"""An event has no more values than this; one of four columns and all labels has about 50."""
_AT_BYTE = re.compile(r"\(byte (\d+)\)")

P = ParamSpec("P")
T = TypeVar("T")


class _Outline(NamedTuple):
    is_list: bool
    length: int
    pieces: list[tuple[int, int, int]]


class Decoder:
    """Decodes large bodies, one piece at a time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decoder")

    async def elements(
        self, raw: bytes, kind: str, read: Callable[[bytes, str], tuple[list[T], bool]]
    ) -> tuple[list[T], bool]:
        """Return what `read` makes of a body's events, and whether it is a single one.

        Raises BatchTooLong, TooManyValues and what `read` raises.
        """
        if len(raw) <= SMALL:
            return read(raw, kind)
        outline = await self._run(_outline, raw, kind, EVENT_VALUES)
        requests.ensure_count(outline.length)
        if not outline.is_list:
            return await self._run(read, raw, kind)
        found: list[T] = []
        for piece in outline.pieces:
            found += await self._run(_read_piece, raw, kind, piece, read)
        return found, False

    async def document(self, raw: bytes, kind: str, most_values: int) -> Any:
        """Return a document of so many values at most. Raises TooManyValues and as
        `requests.document`."""
        if len(raw) <= SMALL:
            return requests.document(raw, kind)
        return await self._run(_document, raw, kind, most_values)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: do(*args, **kwargs)
        )


def _outline(raw: bytes, kind: str, most_values: int, piece: int = PIECE_BYTES) -> _Outline:
    if kind == MSGPACK:
        verdict, place, is_list, count, pieces = outline_msgpack(raw, most_values, piece)
    else:
        is_lines = kind == NDJSON
        verdict, place, is_list, count, pieces = outline_json(raw, most_values, piece, is_lines)
    if verdict == MALFORMED:
        error = InvalidMsgpack if kind == MSGPACK else InvalidJson
        raise error(f"expected one whole {kind} document, and it breaks at byte {place:,}")
    if verdict == TOO_DEEP:
        raise JsonTooDeep("the body is nested too deeply")
    if verdict == TOO_MANY_VALUES:
        where = f"element {count:,} of the body" if is_list else "the body"
        raise TooManyValues(f"expected at most {most_values:,} values in {where}, got more")
    return _Outline(is_list, count, pieces)


def _document(raw: bytes, kind: str, most_values: int) -> Any:
    # A list of n values is one of n elements here: those are counted as well.
    outline = _outline(raw, kind, most_values, len(raw))
    if outline.length > most_values:
        raise TooManyValues(
            f"expected at most {most_values:,} values in the body, got {outline.length:,}"
        )
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
        found, _ = read(b"".join((head, memoryview(raw)[start:end], tail)), kind)
    except (InvalidJson, InvalidMsgpack) as error:
        raise _moved(error, start - len(head)) from None
    if kind != NDJSON and len(found) != count:
        raise InvalidJson(f"JSON is malformed: expected a value (byte {end:,})")
    return found


def _moved(error: LaurelsError, nbytes: int) -> LaurelsError:
    """Return an error of a piece that names its place in the whole."""
    return type(error)(_AT_BYTE.sub(lambda at: f"(byte {int(at[1]) + nbytes})", error.what))
