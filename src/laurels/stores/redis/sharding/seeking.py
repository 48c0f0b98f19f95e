"""Search for a place near a given position of a board in several shards.

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

Read = Callable[[list[list[ReadRequest]]], Awaitable[list[Sequence[ReadResult]]]]
"""A function that sends requests to each shard, and returns the results of each."""

ROUNDS = 100


class _Mark:
    """A place, with its position on the whole board and in each shard."""

    def __init__(self, place: Anchor, parts: list[int]) -> None:
        self.place = place
        self.parts = parts
        self.position = sum(parts)


async def seek(
    read: Read, request: ReadRequest, width: int, shards: int, wanted: int, near: int
) -> tuple[Anchor, int]:
    """Return a place within `near` of the wanted position of the ranking that a request is for, and
    its position as of the last read."""
    ranking = ReadRequest(request.key, zeros=request.zeros)
    results = await read([[ranking] for _ in range(shards)])
    low = _Mark(Start(), [0] * shards)
    high = _Mark(End(), [each[0].total for each in results])
    for round in range(ROUNDS):
        for mark in (low, high):
            if abs(mark.position - wanted) <= near:
                return mark.place, mark.position
        if not low.position < wanted < high.position:
            return high.place, high.position
        share = (wanted - low.position) / (high.position - low.position)
        if round % 2:
            share = 0.5
        places = [int(a + (b - a) * share) for a, b in zip(low.parts, high.parts, strict=True)]
        marks = await _marks(read, ranking, width, places)
        narrowed = False
        for mark in marks:
            if low.position < mark.position <= wanted:
                low, narrowed = mark, True
            elif wanted < mark.position < high.position:
                high, narrowed = mark, True
        if not narrowed and round % 2:
            break
    raise NotReady(f"the ranking of {quoted(request.key.window)} kept changing while it was read")


async def _marks(
    read: Read, ranking: ReadRequest, width: int, places: Sequence[int]
) -> list[_Mark]:
    """Return, for each shard, the entry at a given position in it, as a place with its position on
    the whole board."""
    requests = [
        [replace(ranking, anchors=(Start(),), spans=(Span(0, place, place + 1),))]
        for place in places
    ]
    bounds: dict[AtBound, None] = {}
    for each in await read(requests):
        part = each[0].slices[0]
        if part.members:
            words = tuple([column[0] for column in part.words[:width]])
            bounds[AtBound(words, part.members[0].encode(), False)] = None
    counted = await read([[replace(ranking, anchors=tuple(bounds))] for _ in places])
    return [
        _Mark(bound, [each[0].positions[i] for each in counted]) for i, bound in enumerate(bounds)
    ]
