"""A question: what is read of an index, all of one state, and what is made of it.

Nothing here reads an index itself, so it does not matter whether that is in this process.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.model.validation import integer, safe_repr

from .index import Index, Offset
from .requests import ReadRequest, ReadResult, find

MAX_LIMIT = 10_000
MAX_RADIUS = 5_000
FAR = 2**52
"""A position beyond every ranking."""

T = TypeVar("T")


def whole(value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]) -> int:
    """An integer argument within its bounds, ends included, or the refusal."""
    count = integer(value)
    if count is None:
        raise refusal(f"{safe_repr(value)} is no whole number")
    if count < low:
        raise refusal(f"{safe_repr(value)} is below {low}")
    if high is not None and count > high:
        raise refusal(f"{safe_repr(value)} is above {high:,}")
    return count


class Question(Struct, Generic[T], frozen=True):
    """What is to be read, all of one state, and what is made of it.

    `answer` is told what was found and the offset of that state; where it takes another look, it
    gives the next question. `fast_path` is how an index in this process answers in less time.
    """

    asks: tuple[ReadRequest, ...]
    answer: "Callable[[Sequence[ReadResult], Offset], T | Question[T]]"
    fast_path: Callable[[Index, Offset], T] | None = None

    def here(self, index: Index, offset: Offset) -> T:
        """The answer by an index in this process, which stands still meanwhile, as of an offset."""
        if self.fast_path is not None:
            return self.fast_path(index, offset)
        answer = self.answer([find(index, ask) for ask in self.asks], offset)
        return answer.here(index, offset) if isinstance(answer, Question) else answer


def final(answer: T | Question[T]) -> T:
    """Return an answer to a question that asks no further one."""
    assert not isinstance(answer, Question)
    return answer
