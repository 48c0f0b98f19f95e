"""A question: what is read of an index, all of one state, and what is made of it.

Nothing here reads an index itself, so it does not matter whether that is in this process.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from .errors import LaurelsError
from .given import shown
from .index.asking import Ask, Found, find
from .index.base import Index, Offset

MAX_LIMIT = 10_000
MAX_RADIUS = 5_000
FAR = 2**52
"""A position beyond every ranking."""

T = TypeVar("T")


def whole(value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]) -> int:
    """An integer argument within its bounds, ends included, or the refusal."""
    if type(value) is not int:
        raise refusal(f"{shown(value)} is no whole number")
    if value < low:
        raise refusal(f"{shown(value)} is below {low}")
    if high is not None and value > high:
        raise refusal(f"{shown(value)} is above {high:,}")
    return value


class Question(Struct, Generic[T], frozen=True):
    """What is to be read, all of one state, and what the answer is: made of what was found and of
    the offset of that state. Where it takes another look, the answer is the next question."""

    asks: tuple[Ask, ...]
    answer: Callable[[Sequence[Found], Offset], "T | Question[T]"]
    here: Callable[[Index, Offset], T] | None = None
    """How an index in this process answers it in less time."""


def answered(question: Question[T], index: Index, offset: Offset) -> T:
    """The answer to a question by an index that stands still meanwhile, as of an offset."""
    if question.here is not None:
        return question.here(index, offset)
    answer = question.answer([find(index, ask) for ask in question.asks], offset)
    while isinstance(answer, Question):
        answer = answer.answer([find(index, ask) for ask in answer.asks], offset)
    return answer
