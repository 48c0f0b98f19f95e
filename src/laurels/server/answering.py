"""Answers to requests of the API, whose paths are in the route table."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from granian.rsgi import (  # type: ignore[attr-defined]
    Headers as Incoming,
)
from granian.rsgi import (  # type: ignore[attr-defined]
    HTTPProtocol,
    ProtocolClosed,
    Scope,
)
from msgspec.structs import replace

from laurels.errors import LaurelsError
from laurels.errors.service import Unauthorized
from laurels.server.admission.admission import Admission
from laurels.server.admission.limits import Rates
from laurels.server.answers.flow import Flow
from laurels.server.answers.open_streams import OpenStreams
from laurels.server.answers.peers import PeerDescriptors
from laurels.server.answers.responses import (
    Written,
    encode_answer,
    failure_response,
    problem_response,
)
from laurels.server.answers.streaming import Reader, send_stream
from laurels.server.audit.auditing import AuditedCall, reason_in
from laurels.server.auth.caller import UNKNOWN, Caller
from laurels.server.requests.context import RequestContext, Server, Streamed
from laurels.server.requests.cors import Headers, Origins
from laurels.server.requests.credentials import secret_of, single_header, without_token
from laurels.server.requests.replays import Answered, Replays, judged_key
from laurels.server.requests.tracing import trace_fields, trace_headers, trace_of
from laurels.server.routing.route import Route
from laurels.wire import requests
from laurels.wire.answers import EVENT_REFUSED, EventRefused, drop_frames
from laurels.wire.audit_entry import is_recorded

AS_OF = "laurels-as-of"
"""The header with a version of a board: in an answer the version that it shows, in a request the
newest version that the client has seen."""
UNKEPT: Headers = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")]
"""The headers of every answer that is not a file. They say that the answer must not be cached, and
that its type must not be guessed."""
_log = structlog.get_logger("laurels")


class ResponseSent(Exception):  # noqa: N818 (not an error: the answer was streamed)
    """Raised when an answer has already been streamed, so that no answer is left to send."""


class ApiAnswers:
    """Answers requests to the routes of the API: authorizes them, reads their query and body, calls
    the handler of the route and writes the result."""

    def __init__(
        self,
        server: Server,
        rates: Rates,
        clock: Callable[[], float],
        read_keys: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._server = server
        self._settings = server.settings
        self._rates = rates
        self._clock = clock
        self._read_keys = read_keys
        self._open_streams = OpenStreams(server.keys)
        self._descriptors = PeerDescriptors()
        self._replays = Replays()
        allowed = server.settings.cors_origins
        self._origins = Origins(allowed) if allowed else None
        self._admission = Admission(server.settings, clock)
        is_counted = bool(server.settings.trusted_proxy)
        self._answer = self._answer_counted if is_counted else self._answer_route

    async def _answer_counted(
        self, row: Route, part: str, scope: Scope, protocol: HTTPProtocol, request_id: str
    ) -> Written:
        """Answer a request of the API. For a client behind a trusted proxy, limit the number of
        requests in progress."""
        with self._admission.under_way(scope):
            return await self._answer_route(row, part, scope, protocol, request_id)

    async def _answer_route(
        self, row: Route, part: str, scope: Scope, protocol: HTTPProtocol, request_id: str
    ) -> Written:
        """Return the answer to a request of the API. Count the request and, if configured, log
        it."""
        began = self._clock()
        caller, context = UNKNOWN, None
        try:
            caller = await self._authenticate(scope, in_query=row.streams)
            for bucket in caller.buckets:
                self._rates.take(bucket.name, bucket.rate)
            if row.store_wide:
                caller.ensure_unlimited()
            if caller.submission is None:
                caller.ensure(row.level, part if row.of_board else None)
            else:
                caller.ensure_takes_submissions(
                    row.takes_submissions, part if row.of_board else None
                )
            context = RequestContext(self._server, caller, part)
            context.client, context.accept = scope.client, scope.headers.get("accept")
            if row.reads and row.of_board:
                context.sent_version = single_header(scope.headers, AS_OF)
            if row.method != "GET":
                await self._read_body(row, context, scope.headers, protocol)
            raw_query = scope.query_string
            if row.streams and "token=" in raw_query:
                raw_query = without_token(raw_query)
            if row.audited and "reason=" in raw_query:
                context.reason, raw_query = reason_in(raw_query)
            query = requests.query_of(raw_query, row.query)
            if row.plain and context.key is None:
                answered = await row.handler(context, query)
                written = Written(*encode_answer(row, answered, context.accept))
            else:
                written = await self._dispatch(row, context, query, scope, protocol, request_id)
        except EventRefused as refused:
            written = problem_response(refused.error, EVENT_REFUSED, request_id)
            drop_frames(refused)
        except LaurelsError as error:
            written = problem_response(error, error.status, request_id)
        except ResponseSent:
            self._record(row, scope, 200, began, caller, request_id)
            raise
        except ProtocolClosed:
            raise
        except Exception as error:
            written = failure_response(error, scope.path, request_id)
        finally:
            if context is not None and context.raw:
                self._server.bodies.release(caller.name, len(context.raw))
            if context is not None and not row.reads:
                self._note_write(row, context)
        if context is not None and context.version is not None:
            headers = [*written.headers, (AS_OF, context.version.text())]
            written = replace(written, headers=headers)
        if row.audited and context is not None and is_recorded(written.status):
            await self._audit(row, context, scope, written, request_id)
        self._record(row, scope, written.status, began, caller, request_id)
        return written

    def _note_write(self, row: Route, context: RequestContext) -> None:
        """Note that later answers on this connection must include what the request may have
        written."""
        if not row.of_board:
            self._server.sessions.of(context.client).note_any_write()
        elif self._server.answers.keeps(context.board):
            self._server.sessions.of(context.client).note_write(context.board)

    async def _audit(
        self, row: Route, context: RequestContext, scope: Scope, written: Written, request_id: str
    ) -> None:
        """Write a call to the audit log. If its answer repeats the answer of an earlier call, do
        nothing."""
        if ("idempotency-replayed", "true") in written.headers:
            return
        trace = trace_of(scope.headers.get("traceparent"), request_id)
        call = AuditedCall(
            caller=context.caller,
            verb=row.verb,
            of_board=row.of_board,
            part=context.part,
            status=written.status,
            reason=context.reason,
            raw=context.raw if context.audited is None else context.audited,
            media_type=context.media_type if context.audited is None else requests.JSON,
            client=self._admission.client(scope),
            request_id=request_id,
            trace_id=None if trace is None else trace.trace_id,
        )
        await self._server.audit.add(call)

    def _record(
        self, row: Route, scope: Scope, status: int, began: float, caller: Caller, request_id: str
    ) -> None:
        """Count a request and, if configured, log it."""
        seconds = self._clock() - began
        self._server.metrics.answered(row.verb, status, seconds, reads=row.reads)
        if self._settings.log_requests:
            _log.info(
                "request",
                method=row.method,
                path=scope.path,
                status=status,
                ms=round(seconds * 1_000, 3),
                caller=caller.name,
                client=self._admission.client(scope),
                request_id=request_id,
                **trace_fields(scope.headers.get("traceparent"), request_id),
            )

    async def _authenticate(self, scope: Scope, *, in_query: bool = False) -> Caller:
        """Return the caller. A key that this process does not know may have just been created by
        another process, so the keys are read again before such a key is refused."""
        self._admission.take_request(scope)
        secret = secret_of(scope, in_query=in_query)
        try:
            return self._server.keys.caller(secret)
        except Unauthorized:
            if secret is None:
                raise
            self._admission.take_wrong_key(scope)
            if self._read_keys is None:
                raise
        await self._read_keys()
        return self._server.keys.caller(secret)

    async def _read_body(
        self, row: Route, context: RequestContext, headers: Incoming, protocol: HTTPProtocol
    ) -> None:
        """Read the body of a request, with its media type and its Idempotency-Key."""
        context.media_type = requests.media_type(single_header(headers, "content-type"))
        length, most = headers.get("content-length"), self._settings.max_body
        if row.most_body is not None and row.most_body < most:
            most = row.most_body
        context.raw = await self._server.bodies.read(context.caller.name, length, protocol, most)
        key = single_header(headers, "idempotency-key")
        context.key = None if key is None else judged_key(key)

    async def _dispatch(
        self,
        row: Route,
        context: RequestContext,
        query: Any,
        scope: Scope,
        protocol: HTTPProtocol,
        request_id: str,
    ) -> Written:
        """Return the answer to a request that needs more than a call of its handler: it has an
        Idempotency-Key, or its answer is streamed."""
        accept = context.accept
        if context.key is not None and not row.reads:
            return await self._answer_idempotent(row, context, query, scope, accept)
        if row.streams:
            context.last_event_id = single_header(scope.headers, "last-event-id")
        answered = await row.handler(context, query)
        if isinstance(answered, Streamed):
            await self._stream(answered, context.caller, scope, protocol, request_id)
            raise ResponseSent
        return Written(*encode_answer(row, answered, accept))

    async def _answer_idempotent(
        self, row: Route, context: RequestContext, query: Any, scope: Scope, accept: str | None
    ) -> Written:
        """Return the answer to a request with an Idempotency-Key. The answer is computed once.
        Further requests with this key get the same answer."""
        assert context.key is not None

        async def first() -> Answered:
            return encode_answer(row, await row.handler(context, query), accept)

        place = (context.caller.identity, f"{row.method} {scope.path}", context.key)
        request = (scope.query_string.encode(), context.raw, (accept or "").encode())
        (content, kind, status), again = await self._replays.answer(place, request, first)
        replayed = [("idempotency-replayed", "true")] if again else []
        return Written(content, kind, status, replayed)

    async def _stream(
        self,
        answered: Streamed,
        caller: Caller,
        scope: Scope,
        protocol: HTTPProtocol,
        request_id: str,
    ) -> None:
        """Stream an answer until its end, or until the client stops reading."""
        headers = [
            *trace_headers(scope.headers.get("traceparent"), request_id),
            ("content-type", answered.kind),
            *UNKEPT,
            ("x-accel-buffering", "no"),
        ]
        if self._origins is not None:
            headers += self._origins.headers(scope.headers.get("origin"))
        reader = Reader(
            Flow(scope.client, self._descriptors),
            self._server.deadlines,
            self._settings.stall_seconds,
            self._server.metrics.count_cut_off,
        )
        *of_token, of_key = caller.buckets
        token = of_token[0].name if of_token else None
        with (
            self._server.admission.streaming(of_key.name, token),
            self._open_streams.opened(secret_of(scope, in_query=True)),
        ):
            await send_stream(answered, headers, reader, protocol)
