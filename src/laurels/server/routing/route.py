"""A row of the route table, and the decorators that add handlers to it."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from laurels.server.auth.caller import LEVEL
from laurels.server.requests.context import Handler
from laurels.wire.keys import Scope

NO_CONTENT, CREATED = 204, 201
FEW_BYTES = 16 << 10
"""The greatest size, in bytes, of a body in which neither a list nor a definition is expected."""


class Route(Struct, frozen=True):
    """A row of the route table. `body` and `returns` are types for the documentation; a tuple means
    one of several types. `reads` is true for a query."""

    method: str
    path: str
    scope: Scope
    handler: Handler
    query: type[Struct]
    body: Any
    returns: Any
    status: int
    reads: bool
    verb: str
    level: int
    of_board: bool
    """Whether the variable part of the path is a board."""
    streams: bool
    """Whether the answer is streamed."""
    most_body: int | None
    """The greatest size of the body, in bytes; None means the setting `max_body`."""
    audited: bool
    """Whether each call is written to the audit log. This is so for calls that administer and for
    calls that set a score."""
    store_wide: bool
    """Whether the call concerns the whole store. If so, a key limited to some boards is refused."""
    takes_submissions: bool
    """Whether the route accepts a token that may only submit for one member."""
    plain: bool
    """Whether the answer is the encoded result of the handler, rather than a stream."""


class NoQuery(Struct, forbid_unknown_fields=True):
    """No parameters."""


Put = Callable[[Handler], Handler]


class Routes(list[Route]):
    """The rows of the route table, in the order of the documentation."""

    def row(
        self,
        method: str,
        path: str,
        scope: Scope,
        *,
        query: type[Struct] = NoQuery,
        body: Any = None,
        returns: Any = None,
        status: int = 200,
        most_body: int | None = FEW_BYTES,
        store_wide: bool = False,
        takes_submissions: bool = False,
        audited: bool | None = None,
    ) -> Put:
        """Return a decorator that adds a handler to the table. Unless `audited` says otherwise,
        calls that administer are written to the audit log."""
        return self._put(
            method,
            path,
            scope,
            query,
            body,
            returns,
            status,
            reads=False,
            most_body=most_body,
            store_wide=store_wide,
            takes_submissions=takes_submissions,
            audited=audited,
        )

    def query(
        self,
        method: str,
        path: str,
        *,
        query: type[Struct] = NoQuery,
        body: Any = None,
        returns: Any = None,
        most_body: int | None = FEW_BYTES,
        takes_submissions: bool = False,
        scope: Scope = "read",
    ) -> Put:
        """Return a decorator that adds the handler of a query, which only reads, to the table."""
        return self._put(
            method,
            path,
            scope,
            query,
            body,
            returns,
            200,
            reads=True,
            most_body=most_body,
            takes_submissions=takes_submissions,
        )

    def _put(
        self,
        method: str,
        path: str,
        scope: Scope,
        query: type[Struct],
        body: Any,
        returns: Any,
        status: int,
        *,
        reads: bool,
        most_body: int | None,
        store_wide: bool = False,
        takes_submissions: bool = False,
        audited: bool | None = None,
    ) -> Put:
        is_administering = scope == "admin" and method != "GET"

        def put(handler: Handler) -> Handler:
            self.append(
                Route(
                    method,
                    path,
                    scope,
                    handler,
                    query,
                    body,
                    returns,
                    status,
                    reads,
                    verb=handler.__name__.rstrip("_"),
                    level=LEVEL[scope],
                    of_board="{board}" in path,
                    streams=returns is bytes,
                    most_body=most_body,
                    store_wide=store_wide,
                    takes_submissions=takes_submissions,
                    audited=is_administering if audited is None else audited,
                    plain=returns is not bytes,
                )
            )
            return handler

        return put
