"""Encoded answers of the store of one process. Lists are kept until their board changes.

An answer depends only on the board, the time and the query. The change token of a board (see
`change_token`) changes whenever the board has changed or a period has ended. It is read before the
answer is computed, so a kept answer is never older than its token.
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


class KeptList(Struct, frozen=True):
    """An answer, and the change token that it was computed for."""

    content: bytes
    change_token: ChangeToken


class Asked(Protocol):
    """The part of the store that answers come from."""

    def named(self, name: str) -> BoardState: ...

    def change_token(self, board: str) -> ChangeToken: ...

    async def ask_async(self, board: str, query: Query[T]) -> T: ...


class LocalAnswers:
    """The answers of the store of one process. Each is current, so nothing has to be compared: none
    has a version."""

    def __init__(self, store: Asked, most_bytes: int) -> None:
        self._store = store
        self._cache: AnswerCache[KeptList] = AnswerCache(most_bytes, lambda _: False)

    @property
    def nbytes(self) -> int:
        """The bytes of the kept answers."""
        return self._cache.nbytes

    async def answer(
        self, board: str, query: Query[Any], _floor: Floor, *, packed: bool
    ) -> EncodedAnswer:
        """Return the answer to a query as it is sent.

        The answer is computed anew if a period of the board has ended, since the board has to be
        advanced first, and for a board with decay, since its scores change all the time.
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
        self._cache.keep(key, KeptList(content, token))
        return EncodedAnswer(content)

    def keeps(self, _board: str) -> bool:
        """Return False: no answer of this store is old."""
        return False

    def moment(self) -> int:
        """Return 0: answers of this store need no order."""
        return 0

    def version_after(self, _board: str, _offset: Offset) -> BoardVersion | None:
        """Return None: answers have no version."""
        return None

    def observe(self, observer: AnswerObserver) -> None:
        """Do nothing: no answer is old, so there are no ages to observe."""
