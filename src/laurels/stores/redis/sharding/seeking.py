"""Seeking a place near a position of the whole, in a board in several shards.

No shard knows the position of its entries in the whole; but for an entry of one, all can say how
many of theirs are before it. So each shard proposes an entry, from where in its part of what is
left the position should be, and the sums divide what is left. Members are spread over the shards
evenly, so two or three rounds come near enough; every other round proposes the middle of what is
left, which halves it whatever the order is.
"""

from collections.abc import Awaitable, Callable, Sequence

from laurels.core.ranking_key import RankingKey
from laurels.core.requests import Anchor, AtBound, End, ReadRequest, ReadResult, Span, Start
from laurels.errors import NotReady

Read = Callable[[list[list[ReadRequest]]], Awaitable[list[Sequence[ReadResult]]]]
"""Asks each shard, and answers what each found."""

ROUNDS = 100


class _Mark:
    """A place, its position in the whole and in each shard."""

    def __init__(self, place: Anchor, parts: list[int]) -> None:
        self.place = place
        self.parts = parts
        self.position = sum(parts)


async def seek(
    read: Read, key: RankingKey, width: int, shards: int, wanted: int, near: int
) -> tuple[Anchor, int]:
    """A place that was within `near` of the position wanted when it was looked at, and where."""
    found = await read([[ReadRequest(key)] for _ in range(shards)])
    low = _Mark(Start(), [0] * shards)
    high = _Mark(End(), [each[0].total for each in found])
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
        marks = await _marks(read, key, width, places)
        narrowed = False
        for mark in marks:
            if low.position < mark.position <= wanted:
                low, narrowed = mark, True
            elif wanted < mark.position < high.position:
                high, narrowed = mark, True
        if not narrowed and round % 2:
            break
    raise NotReady(f"the ranking of {key.window!r} kept changing while it was read")


async def _marks(read: Read, key: RankingKey, width: int, places: Sequence[int]) -> list[_Mark]:
    """Return the entries at these places of the shards, as marks of the whole."""
    asks = [[ReadRequest(key, (Start(),), (Span(0, place, place + 1),))] for place in places]
    bounds: dict[AtBound, None] = {}
    for each in await read(asks):
        part = each[0].slices[0]
        if part.members:
            words = tuple([column[0] for column in part.words[:width]])
            bounds[AtBound(words, part.members[0].encode(), False)] = None
    counted = await read([[ReadRequest(key, tuple(bounds))] for _ in places])
    return [
        _Mark(bound, [each[0].positions[i] for each in counted]) for i, bound in enumerate(bounds)
    ]
