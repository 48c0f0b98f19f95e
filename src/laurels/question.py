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
from .plan import RankingKey
from .standing import rank_or_none

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


class Question(Generic[T]):
    """What is to be read, all of one state, and what the answer is."""

    __slots__ = ()

    @property
    def asks(self) -> tuple[Ask, ...]:
        """What is to be read."""
        raise NotImplementedError

    def answer(self, found: Sequence[Found], offset: Offset, /) -> "T | Question[T]":
        """The answer, made of what was found and of the offset of that state. Where it takes
        another look, the next question."""
        raise NotImplementedError

    def here(self, index: Index, offset: Offset) -> T:
        """The answer by an index in this process, which stands still meanwhile, as of an offset.

        Questions that are asked most answer this in less time.
        """
        answer = self.answer([find(index, ask) for ask in self.asks], offset)
        return answer.here(index, offset) if isinstance(answer, Question) else answer


class Asked(Struct, Question[T], frozen=True):
    """A question that is put together when it is asked."""

    asks: tuple[Ask, ...]
    answer: Callable[[Sequence[Found], Offset], T | Question[T]]
    shortly: Callable[[Index, Offset], T] | None = None
    """How an index in this process answers it in less time."""

    def here(self, index: Index, offset: Offset) -> T:
        if self.shortly is not None:
            return self.shortly(index, offset)
        return super().here(index, offset)


class RankOf(Struct, Question[int | None], frozen=True):
    """The rank of a member, as users count it; None for who is not ranked."""

    key: RankingKey
    member: str

    @property
    def asks(self) -> tuple[Ask, ...]:
        return (Ask(self.key, members=(self.member,), ranks=True),)

    def answer(self, found: Sequence[Found], offset: Offset, /) -> int | None:
        located = found[0].located
        return None if located is None else rank_or_none(located.ranks[0])

    def here(self, index: Index, offset: Offset) -> int | None:
        return rank_or_none(index.rank(self.key, self.member))
