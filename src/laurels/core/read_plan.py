"""Read plans. A read plan has the requests to an index, all answered from one state, and the
function that makes the answer.

A plan does not read an index itself, so the same plan works with an index in this process and with
a remote one.
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
"""A position beyond the end of any ranking."""

T = TypeVar("T")


def integer_argument(
    name: str, value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]
) -> int:
    """Return an argument that is an integer from `low` to `high`. For any other argument raise the
    error `refusal(message)`, where the message names the argument."""
    count = integer_within(value, low, high)
    if count is None:
        bounds = f"of {low:,} or more" if high is None else f"from {low:,} to {high:,}"
        raise refusal(f"expected an integer {bounds} for {name}, got {safe_repr(value)}")
    return count


class ReadPlan(Struct, Generic[T], frozen=True):
    """The requests to an index, all answered from one state, and the function that makes the
    result.

    `finish` takes the results of the requests and the offset of that state. If more has to be read,
    it returns the next plan. `fast_path` is a faster way to the result with an index in this
    process.
    """

    requests: tuple[ReadRequest, ...]
    finish: "Callable[[Sequence[ReadResult], Offset], T | ReadPlan[T]]"
    fast_path: Callable[[Index, Offset], T] | None = None

    def run_local(self, index: Index, offset: Offset) -> T:
        """Return the result from an index in this process, as of an offset. The index must not
        change meanwhile."""
        if self.fast_path is not None:
            return self.fast_path(index, offset)
        result = self.finish([find(index, request) for request in self.requests], offset)
        return result.run_local(index, offset) if isinstance(result, ReadPlan) else result

    def run(self, read: Callable[[ReadRequest], ReadResult], offset: Offset) -> T:
        """Return the result of the plan. `read` answers the requests, all from the state at the
        offset."""
        result = self.finish(list(map(read, self.requests)), offset)
        return result.run(read, offset) if isinstance(result, ReadPlan) else result


def final(result: T | ReadPlan[T]) -> T:
    """Return the result of a plan that needs no further plan."""
    assert not isinstance(result, ReadPlan)
    return result
