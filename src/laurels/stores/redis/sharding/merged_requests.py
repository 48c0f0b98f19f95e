"""Read requests for a whole board in several shards, by their kinds. Most are answered as described
in `merging.py`; those that need no pivots are answered here."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from laurels.core.index import Located
from laurels.core.requests import Anchor, Listing, ReadRequest, ReadResult, Walk
from laurels.errors import InvalidCursor
from laurels.model.rules import Rules

from .merging import Merging
from .shards import shard_of


class Merged(Protocol):
    """A request for a board in several shards, which takes several rounds of reads. `far` maps the
    index of each span whose pivot (see `merging.py`) is still to be found to the first and the last
    position of the span."""

    request: ReadRequest
    far: dict[int, tuple[int, int]]

    def of_shard(self, shard: int) -> ReadRequest:
        """Return this round's request for a shard."""

    def answer(self, parts: Sequence[ReadResult]) -> ReadResult | None:
        """Return the answer if the results of this round suffice. Otherwise set the requests of the
        next round, and return None."""

    def near(self, span: int, place: Anchor, position: int) -> None:
        """Use a place as the pivot of a span in `far`. A search has found that place."""


def merged(request: ReadRequest, rules: Rules, count: int, *, lenient: bool) -> Merged:
    """Return a request for a board in `count` shards. A request that looks up members needs another
    round if their places have changed since the previous round. A lenient request ignores such
    changes from the second round on."""
    if request.scopes is not None:
        return _Listed(request, request.scopes)
    if request.tally:
        return _Cells(request, count)
    if request.walk is not None:
        return _Walked(request, request.walk, count)
    return Merging(request, rules, count, lenient=lenient)


def next_of(parts: Iterable[Sequence[str]], limit: int) -> list[str]:
    """Merge the next scopes of each shard into the next `limit` scopes of the board, each of them
    once."""
    return sorted({scope for part in parts for scope in part})[:limit]


class _Listed:
    """A request for a list of scopes. A scope may be in any number of shards."""

    def __init__(self, request: ReadRequest, listing: Listing) -> None:
        self.request = request
        self.far: dict[int, tuple[int, int]] = {}
        self._limit = listing.limit

    def of_shard(self, shard: int) -> ReadRequest:
        return self.request

    def answer(self, parts: Sequence[ReadResult]) -> ReadResult:
        scopes = next_of([part.scopes for part in parts], self._limit)
        return ReadResult(0, [], [], None, None, scopes)

    def near(self, span: int, place: Anchor, position: int) -> None:
        raise AssertionError("there are no spans")


class _Cells:
    """A request for the cells of members. A cell is in the shard of its member."""

    def __init__(self, request: ReadRequest, count: int) -> None:
        self.request = request
        self.far: dict[int, tuple[int, int]] = {}
        self._homes = [shard_of(member.encode(), count) for member in request.members]

    def of_shard(self, shard: int) -> ReadRequest:
        return self.request

    def answer(self, parts: Sequence[ReadResult]) -> ReadResult:
        of_members = [parts[shard].located for shard in self._homes]
        rows = [(i, located) for i, located in enumerate(of_members) if located is not None]
        positions = [located.positions[i] for i, located in rows]
        width = max([len(located.words) for _, located in rows], default=0)
        words = [
            array("q", [located.words[place][i] for i, located in rows]) for place in range(width)
        ]
        return ReadResult(0, [], [], Located(positions, positions, words), None)

    def near(self, span: int, place: Anchor, position: int) -> None:
        raise AssertionError("there are no spans")


class _Walked:
    """A request that visits the members of one shard after the other. The cursor of a walk is the
    number of a shard, and a cursor in this shard."""

    def __init__(self, request: ReadRequest, walk: Walk, count: int) -> None:
        self.request = request
        self.far: dict[int, tuple[int, int]] = {}
        shard, colon, after = (walk.after or "0:").partition(":")
        if not (colon and shard.isascii() and shard.isdecimal() and int(shard) < count):
            raise InvalidCursor("expected a cursor of this ranking")
        self._shard, self._count = int(shard), count
        self._own = replace(request, walk=replace(walk, after=after))

    def of_shard(self, shard: int) -> ReadRequest:
        return self._own if shard == self._shard else ReadRequest(self.request.key)

    def answer(self, parts: Sequence[ReadResult]) -> ReadResult:
        own, following = parts[self._shard], self._shard + 1
        walked = f"{following}:" if following < self._count else ""
        if own.walked:
            walked = f"{self._shard}:{own.walked}"
        return replace(own, total=sum(part.total for part in parts), walked=walked)

    def near(self, span: int, place: Anchor, position: int) -> None:
        raise AssertionError("there are no spans")
