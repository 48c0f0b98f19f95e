"""The application: handles every request and writes every answer.

A request to the API is authorized by its path, key and rate. Its query and body are read, the
handler of its route is called, and the result is written (`answering.py`).
`responses.problem_response` turns every error into a problem document. The interface is granian's
RSGI. It passes an object with the request, which it calls scope, and a protocol object for the
answer.
"""

from collections.abc import Awaitable, Callable
from functools import cache, lru_cache
from typing import TypeAlias

from granian.rsgi import (  # type: ignore[attr-defined]
    Headers as Incoming,
)
from granian.rsgi import (  # type: ignore[attr-defined]
    HTTPProtocol,
    ProtocolClosed,
    Scope,
)

from laurels.errors import LaurelsError
from laurels.errors.service import InvalidRequestId, MethodNotAllowed, NoSuchPath, UrlTooLong
from laurels.flows.sinks.metrics import describe_problems
from laurels.model.validation import quoted
from laurels.server.admission.limits import Rates
from laurels.server.answers.responses import Written, failure_response, problem_response
from laurels.server.auth.caller import LEVEL
from laurels.server.auth.local_only import ensure_local
from laurels.server.requests.context import Server
from laurels.server.requests.cors import PREFLIGHT
from laurels.server.requests.credentials import header_values
from laurels.server.requests.tracing import trace_headers
from laurels.server.routing.openapi import openapi
from laurels.server.routing.pages import PAGES, Asset
from laurels.server.routing.route import NO_CONTENT, Route
from laurels.server.routing.router import RouteMatch, Router
from laurels.server.routing.routes import ROUTES
from laurels.wire import requests

from .answering import UNKEPT, ApiAnswers, ResponseSent
from .metrics import CONTENT_TYPE, Exposed, exposition

NOT_MODIFIED = 304
_PATHS = 1_024
"""The number of paths whose handlers are cached."""
_LONGEST_REQUEST_ID = 128
_ALIVE, _READY, _NOT_READY = b"alive\n", b"ready\n", b"not ready\n"


SimpleHandler: TypeAlias = Callable[[Scope], Written | Awaitable[Written]]
"""A handler of a path that is not in the route table."""


class Application(ApiAnswers):
    """The application of one server, with the state that all requests share."""

    def __init__(
        self,
        server: Server,
        rates: Rates,
        new_request_id: Callable[[], str],
        clock: Callable[[], float],
        read_keys: Callable[[], Awaitable[None]] | None = None,
        worker: int | None = None,
    ) -> None:
        super().__init__(server, rates, clock, read_keys)
        self._new_request_id = new_request_id
        self._worker = worker
        self._router: Router[Route | SimpleHandler] = Router()
        for row in ROUTES:
            self._router.put(row.method, row.path, row)
        for path, asset in PAGES.items():
            self._router.put("GET", path, _asset(asset))
        self._router.put("GET", "/openapi.json", _asset(_description()))
        self._router.put("GET", "/healthz", lambda _: Written(_ALIVE, "text/plain"))
        self._router.put("GET", "/readyz", self._ready)
        self._router.put("GET", "/metrics", self._metrics)
        self._match = lru_cache(_PATHS)(self._router.find)

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""
        sent = scope.headers
        request_id = ""
        try:
            request_id = self._request_id(sent)
            if self._server.keys.is_open:
                ensure_local(scope.http_version, scope.authority, sent)
            handler, part = self._route_of(scope)
            if isinstance(handler, Route):
                written = await self._answer(handler, part, scope, protocol, request_id)
            else:
                answered = handler(scope)
                written = answered if isinstance(answered, Written) else await answered
        except LaurelsError as error:
            request_id = request_id or self._new_request_id()
            written = problem_response(error, error.status, request_id)
        except (ResponseSent, ProtocolClosed):
            return
        except Exception as error:
            written = failure_response(error, scope.path, request_id)
        headers = [*trace_headers(sent.get("traceparent"), request_id), *written.headers]
        if not written.is_asset:
            headers += UNKEPT
        if written.kind:
            headers.append(("content-type", written.kind))
        if self._origins is not None:
            headers += self._origins.headers(sent.get("origin"))
        try:
            protocol.response_bytes(written.status, headers, written.content)
        except ProtocolClosed:
            return

    def _request_id(self, sent: Incoming) -> str:
        """Return the id in a request's header, or a new id if there is none. Raises
        InvalidRequestId for a malformed id."""
        ids = header_values(sent, "x-request-id")
        if len(ids) == 1 and ids[0]:
            if len(ids[0]) <= _LONGEST_REQUEST_ID and _is_visible_ascii(ids[0]):
                return ids[0]
        elif len(ids) == 1 or "x-request-id" not in sent:
            return self._new_request_id()
        raise InvalidRequestId(
            "expected an X-Request-Id of 1 to 128 visible ASCII characters, once"
        )

    def _route_of(self, scope: Scope) -> tuple[Route | SimpleHandler, str]:
        """Return the handler for a path and method, and the variable part of the path."""
        path, method = scope.path, scope.method
        requests.ensure_text(path)
        if len(path) + len(scope.query_string) > self._settings.max_url:
            raise UrlTooLong(
                f"expected a URL of at most {self._settings.max_url:,} bytes, got more"
            )
        match = self._match(path)
        if match is None:
            raise NoSuchPath(f"there is no path {quoted(path)}")
        handler = match.methods.get(method)
        if method == "HEAD":
            handler = match.methods.get("GET")  # the answer is sent without its body
            if handler is not None and _is_streamed(handler):
                handler = None
        if handler is None:
            return self._other_method(scope, match)
        return handler, match.part

    def _other_method(
        self, scope: Scope, match: RouteMatch[Route | SimpleHandler]
    ) -> tuple[Route | SimpleHandler, str]:
        origins = self._origins
        if scope.method == "OPTIONS" and origins and origins.allows(scope.headers.get("origin")):
            return lambda _: Written(b"", "", NO_CONTENT, PREFLIGHT), ""
        raise MethodNotAllowed(
            f"expected {' or '.join(match.methods)} for {scope.path}, got {scope.method}",
            list(match.methods),
        )

    # Requests for paths that are not in the route table

    async def _ready(self, _scope: Scope) -> Written:
        if self._server.admission.stopping:
            return Written(_NOT_READY, "text/plain", 503)
        await self._server.store.ensure_healthy()
        problems = [
            *self._server.store.outages,
            self._server.store.clock_status().problem,
            describe_problems(self._server.metrics.flows().sinks),
        ]
        sentences = [_READY.decode().rstrip(), *filter(None, problems)]
        return Written(f"{'; '.join(sentences)}\n".encode(), "text/plain")

    async def _metrics(self, scope: Scope) -> Written:
        caller = await self._authenticate(scope)
        caller.ensure(LEVEL["read"], None)
        server = self._server
        figures = await server.store.figures(None if caller.is_unlimited else caller.sees)
        exposed = Exposed(
            server.metrics, server.admission, figures, self._worker, server.answers.nbytes
        )
        return Written(exposition(exposed), CONTENT_TYPE)


def _is_visible_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _is_streamed(handler: Route | SimpleHandler) -> bool:
    return isinstance(handler, Route) and handler.streams


@cache
def _description() -> Asset:
    """Return the OpenAPI document. It is the same for all servers of a process."""
    return Asset(openapi(ROUTES), "application/json")


def _asset(asset: Asset) -> SimpleHandler:
    headers = list(asset.headers.items())

    def answer(scope: Scope) -> Written:
        if scope.headers.get("if-none-match") == asset.etag:
            return Written(b"", "", NOT_MODIFIED, headers, is_asset=True)
        return Written(asset.content, asset.content_type, 200, headers, is_asset=True)

    return answer
