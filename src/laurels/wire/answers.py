"""Encode answers: as JSON or msgpack, and errors as problem documents (RFC 9457)."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.index import Offset
from laurels.core.receipt import Receipt, Receipts
from laurels.errors import BatchRefused, LaurelsError, PositionDiffers, ShardsDiffer
from laurels.errors.index_server import IndexUnavailable

from .redaction import without_paths
from .requests import JSON, MSGPACK

PROBLEM = "application/problem+json"
_PACKED = ("application/msgpack", "application/vnd.msgpack", "application/x-msgpack")

to_json = msgspec.json.Encoder(decimal_format="number")
to_msgpack = msgspec.msgpack.Encoder()


class BatchAnswer(Struct, frozen=True, omit_defaults=True):
    """The outcome of a batch: counts, and the receipts in the order of the events. If only some
    receipts are listed, `places` has the positions of their events in the batch."""

    offset: Offset
    window: str
    applied: int
    unchanged: int
    duplicates: int
    refused: int
    late: dict[str, int]
    receipts: list[Receipt]
    places: list[int] | None = None


class BoardsAnswer(Struct, frozen=True):
    """The outcome of events of several boards."""

    applied: int
    unchanged: int
    duplicates: int
    refused: int
    boards: dict[str, BatchAnswer]


class Problem(Struct, frozen=True, omit_defaults=True):
    """The reason why a request was refused, and what to do about it.

    `code` never changes its meaning.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    what: str
    advice: str
    retryable: bool
    request_id: str
    receipts: list[Receipt] | None = None
    may_have_applied: bool | None = None
    """Whether the write may have counted; present if an index server did not answer."""
    ends_at: str | None = None
    """The position up to which the batch was counted; present if the rest of it was not counted."""
    positions: list[str | None] | None = None
    """The position of a source in each shard of a board; present if they differ."""


class EventRefused(Exception):  # noqa: N818 (the outcome of an event)
    """Raised if a single event was refused. The response then has the status 422, even if the error
    has another status."""

    def __init__(self, error: LaurelsError) -> None:
        super().__init__(error)
        self.error = error


SERVER_ERROR = 500
EVENT_REFUSED = 422


def batch_answer(receipts: Receipts, listed: str) -> BatchAnswer:
    """Return the answer to a batch. It has the receipts of all events if `listed` is `all`, of no
    event if it is `none`, otherwise of refused events."""
    refused = receipts.refused
    places: list[int] | None = None
    if listed == "all":
        included = list(receipts)
    else:
        places = [] if listed == "none" or not refused else _refused_places(receipts)
        included = [receipts[i] for i in places]
    return BatchAnswer(
        offset=receipts.offset,
        window=receipts.window,
        applied=receipts.applied,
        unchanged=receipts.unchanged,
        duplicates=receipts.duplicates,
        refused=refused,
        late=receipts.late,
        receipts=included,
        places=places,
    )


def _refused_places(receipts: Receipts) -> list[int]:
    return [i for i in range(len(receipts)) if receipts.error(i) is not None]


def boards_answer(batches: dict[str, BatchAnswer]) -> BoardsAnswer:
    def total(count: Callable[[BatchAnswer], int]) -> int:
        return sum(map(count, batches.values()))

    return BoardsAnswer(
        applied=total(lambda batch: batch.applied),
        unchanged=total(lambda batch: batch.unchanged),
        duplicates=total(lambda batch: batch.duplicates),
        refused=total(lambda batch: batch.refused),
        boards=batches,
    )


def is_packed(accept: str | None) -> bool:
    """Return whether an Accept header asks for msgpack."""
    return accept is not None and accept.partition(";")[0].strip().lower() in _PACKED


def encoded(value: object, accept: str | None) -> tuple[bytes, str]:
    """Encode an answer as JSON or msgpack, as the Accept header asks; return it with its content
    type."""
    if is_packed(accept):
        return to_msgpack.encode(value), MSGPACK
    return to_json.encode(value), JSON


def lines(values: Iterable[object]) -> bytes:
    return to_json.encode_lines(values)


def problem(error: LaurelsError, status: int, request_id: str) -> Problem:
    """Return an error as a problem document."""
    receipts = list(error.receipts) if isinstance(error, BatchRefused) else None
    what = without_paths(error.what) if status >= SERVER_ERROR else error.what
    return Problem(
        type=f"/docs#{error.code}",
        title=_summary_of(type(error)),
        status=status,
        code=error.code,
        detail=f"{what}; {error.advice}",
        what=what,
        advice=error.advice,
        retryable=error.retryable,
        request_id=request_id,
        receipts=receipts,
        may_have_applied=error.may_have_applied if isinstance(error, IndexUnavailable) else None,
        ends_at=error.ends_at if isinstance(error, PositionDiffers) else None,
        positions=error.positions if isinstance(error, ShardsDiffer) else None,
    )


def _summary_of(kind: type[Any]) -> str:
    return (kind.__doc__ or "").splitlines()[0]


def drop_frames(error: BaseException) -> None:
    """Remove the tracebacks of an error and of all its causes and contexts.

    A traceback refers to frames. If one of these refers to the error, or to a future with the
    error, they form a reference cycle. Everything that the frames of the request refer to, above
    all its body, would then stay in memory until the garbage collector runs, which is rare.
    O(number of errors in the chain).
    """
    pending: list[BaseException | None] = [error]
    seen: set[BaseException] = set()
    while pending:
        each = pending.pop()
        if each is not None and each not in seen:  # a chain of errors may be circular
            seen.add(each)
            each.__traceback__ = None
            pending += each.__cause__, each.__context__
