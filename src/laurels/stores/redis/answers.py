"""Answers queries from a cache in this process, for boards that permit it by `max_age`.

The cache has encoded answers, each with the version of the board that it shows. The age of an
answer begins when its query is sent. An answer is used only for readers that have not seen a newer
version (`Floor`). Its use ends when it is `max_age` old, when a period or step ends, when the board
ends, or when a refresh is due, whichever comes first.

An answer is not cached in three cases: since its query was sent, this process has seen a newer
version, in another answer or by a write; the answer is about a window with decay; or the boards use
event time, which only the index server knows.

A version counts the changes of a board. So an answer should show at least as many changes as any
answer that arrived before its query was sent. If it shows fewer, the server has lost changes, for
instance in a failover. Then all earlier answers about the board are dropped, and its versions start
over.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.board_version import BoardVersion, later, version_of
from laurels.core.commands import (
    ChangeBoard,
    Command,
    DisqualifyMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    Submit,
    SubmitMany,
)
from laurels.core.index import Offset
from laurels.core.query import Query
from laurels.stores.answers.answer import AnswerObserver, CacheSettings, EncodedAnswer
from laurels.stores.answers.cache import AnswerCache, AnswerKey
from laurels.stores.answers.sessions import Floor, Session
from laurels.wire.queries import encode_answer

from .catalog import BoardCatalog
from .query_runner import QueryRunner

T = TypeVar("T")
MAX_OWN_BOARDS = 100_000
"""The maximum number of boards for which the session of the program that opened the store has
floors (see `answers/sessions.py`)."""
MAX_NAMES = 10_000
"""The maximum number of board names that this process remembers as allowed or not by the settings
of the cache (`CacheSettings.keeps`)."""
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


class KeptAnswer(Struct, frozen=True):
    """A cached answer. Its query was sent at `moment`, and at `sent_ns` by the monotonic clock. The
    answer is valid until the time of the board is `until_ms` or the answer is `max_age_ms` old,
    whichever comes first."""

    content: bytes
    version: BoardVersion
    moment: int
    sent_ns: int
    until_ms: int
    max_age_ms: int


class AnswerFrame(Struct, frozen=True):
    """The data that is cached together with an answer's content and version. `life` identifies the
    board of the answer, between two of its clearings."""

    life: str
    moment: int
    sent_ns: int
    until_ms: int
    max_age_ms: int


class Fetched(Struct, Generic[T], frozen=True):
    """A result from the index server. `version` is the version of the board that it shows; it is
    None if answers about the board are not cached. `frame` is None if this answer must not be
    cached."""

    result: T
    version: BoardVersion | None = None
    frame: AnswerFrame | None = None


class _SeenState(Struct):
    """The versions of a board that this process has seen. `newest` is the newest version. An answer
    may be used only if its query was sent after `least_moment`."""

    newest: BoardVersion | None = None
    least_moment: int = 0


class Answers:
    """The cached answers of this process. `elapsed_ns` is the monotonic clock that measures ages.
    `moment` returns the next moment; it is passed if several stores of the process share one
    sequence of moments."""

    def __init__(
        self,
        catalog: BoardCatalog,
        queries: QueryRunner,
        settings: CacheSettings,
        elapsed_ns: Callable[[], int],
        *,
        is_session: bool,
        moment: Callable[[], int] | None = None,
    ) -> None:
        self._catalog = catalog
        self._queries = queries
        self._settings = settings
        self._elapsed_ns = elapsed_ns
        self._next_moment = count(1).__next__ if moment is None else moment
        self._cache: AnswerCache[KeptAnswer] = AnswerCache(settings.max_bytes, self._is_dead)
        self._seen: dict[str, _SeenState] = {}
        self._allowed: dict[str, bool] = {}
        self._session = Session(self.moment, MAX_OWN_BOARDS) if is_session else None
        self._observer: AnswerObserver | None = None

    @property
    def nbytes(self) -> int:
        """The size of the cached answers in bytes."""
        return self._cache.nbytes

    def moment(self) -> int:
        """Return a number that is greater than those of all earlier calls."""
        return self._next_moment()

    def keeps(self, board: str) -> bool:
        """Return whether answers about a board may be cached, as far as this process knows."""
        state = self._catalog.boards.boards.get(board)
        return state is not None and self._keeps(state)

    def observe(self, observer: AnswerObserver) -> None:
        """Call `observer` for each answer about a board whose answers are cached."""
        self._observer = observer

    # For a service

    async def answer(
        self, board: str, query: Query[Any], floor: Floor, *, packed: bool
    ) -> EncodedAnswer:
        """Return the encoded answer to a query. A cached answer is used only if it is not below
        `floor`."""
        kept = self._find(board, query, floor, packed=packed)
        if kept is not None:
            return EncodedAnswer(kept.content, kept.version)
        fetched = await self._fetch(board, query)
        content = encode_answer(query, fetched.result, packed=packed)
        self._keep(query, fetched, content, packed=packed)
        return EncodedAnswer(content, fetched.version)

    def version_after(self, board: str, offset: Offset) -> BoardVersion | None:
        """Return the version of a board after a write by this process. Return None if answers about
        the board are not kept, or if `offset` does not have a number for each shard."""
        state = self._catalog.boards.boards.get(board)
        shards = len(offset) if isinstance(offset, tuple) else 1
        if state is None or not offset or shards != state.rules.shards or not self._keeps(state):
            return None
        version = version_of(state.uid, offset)
        seen = self._seen_state(state)
        seen.newest = later(seen.newest, None, version)
        return version

    # For the program that opened the boards

    def find_own(self, board: str, query: Query[Any]) -> bytes | None:
        """Return a cached answer for the program that opened the boards; None if there is none that
        may be used. O(1); any thread may call it."""
        if self._session is None:
            return None
        kept = self._find(board, query, self._session.floor(board))
        if kept is None:
            return None
        self._session.note_answer(board, kept.version)
        return kept.content

    async def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer of the index server. Cache it for the program that opened the
        boards."""
        if self._session is None:
            return await self._queries.ask(board, query)
        before = self._session.floor(board)
        fetched = await self._fetch(board, query)
        if fetched.frame is not None and fetched.result is not None:
            self._keep(query, fetched, encode_answer(query, fetched.result))
        if fetched.version is not None:
            self._session.note_answer(board, fetched.version, before)
        return fetched.result

    @contextmanager
    def recording(self, command: Command[Any]) -> Iterator[None]:
        """Record the write that is made in this context, so that cached answers to earlier queries
        are not used any more. After a submission of events, these answers are no longer used for
        the program that opened the boards. After any other write, they are not used for any reader.
        A write is recorded even if it fails, since it may have counted despite the error."""
        try:
            yield
        finally:
            match command:
                case Submit(board=name) | SubmitMany(board=name):
                    if self._session is not None and self.keeps(name):
                        self._session.note_write(name)
                case SetData(board=name) | RemoveMember(board=name) | Mend(board=name):
                    self._drop(name)
                case HideMember(board=name) | ShowMember(board=name):
                    self._drop(name)
                case HideEverywhere() | ShowEverywhere():
                    for name in list(self._catalog.boards.boards):
                        self._drop(name)
                case ChangeBoard(name=name) | DisqualifyMember(board=name):
                    self._drop(name)

    def _drop(self, board: str) -> None:
        """From now on, do not use an answer about a board if its query was sent before this
        call."""
        state = self._catalog.boards.boards.get(board)
        if state is not None and self._keeps(state):
            self._seen_state(state).least_moment = self.moment()

    # Memory

    def _find(
        self, board: str, query: Query[Any], floor: Floor, *, packed: bool = False
    ) -> KeptAnswer | None:
        """Return a cached answer; None if there is none that may be used."""
        state = self._catalog.boards.boards.get(board)
        if state is None or not query.cacheable or not self._keeps(state):
            return None
        kept = self._cache.find(AnswerKey(_life_of(state), query, packed))
        if kept is None:
            return None
        age_ns = self._elapsed_ns() - kept.sent_ns
        if (
            age_ns >= state.rules.max_age_ms * _NS_PER_MS
            or self._now_ms() >= kept.until_ms
            or kept.moment <= self._seen_state(state).least_moment
            or not floor.admits(kept.version, kept.moment)
        ):
            return None
        if self._observer is not None:
            self._observer(True, age_ns / _NS_PER_S)
        return kept

    async def _fetch(self, board: str, query: Query[T]) -> Fetched[T]:
        """Return the result of the index server, and the data to be cached together with it."""
        moment, sent_ns = self.moment(), self._elapsed_ns()
        cached = self._catalog.boards.boards.get(board)
        before = None if cached is None else self._seen_state(cached).newest
        reply = await self._queries.reply(board, query)
        state = reply.state
        if state is None or reply.offset is None or not self._keeps(state):
            return Fetched(reply.result)
        version = version_of(state.uid, reply.offset)
        if cached is None or cached.uid != state.uid:
            before = None
        is_newest = self._note(state, version, before, moment)
        if self._observer is not None:
            self._observer(False, (self._elapsed_ns() - sent_ns) / _NS_PER_S)
        frame = None
        if is_newest and query.cacheable and reply.until_ms > self._now_ms():
            max_age_ms = state.rules.max_age_ms
            frame = AnswerFrame(_life_of(state), moment, sent_ns, reply.until_ms, max_age_ms)
        return Fetched(reply.result, version, frame)

    def _keep(
        self, query: Query[T], fetched: Fetched[T], content: bytes, *, packed: bool = False
    ) -> None:
        """Cache a fetched answer, if it may be cached."""
        frame, version = fetched.frame, fetched.version
        if frame is None or version is None:
            return
        kept = KeptAnswer(
            content, version, frame.moment, frame.sent_ns, frame.until_ms, frame.max_age_ms
        )
        self._cache.keep(AnswerKey(frame.life, query, packed), kept)

    def _note(
        self, state: BoardState, version: BoardVersion, before: BoardVersion | None, moment: int
    ) -> bool:
        """Record the version of an answer. Return whether the answer may be cached. It may not if a
        newer version was seen, or if its query was sent before the last call of `_drop` or before
        versions last started over."""
        seen = self._seen_state(state)
        if before is not None and not version.covers(before):
            seen.newest, seen.least_moment = version, self.moment()
            return False
        is_newest = seen.newest is None or version.covers(seen.newest)
        seen.newest = later(seen.newest, before, version)
        return is_newest and moment > seen.least_moment

    def _keeps(self, state: BoardState) -> bool:
        if state.rules.max_age_ms == 0 or self._catalog.event_time:
            return False
        name = state.board.name
        allowed = self._allowed.get(name)
        if allowed is None:
            if len(self._allowed) >= MAX_NAMES:
                self._allowed.clear()
            allowed = self._allowed[name] = self._settings.keeps(name)
        return allowed

    def _seen_state(self, state: BoardState) -> _SeenState:
        seen = self._seen.get(state.uid)
        if seen is None:
            boards = self._catalog.boards.boards
            if len(self._seen) > 2 * len(boards) + MAX_NAMES:  # most of these boards are deleted
                uids = {each.uid for each in list(boards.values())}
                self._seen = {uid: kept for uid, kept in list(self._seen.items()) if uid in uids}
            seen = self._seen.setdefault(state.uid, _SeenState())
        return seen

    def _now_ms(self) -> int:
        return max(self._catalog.latest_ms, self._catalog.clock.now_ms())

    def _is_dead(self, kept: KeptAnswer) -> bool:
        age_ns = self._elapsed_ns() - kept.sent_ns
        return age_ns >= kept.max_age_ms * _NS_PER_MS or self._now_ms() >= kept.until_ms


def _life_of(state: BoardState) -> str:
    """Return a text that changes when a board is cleared, or restored after its removal, so that no
    cached answer shows members from before."""
    cleared = state.cleared
    return state.uid if cleared is None else f"{state.uid}/{cleared.version}"
