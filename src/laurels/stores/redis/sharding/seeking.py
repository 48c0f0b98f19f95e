"""Searches for a place near a given position of a board in several shards.

No shard knows the positions of its entries on the whole board, but each shard can count how many of
its entries precede an entry of another shard. So in each round every shard proposes an entry, by
interpolation in its part of the remaining range. The position of a proposed entry on the whole
board is the sum of all shards' counts, and these positions narrow the range. As members are spread
evenly over the shards, two or three rounds suffice. Every second round proposes the middle of the
remaining range instead, so that the range is halved for any distribution.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from laurels.core.requests import Anchor, AtBound, End, ReadRequest, ReadResult, Span, Start
from laurels.errors import NotReady
from laurels.model.validation import quoted

from .coverage import certain_in
from .shards import hidden_in

Read = Callable[[list[list[ReadRequest]]], Awaitable[list[Sequence[ReadResult]]]]
"""A function that sends requests to each shard, and returns the results of each."""

ROUNDS = 100


class _Location:
    """A place, with its position on the whole board and in each shard. If it is not exact, these
    positions are the least possible ones."""

    def __init__(self, place: Anchor, parts: list[int], *, is_exact: bool = True) -> None:
        self.place = place
        self.parts = parts
        self.position = sum(parts)
        self.is_exact = is_exact


async def seek(
    read: Read, request: ReadRequest, width: int, shards: int, wanted: int, near: int
) -> tuple[Anchor, int]:
    """Search the ranking of `request` for a place at most `near` entries from the position
    `wanted`. Return this place, and its position as of the last read. If the order is known only up
    to some position, `wanted` must be before that position."""
    rankings = [_of_shard(request, shard, shards) for shard in range(shards)]
    results = [each[0] for each in await read([[ranking] for ranking in rankings])]
    low = _Location(Start(), [0] * shards)
    ends = [min(certain_in(each), request.head or each.total) for each in results]
    high = _Location(End(), ends, is_exact=ends == [each.total for each in results])
    for round in range(ROUNDS):
        for mark in (low, high):
            if mark.is_exact and abs(mark.position - wanted) <= near:
                return mark.place, mark.position
        if not low.position < wanted < high.position:
            last = high if high.is_exact else low
            return last.place, last.position
        share = (wanted - low.position) / (high.position - low.position)
        if round % 2:
            share = 0.5
        places = [int(a + (b - a) * share) for a, b in zip(low.parts, high.parts, strict=True)]
        marks = await _marks(read, rankings, width, places, ends)
        narrowed = False
        for mark in marks:
            if low.position < mark.position <= wanted:
                low, narrowed = mark, True
            elif wanted < mark.position < high.position:
                high, narrowed = mark, True
        if not narrowed and round % 2:
            break
    raise NotReady(f"the ranking of {quoted(request.key.window)} kept changing while it was read")


def _of_shard(request: ReadRequest, shard: int, shards: int) -> ReadRequest:
    """Return a request for the ranking of `request` in a shard."""
    hidden = hidden_in(request.hidden, shard, shards)
    return ReadRequest(request.key, head=request.head, zeros=request.zeros, hidden=hidden)


async def _marks(
    read: Read,
    rankings: Sequence[ReadRequest],
    width: int,
    places: Sequence[int],
    ends: Sequence[int],
) -> list[_Location]:
    """Read from each shard the entry at one position, and return the places of these entries, with
    their positions on the whole board."""
    requests = [
        [replace(ranking, anchors=(Start(),), spans=(Span(0, place, place + 1),))]
        for ranking, place in zip(rankings, places, strict=True)
    ]
    bounds: dict[AtBound, None] = {}
    for each in await read(requests):
        part = each[0].slices[0]
        if part.members:
            words = tuple([column[0] for column in part.words[:width]])
            bounds[AtBound(words, part.members[0].encode(), False)] = None
    counted = await read([[replace(ranking, anchors=tuple(bounds))] for ranking in rankings])
    return [_mark(bound, i, [each[0] for each in counted], ends) for i, bound in enumerate(bounds)]


def _mark(bound: AtBound, i: int, parts: Sequence[ReadResult], ends: Sequence[int]) -> _Location:
    """Return the location of `bound`, which is the anchor with the index `i` in the results
    `parts`. If a shard knows only a part of its order, its position is limited to the end of that
    part, in `ends`."""
    positions = [
        part.positions[i] if part.certain is None else min(part.positions[i], end)
        for part, end in zip(parts, ends, strict=True)
    ]
    is_exact = all(
        part.highs is None or part.highs[i] == position
        for part, position in zip(parts, positions, strict=True)
    )
    return _Location(bound, positions, is_exact=is_exact)
