"""A read plan: what is read of an index, all of one state, and what is made of it.

Nothing here reads an index itself, so it does not matter whether that is in this process.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.model.validation import integer_within, safe_repr

from .index import Index, Offset
from .requests import ReadRequest, ReadResult, find

MAX_LIMIT = 10_000
MAX_RADIUS = 5_000
FAR = 2**52
"""A position beyond every ranking."""

T = TypeVar("T")


def whole(
    name: str, value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]
) -> int:
    """Return an integer argument within its bounds, ends included; raise the refusal, which names
    the argument, otherwise."""
    count = integer_within(value, low, high)
    if count is None:
        bounds = f"of {low:,} or more" if high is None else f"from {low:,} to {high:,}"
        raise refusal(f"expected an integer {bounds} for {name}, got {safe_repr(value)}")
    return count


class ReadPlan(Struct, Generic[T], frozen=True):
    """The requests to an index, all read of one state, and what makes a result of their results.

    `finish` takes the results and the offset of that state; where another look is needed, it
    returns the next plan. `fast_path` is how an index in this process answers in less time.
    """

    requests: tuple[ReadRequest, ...]
    finish: "Callable[[Sequence[ReadResult], Offset], T | ReadPlan[T]]"
    fast_path: Callable[[Index, Offset], T] | None = None

    def run_local(self, index: Index, offset: Offset) -> T:
        """Return the result by an index in this process, which does not change meanwhile, as of an
        offset."""
        if self.fast_path is not None:
            return self.fast_path(index, offset)
        result = self.finish([find(index, request) for request in self.requests], offset)
        return result.run_local(index, offset) if isinstance(result, ReadPlan) else result


def final(result: T | ReadPlan[T]) -> T:
    """Return the result of a plan that needs no further look."""
    assert not isinstance(result, ReadPlan)
    return result
