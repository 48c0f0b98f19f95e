"""Encoded answers of the store of one process. Answers to queries that many clients make are cached
until their board changes.

An answer depends only on the board, the time and the query. The change token of a board (see
`change_token`) changes whenever the board has changed or a period has ended. It is read before the
answer is computed, so a cached answer is never older than its token.
"""

from typing import Any, Protocol, TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.board_version import BoardVersion
from laurels.core.index import Offset
from laurels.core.query import Query
from laurels.stores.answers.answer import AnswerObserver, EncodedAnswer
from laurels.stores.answers.cache import AnswerCache, AnswerKey
from laurels.stores.answers.sessions import Floor
from laurels.wire.queries import encode_answer

T = TypeVar("T")
ChangeToken = tuple[int, int, int, bool]


class CachedAnswer(Struct, frozen=True):
    """An encoded answer, and the change token that its board had just before the answer was
    computed."""

    content: bytes
    change_token: ChangeToken


class QueriedStore(Protocol):
    """The methods of the store from which answers are made."""

    def named(self, name: str) -> BoardState: ...

    def change_token(self, board: str) -> ChangeToken: ...

    async def ask_async(self, board: str, query: Query[T]) -> T: ...


class LocalAnswers:
    """Implementation of `AnswerSource`. All answers of the store of one process are current, so
    they have no version."""

    def __init__(self, store: QueriedStore, max_bytes: int) -> None:
        self._store = store
        self._cache: AnswerCache[CachedAnswer] = AnswerCache(max_bytes, lambda _: False)

    @property
    def nbytes(self) -> int:
        """The size of the cached answers in bytes."""
        return self._cache.nbytes

    async def answer(
        self, board: str, query: Query[Any], _floor: Floor, *, packed: bool
    ) -> EncodedAnswer:
        """Return the encoded answer to a query.

        No cached answer is used in two cases: a boundary of the board has passed, so that the board
        has to be advanced first; or the board has a window with decay and has not ended, so that
        its scores change all the time.
        """
        if not query.shared:
            result = await self._store.ask_async(board, query)
            return EncodedAnswer(encode_answer(query, result, packed=packed))
        token = self._store.change_token(board)
        key = AnswerKey(self._store.named(board).uid, query, packed)
        kept = self._cache.find(key)
        if kept is not None and kept.change_token == token and not token[3]:
            return EncodedAnswer(kept.content)
        result = await self._store.ask_async(board, query)
        content = encode_answer(query, result, packed=packed)
        self._cache.keep(key, CachedAnswer(content, token))
        return EncodedAnswer(content)

    def keeps(self, _board: str) -> bool:
        """Return False, since no answer of this store is out of date."""
        return False

    def moment(self) -> int:
        """Return 0, since the answers of this store need no order."""
        return 0

    def version_after(self, _board: str, _offset: Offset) -> BoardVersion | None:
        """Return None, since the answers of this store have no version."""
        return None

    def observe(self, observer: AnswerObserver) -> None:
        """Do nothing, since no answer is out of date."""
