"""A question: what is read of an index, all of one state, and what is made of it.

Nothing here reads an index itself, so it does not matter whether that is in this process.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

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
T_co = TypeVar("T_co", covariant=True)


def whole(value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]) -> int:
    """An integer argument within its bounds, ends included, or the refusal."""
    if type(value) is not int:
        raise refusal(f"{shown(value)} is no whole number")
    if value < low:
        raise refusal(f"{shown(value)} is below {low}")
    if high is not None and value > high:
        raise refusal(f"{shown(value)} is above {high:,}")
    return value


class Question(Protocol[T_co]):
    """What is to be read, all of one state, and what the answer is."""

    @property
    def asks(self) -> tuple[Ask, ...]:
        """What is to be read."""

    @property
    def answer(self) -> "Callable[[Sequence[Found], Offset], T_co | Asked[T_co]]":
        """Makes the answer of what was found and of the offset of that state. Where it takes
        another look, that is the next question."""

    def here(self, index: Index, offset: Offset) -> T_co:
        """The answer by an index in this process, which stands still meanwhile, as of an offset."""


class Asked(Struct, Generic[T], frozen=True):
    """A question that is put together when it is asked."""

    asks: tuple[Ask, ...]
    answer: "Callable[[Sequence[Found], Offset], T | Asked[T]]"
    shortly: Callable[[Index, Offset], T] | None = None
    """How an index in this process answers it in less time."""

    def here(self, index: Index, offset: Offset) -> T:
        if self.shortly is not None:
            return self.shortly(index, offset)
        answer = self.answer([find(index, ask) for ask in self.asks], offset)
        return answer.here(index, offset) if isinstance(answer, Asked) else answer


class RankOf(Struct, frozen=True):
    """The rank of a member, as users count it; None for who is not ranked. An index in this process
    is asked without anything being put together."""

    key: RankingKey
    member: str

    @property
    def asks(self) -> tuple[Ask, ...]:
        return (Ask(self.key, members=(self.member,), ranks=True),)

    def answer(self, found: Sequence[Found], _: Offset) -> int | None:
        located = found[0].located
        return None if located is None else rank_or_none(located.ranks[0])

    def here(self, index: Index, _: Offset) -> int | None:
        return rank_or_none(index.rank(self.key, self.member))
