"""The context of a request, which the application passes to handlers, and the results of
handlers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.server.admission.limits import AdmissionControl
from laurels.server.audit.auditing import Auditor
from laurels.server.auth.access import Keys
from laurels.server.auth.caller import Caller
from laurels.server.live.hub import Hub
from laurels.server.metrics import Metrics
from laurels.server.process.settings import Settings
from laurels.stores.base import Servable
from laurels.wire.requests import JSON

from .bodies import Bodies
from .deadlines import Deadlines
from .decoding import Decoder


class Server(Struct, frozen=True):
    """The state that all requests share."""

    lb: AsyncLeaderboards
    store: Servable
    settings: Settings
    keys: Keys
    admission: AdmissionControl
    deadlines: Deadlines
    bodies: Bodies
    decoder: Decoder
    hub: Hub
    metrics: Metrics
    audit: Auditor


class RequestContext(Struct):
    """One authorized request. `part` is the variable part of its path, `media_type` the media type
    of its body, `key` its Idempotency-Key."""

    server: Server
    caller: Caller
    part: str
    raw: bytes = b""
    media_type: str = JSON
    key: str | None = None
    last_event_id: str | None = None
    reason: str | None = None

    @property
    def board(self) -> str:
        """The board that the path names."""
        return self.part

    @property
    def batch_key(self) -> str | None:
        """The batch key by which the request's events count once. It is the Idempotency-Key, made
        unique to the caller."""
        return None if self.key is None else self.caller.own_id(self.key)

    @property
    def store(self) -> Servable:
        return self.server.store

    @property
    def lb(self) -> AsyncLeaderboards:
        return self.server.lb


class Response(Struct, frozen=True):
    """A result with another status than the status of its route."""

    value: object
    status: int


class Streamed(Struct, frozen=True):
    """An answer that is sent in parts while it is computed."""

    parts: AsyncGenerator[bytes, None]
    kind: str


Handler = Callable[[RequestContext, Any], Awaitable[object]]
