"""A cache of encoded answers, bounded in bytes. The least frequently used ones leave first.

The cache stores and counts. Whether an answer may still be used is up to its store: the store in
this process compares change tokens, the store on an index server the age of the answer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from laurels.core.query import Query

if TYPE_CHECKING:
    import cachebox

DEFAULT_BYTES = 64 << 20
LARGE = 256 << 10
"""The most bytes of an answer that is kept."""
OVERHEAD = 900
"""About how many bytes an answer takes besides its content: its query, its place in the cache."""
FREED_SHARE = 16
"""When the cache is full, a sixteenth of it is freed at once: choosing what leaves may sort
everything."""


_encode = msgspec.msgpack.Encoder().encode


class AnswerKey(NamedTuple):
    """What an answer is about: the board by its unique id, the query, and the encoding."""

    board: str
    query: Query[Any]
    packed: bool = False


class Sized(Protocol):
    """An answer as the cache keeps it."""

    @property
    def content(self) -> bytes: ...


A = TypeVar("A", bound=Sized)


class AnswerCache(Generic[A]):
    """Answers by key, with at most `most_bytes` bytes including their keys. `is_dead` says whether
    an answer can never be used again; such answers leave before all others.

    Answers are kept by cachebox, whose methods are atomic, so any thread may call this.
    """

    def __init__(self, most_bytes: int, is_dead: Callable[[A], bool]) -> None:
        self._most_bytes = most_bytes
        self._is_dead = is_dead
        self._answers: cachebox.LFUCache[AnswerKey, A] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all answers."""
        return 0 if self._answers is None else self._answers.current_size()

    def find(self, key: AnswerKey) -> A | None:
        """Return an answer, None if there is none."""
        return None if self._answers is None else self._answers.get(key)

    def keep(self, key: AnswerKey, answer: A) -> None:
        """Keep an answer, unless it is large."""
        nbytes = _nbytes(key, answer)
        if nbytes > min(LARGE, self._most_bytes):
            return
        answers = self._answers
        if answers is None:
            answers = self._answers = _opened(self._most_bytes)
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
        while answers and answers.remaining_size() < self._most_bytes // FREED_SHARE:
            answers.popitem()


def _nbytes(key: AnswerKey, answer: Sized) -> int:
    return OVERHEAD + len(_encode(key.query)) + len(answer.content)


def _opened(most_bytes: int) -> "cachebox.LFUCache[AnswerKey, Any]":
    """Return an empty cache. cachebox is loaded when the first answer is kept."""
    import cachebox  # noqa: PLC0415 (only stores with something to keep need it)

    return cachebox.LFUCache(most_bytes, getsizeof=_nbytes)
