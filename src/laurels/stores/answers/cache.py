"""A cache of encoded answers, limited in bytes. The least frequently used ones are evicted first.

The cache does not know whether an answer may still be used. Its store decides that: the store of
one process by change tokens, the store on an index server by the age of the answer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from laurels.core.query import Query

if TYPE_CHECKING:
    import cachebox

DEFAULT_BYTES = 64 << 20
LARGE = 256 << 10
"""The maximum size in bytes of an answer that is cached."""
OVERHEAD = 900
"""The approximate number of bytes that an answer takes besides its content and its encoded
query."""
FREED_SHARE = 16
"""When the cache is full, answers are evicted until one part in this many of its maximum size is
free. Freeing less at a time would be slow, since choosing the answers to evict may sort all
answers."""


_encode = msgspec.msgpack.Encoder().encode


class AnswerKey(NamedTuple):
    """The key of an answer: a text that identifies its board, its query, and whether it is
    MessagePack."""

    board: str
    query: Query[Any]
    packed: bool = False


class Sized(Protocol):
    """An answer that can be cached."""

    @property
    def content(self) -> bytes: ...


A = TypeVar("A", bound=Sized)


class AnswerCache(Generic[A]):
    """Answers by key, of at most `max_bytes` bytes including their keys. `is_dead` returns whether
    an answer can never be used again; such answers are evicted before all others.

    Any thread may call its methods, since the answers are in a cache of cachebox, whose methods are
    atomic.
    """

    def __init__(self, max_bytes: int, is_dead: Callable[[A], bool]) -> None:
        self._max_bytes = max_bytes
        self._is_dead = is_dead
        self._answers: cachebox.LFUCache[AnswerKey, A] | None = None

    @property
    def nbytes(self) -> int:
        """The size of all answers in bytes."""
        return 0 if self._answers is None else self._answers.current_size()

    def find(self, key: AnswerKey) -> A | None:
        """Return an answer; None if there is none."""
        return None if self._answers is None else self._answers.get(key)

    def keep(self, key: AnswerKey, answer: A) -> None:
        """Add an answer, unless it is too large."""
        nbytes = _nbytes(key, answer)
        if nbytes > min(LARGE, self._max_bytes):
            return
        answers = self._answers
        if answers is None:
            answers = self._answers = _opened(self._max_bytes)
        if answers.remaining_size() < nbytes:
            self._free(answers)
        answers.insert(key, answer)

    def clear(self) -> None:
        """Remove all answers."""
        if self._answers is not None:
            self._answers.clear()

    def _free(self, answers: "cachebox.LFUCache[AnswerKey, A]") -> None:
        for key in [key for key, answer in list(answers.items()) if self._is_dead(answer)]:
            answers.pop(key, None)
        while answers and answers.remaining_size() < self._max_bytes // FREED_SHARE:
            answers.popitem()


def _nbytes(key: AnswerKey, answer: Sized) -> int:
    return OVERHEAD + len(_encode(key.query)) + len(answer.content)


def _opened(max_bytes: int) -> "cachebox.LFUCache[AnswerKey, Any]":
    """Return an empty cache. cachebox is imported only when the first answer is cached."""
    import cachebox  # noqa: PLC0415 (only stores with something to keep need it)

    return cachebox.LFUCache(max_bytes, getsizeof=_nbytes)
