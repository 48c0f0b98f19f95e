"""The trace that a request belongs to (W3C Trace Context). It is written to logs and sent back to
the client."""

import re
from hashlib import blake2b

from msgspec import Struct

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST_VERSION, _NO_VERSION = "00", "ff"
_MOST = 512


class Trace(Struct, frozen=True):
    """The position of a request in a trace. `span_id` is the span of the request, `parent_id` the
    span of the caller."""

    trace_id: str
    parent_id: str
    span_id: str
    flags: str

    @property
    def traceresponse(self) -> str:
        """The header of the answer that reports the span of the request."""
        return f"{_FIRST_VERSION}-{self.trace_id}-{self.span_id}-{self.flags}"


def trace_of(traceparent: str | None, request_id: str) -> Trace | None:
    """Return the trace of a `traceparent` header; None if the header is absent or malformed. The
    span id of the request is derived from the request's id."""
    if traceparent is None or len(traceparent) > _MOST:
        return None
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    version, trace_id, parent_id, flags, rest = match.groups()
    if version == _NO_VERSION or (version == _FIRST_VERSION and rest):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    span_id = blake2b(f"{traceparent} {request_id}".encode(), digest_size=8).hexdigest()
    return Trace(trace_id, parent_id, span_id, flags)


def trace_headers(traceparent: str | None, request_id: str) -> list[tuple[str, str]]:
    """Return the headers by which a client can find the logs and the trace of its request."""
    headers = [("x-request-id", request_id)]
    if traceparent is not None and (trace := trace_of(traceparent, request_id)) is not None:
        headers.append(("traceresponse", trace.traceresponse))
    return headers


def trace_fields(traceparent: str | None, request_id: str) -> dict[str, str]:
    """Return the fields of a log line for the trace of a request; none if the request has no
    trace."""
    trace = trace_of(traceparent, request_id)
    if trace is None:
        return {}
    return {"trace_id": trace.trace_id, "span_id": trace.span_id, "parent_id": trace.parent_id}
