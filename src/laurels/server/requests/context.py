"""The context of a request, which the application passes to handlers, and the results of
handlers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.board_version import BoardVersion, parse_version
from laurels.core.index import Offset
from laurels.core.query import Query
from laurels.server.admission.limits import AdmissionControl
from laurels.server.answers.hot_keys import HotKeys
from laurels.server.audit.auditing import Auditor
from laurels.server.auth.access import Keys
from laurels.server.auth.caller import Caller
from laurels.server.live.hub import Hub
from laurels.server.metrics import Metrics
from laurels.server.process.settings import Settings
from laurels.stores.answers.sessions import NO_FLOOR, ConnectionSessions, Floor
from laurels.stores.base import AnswerSource, BoardMover, Servable
from laurels.wire.answers import is_packed
from laurels.wire.requests import JSON, MSGPACK

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
    answers: AnswerSource
    sessions: ConnectionSessions
    hot_boards: HotKeys[str]
    hot_members: HotKeys[tuple[str, str]]
    mover: BoardMover | None = None


class Encoded(Struct, frozen=True):
    """A result that is encoded already."""

    content: bytes
    kind: str


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
    client: str = ""
    """The address and port of the client, which identify its connection."""
    accept: str | None = None
    sent_version: str | None = None
    """The header Laurels-As-Of: the newest version of the board that the client knows."""
    audited: bytes | None = None
    """What the audit log shows instead of the body, as JSON; None if it shows the body."""
    version: BoardVersion | None = None
    """The version of the board that the answer shows; None if it is not reported."""

    @property
    def board(self) -> str:
        """The board that the path names."""
        return self.part

    @property
    def batch_key(self) -> str | None:
        """The batch key by which the request's events count once: the Idempotency-Key, made unique
        to the caller. None if the request has no such key."""
        return None if self.key is None else self.caller.own_id(self.key)

    @property
    def store(self) -> Servable:
        return self.server.store

    async def answer(self, query: Query[Any]) -> Encoded:
        """Return the answer to a query about the board. It is not older than what the client has
        seen."""
        sent = None if self.sent_version is None else parse_version(self.sent_version)
        answers, board = self.server.answers, self.board
        packed = is_packed(self.accept)
        floor = self._floor() if answers.keeps(board) else NO_FLOOR
        if sent is not None:
            floor = floor.raised_to(sent)
        answered = await answers.answer(board, query, floor, packed=packed)
        self.show(answered.version, floor)
        self._count(query)
        return Encoded(answered.content, MSGPACK if packed else JSON)

    def show(self, version: BoardVersion | None, before: Floor = NO_FLOOR) -> None:
        """Report in a header which version of the board the answer shows, and note that the client
        has seen this version. `before` was the client's floor when the query was sent."""
        if version is not None:
            self.version = version
            self.server.sessions.of(self.client).note_answer(self.board, version, before)

    def show_written(self, offset: Offset) -> None:
        """Note that the answer shows the board as of the offset of a write."""
        self.show(self.server.answers.version_after(self.board, offset))

    def _count(self, query: Query[Any]) -> None:
        """Count a query that was answered, to find the boards and members that are asked for
        most."""
        self.server.hot_boards.add(self.board)
        member = getattr(query, "member", None)
        if member is not None:
            self.server.hot_members.add((self.board, member))

    def _floor(self) -> Floor:
        return self.server.sessions.of(self.client).floor(self.board)

    @property
    def lb(self) -> AsyncLeaderboards:
        return self.server.lb


class Response(Struct, frozen=True):
    """A result that is answered with `status` instead of the status of its route."""

    value: object
    status: int


class Streamed(Struct, frozen=True):
    """An answer that is sent in parts while it is computed."""

    parts: AsyncGenerator[bytes, None]
    kind: str


Handler = Callable[[RequestContext, Any], Awaitable[object]]
