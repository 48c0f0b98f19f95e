"""Encode answers: the results of handlers, errors as problem documents, and unexpected failures."""

import msgspec
import structlog
from msgspec import Struct

from laurels.errors import Fault, LaurelsError, Unavailable
from laurels.errors.service import InternalError, MethodNotAllowed, TooManyRequests, Unauthorized
from laurels.server.requests.context import Encoded, Response
from laurels.server.requests.cors import Headers
from laurels.server.requests.replays import Answered
from laurels.server.routing.route import NO_CONTENT, Route
from laurels.wire.answers import PROBLEM, drop_frames, encoded, problem, to_json

_RETRY_SECONDS = "1"
_log = structlog.get_logger("laurels")


class Written(Struct, frozen=True):
    """An encoded answer."""

    content: bytes
    kind: str
    status: int = 200
    headers: Headers = []
    is_asset: bool = False
    """Whether the answer has caching headers of its own, as files have."""


def encode_answer(row: Route, answered: object, accept: str | None) -> Answered:
    status = row.status
    if isinstance(answered, Encoded):
        return answered.content, answered.kind, status
    if isinstance(answered, Response):
        status, answered = answered.status, answered.value
    if status == NO_CONTENT:
        return b"", "", status
    try:
        content, kind = encoded(answered, accept)
    except msgspec.MsgspecError as error:
        raise InternalError(f"the answer could not be written ({error})") from error
    return content, kind, status


def problem_response(error: LaurelsError, status: int, request_id: str) -> Written:
    """Return the problem document for an error. This function makes all answers to errors."""
    if isinstance(error, Fault):
        _log.error("fault", code=error.code, what=error.what, request_id=request_id)
    headers: Headers = []
    if isinstance(error, TooManyRequests):
        headers.append(("retry-after", str(error.retry_after)))
    elif isinstance(error, Unavailable):
        headers.append(("retry-after", _RETRY_SECONDS))
    elif isinstance(error, Unauthorized):
        headers.append(("www-authenticate", "Bearer"))
    elif isinstance(error, MethodNotAllowed):
        headers.append(("allow", ", ".join(error.methods)))
    content = to_json.encode(problem(error, status, request_id))
    drop_frames(error)
    return Written(content, PROBLEM, status, headers)


def failure_response(error: Exception, path: str, request_id: str) -> Written:
    """Log an unexpected error, and return an answer that does not show it to the caller."""
    _log.error("failed", path=path, request_id=request_id, exc_info=error)
    drop_frames(error)
    internal = InternalError("the server failed while it answered the request")
    return problem_response(internal, internal.status, request_id)
