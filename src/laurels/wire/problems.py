"""Convert the response to a failed request into the exception that was raised in the service."""

import msgspec
from msgspec import Struct

import laurels.wire.requests  # noqa: F401 (its codes come in answers)
from laurels.core.receipt import Receipt
from laurels.errors import (
    BatchRefused,
    Conflict,
    Fault,
    InvalidInput,
    LaurelsError,
    NotFound,
    PositionDiffers,
    ShardsDiffer,
    TooLarge,
    Unavailable,
    by_code,
)
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.service import Denied, ServerUnreachable, UnknownAnswer

from .receipts import RemoteReceipts

_FAMILIES: dict[int, type[LaurelsError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    413: TooLarge,
    414: TooLarge,
    422: Conflict,
    429: Unavailable,
    503: Unavailable,
}
_GATEWAY = {502, 503, 504}


class _Problem(Struct):
    """The fields of a problem document that the client uses."""

    code: str
    what: str
    advice: str = ""
    retryable: bool = False
    receipts: list[Receipt] | None = None
    may_have_applied: bool | None = None
    ends_at: str | None = None
    positions: list[str | None] | None = None


_decode = msgspec.json.Decoder(_Problem).decode


def error_of(status: int, content: bytes) -> LaurelsError:
    """Return the error in a response. If this version does not know its code, return an error of
    the class for its status, such as Conflict for 409. If the response does not come from laurels,
    return UnknownAnswer, or ServerUnreachable if a proxy reports that it cannot reach the
    server."""
    try:
        document = _decode(content)
    except ValueError:
        if status in _GATEWAY:
            return ServerUnreachable(
                f"a proxy in front of the server answered with status {status}"
            )
        return UnknownAnswer(
            f"expected a problem document, got another response with status {status}"
        )
    if document.code == BatchRefused.code:
        return BatchRefused(document.what, RemoteReceipts(document.receipts or []))
    if document.code == IndexUnavailable.code:
        return IndexUnavailable(document.what, document.may_have_applied is not False)
    if document.code == PositionDiffers.code:
        return PositionDiffers(document.what, document.ends_at)
    if document.code == ShardsDiffer.code:
        return ShardsDiffer(document.what, document.positions or [])
    try:
        kind = by_code(document.code)
    except KeyError:
        return _error_of_family(status, document)
    return kind(document.what)


def _error_of_family(status: int, document: _Problem) -> LaurelsError:
    family = _FAMILIES.get(status, Fault if status >= 500 else InvalidInput)
    error = family(document.what)
    vars(error).update(
        code=document.code, status=status, advice=document.advice, retryable=document.retryable
    )
    return error
