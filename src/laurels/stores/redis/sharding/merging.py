"""Answers read requests for a whole board in several shards.

An answer must not combine the state of a shard before a write with its state after the write, so
the results of several rounds of reads are never combined. Each round sends one request to every
shard, based on a guess of where the entries are. If its results confirm the guess, the answer is
made from that round alone. Otherwise they give a better guess, and another round follows.

Two things are guessed. One is the words of each member: only the member's own shard has them, and
the other shards need them to find where the member is in their order. The other is a *pivot* for
each span: a point in the order that every shard can find, near the entries of the span. The
position of a pivot on the whole board is the sum of its positions in the shards. Each of the n
entries after the pivot on the whole board is among the first n entries after the pivot in its own
shard.

On a board with a head a shard may know only its first n positions for certain. The first n
positions of the whole board are then certain as well: the entry at each of these positions, and
every entry before it, is among the first n entries of its own shard. Below that, the bounds of a
member's rank are the sums of its bounds in all shards.
"""

from array import array
from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple

from laurels.core.index import Located, Slice
from laurels.core.requests import (
    Anchor,
    AtBound,
    AtMember,
    End,
    ReadRequest,
    ReadResult,
    Span,
    Start,
    extent,
)
from laurels.model.rules import Rules

from .coverage import Coverage
from .regions import Region, RegionRow, Words, empty_slice
from .shards import hidden_in, shard_of

NEAR = 512
"""The greatest allowed distance between a pivot and the entries of a span. If a pivot is further
away, a nearer one is searched for."""
SLACK = 8
"""The number of additional entries that are read because the pivot may have moved since the
previous round. It doubles with each round."""
FIT = 200
"""A span may have to be moved to fit into the ranking. For a span of up to this many entries, the
entries on the other side of its pivot are read in the same round for this case. For a longer span
they are read only if the span is moved, in another round."""


class Pivot(NamedTuple):
    """A pivot of a span: its place, and how many entries of the whole board are needed before and
    after it. Each shard is asked for the same number of its own entries, since one shard may have
    all that are needed. With `shared`, it is asked for fewer: for the greatest number that one
    shard can be expected to have (`_part`)."""

    place: Anchor
    before: int
    after: int
    shared: bool = False


class Merging:
    """A request for entries of a board in several shards, over several rounds."""

    def __init__(self, request: ReadRequest, rules: Rules, count: int, *, lenient: bool) -> None:
        self.request = request
        self.far: dict[int, tuple[int, int]] = {}
        """By index of each span whose pivot is still to be found: the first and the last position
        of the span."""
        self._columns = rules.score_words(request.key.window)
        self._width = rules.order_words(request.key.window)
        self._located_width = self._width + (request.whole and rules.is_stamped)
        self._shares_ranks = rules.rank != "ordinal"
        self._count = count
        self._lenient = lenient
        self._round = 0
        members = [a.member for a in request.anchors if isinstance(a, AtMember)]
        members += [member.encode() for member in request.members]
        self._members = list(dict.fromkeys(members))
        self._homes = {member: shard_of(member, count) for member in self._members}
        self._words_of: dict[bytes, Words] = {}
        self._pivots: list[Pivot | None] = [self._first_pivot(span) for span in request.spans]

    # Requests to the shards, for this round

    def of_shard(self, shard: int) -> ReadRequest:
        """Return this round's request for a shard."""
        anchors = [self._resolved(anchor) or Start() for anchor in self.request.anchors]
        spans = []
        for pivot in self._pivots:
            if pivot is not None:
                before, after = self._reach(pivot)
                spans.append(Span(len(anchors), -before, after))
                anchors.append(pivot.place)
        for member in self._located:
            if self._homes[member] != shard:
                anchors += self._bounds(member)
        own = [member.decode() for member in self._members if self._homes[member] == shard]
        return ReadRequest(
            self.request.key,
            tuple(anchors),
            tuple(spans),
            tuple(own),
            self.request.data,
            whole=self.request.whole,
            head=self.request.head,
            zeros=self.request.zeros,
            hidden=hidden_in(self.request.hidden, shard, self._count),
        )

    @property
    def _located(self) -> list[bytes]:
        """The requested members whose words are known."""
        members = dict.fromkeys(member.encode() for member in self.request.members)
        return [member for member in members if member in self._words_of]

    def _resolved(self, anchor: Anchor) -> Anchor | None:
        """Return an anchor as a place that every shard can find. Return None for a member whose
        words are not known yet."""
        if not isinstance(anchor, AtMember):
            return anchor
        words = self._words_of.get(anchor.member)
        return None if words is None else AtBound(words, anchor.member, False)

    def _bounds(self, member: bytes) -> list[Anchor]:
        words = self._words_of[member]
        bounds: list[Anchor] = [AtBound(words, member, False)]
        if self._shares_ranks:
            bounds.append(AtBound(words[: self._columns], None, False))
        return bounds

    def _first_pivot(self, span: Span) -> Pivot | None:
        """Return a span's anchor as the span's first pivot. Return None if the entries of the span
        are far from the anchor, or if the place of the anchor is not known yet."""
        anchor = self._resolved(self.request.anchors[span.anchor])
        if anchor is None or max(span.low, -span.high) > NEAR:
            return None
        low, high = span.low, span.high
        if span.fit and high - low <= FIT:
            low, high = low - max(0, high), high + max(0, -low)
        return Pivot(anchor, max(0, -low), max(0, high), shared=True)

    def _reach(self, pivot: Pivot) -> tuple[int, int]:
        """Return how many entries of each shard are read before and after a pivot."""
        before, after = pivot.before, pivot.after
        if pivot.shared:
            before, after = self._part(before), self._part(after)
        return before + self._shares_ranks, after

    def _part(self, entries: int) -> int:
        """Return how many of the next `entries` entries of the whole board one shard has at most.
        The members are spread evenly, so this bound is almost certainly not exceeded."""
        part = entries / self._count
        return min(entries, ceil(part + 4 * sqrt(part) + 4))

    # Results of the shards in this round

    def answer(self, parts: Sequence[ReadResult]) -> ReadResult | None:
        """Return the answer if the results of this round suffice. Otherwise set the requests of the
        next round, and return None."""
        self._round += 1
        self.far = {}
        whole = Coverage(parts, self.request.head)
        positions = [self._position(place, parts) for place in range(len(self.request.anchors))]
        located = self._locate(parts) if self.request.members else None
        data_of_members = self._data_of_members(parts) if self.request.data else []
        by_span = self._slices(parts, positions, whole)
        if self._update_words(parts) or any(part is None for part in by_span):
            return None
        slices = [part for part in by_span if part is not None]
        data = [*(each for _, each in slices), data_of_members] if self.request.data else None
        return ReadResult(
            whole.total,
            positions,
            [part for part, _ in slices],
            located,
            data,
            certain=whole.certain,
            grid_age=whole.grid_age,
        )

    def near(self, span: int, place: Anchor, position: int) -> None:
        """Use a place as the pivot of a span in `far`. A search has found that place."""
        self._read_around(span, place, position, *self.far[span])

    def _update_words(self, parts: Sequence[ReadResult]) -> bool:
        """Store the words of members. Return whether any member's words differ from those used in
        this round, so that another round is needed."""
        words_of: dict[bytes, Words] = {}
        for member, (located, i) in self._rows(parts).items():
            if located.positions[i] >= 0:
                words_of[member] = tuple([column[i] for column in located.words[: self._width]])
        before, self._words_of = self._words_of, words_of
        if before == words_of:
            return False
        for place, span in enumerate(self.request.spans):
            anchor = self.request.anchors[span.anchor]
            if isinstance(anchor, AtMember) and before.get(anchor.member) != words_of.get(
                anchor.member
            ):
                self._pivots[place] = self._first_pivot(span)
                self.far.pop(place, None)
        return not self._lenient or self._round == 1

    def _rows(self, parts: Sequence[ReadResult]) -> dict[bytes, tuple[Located, int]]:
        """Return for each member the result of its shard and its index in that result."""
        places = [0] * len(parts)
        rows: dict[bytes, tuple[Located, int]] = {}
        for member in self._members:
            shard = self._homes[member]
            located = parts[shard].located
            assert located is not None
            rows[member] = (located, places[shard])
            places[shard] += 1
        return rows

    def _position(self, place: int, parts: Sequence[ReadResult]) -> int:
        if self._resolved(self.request.anchors[place]) is None:
            return -1
        return sum(part.positions[place] for part in parts)

    def _locate(self, parts: Sequence[ReadResult]) -> Located:
        """Return the positions and ranks of the requested members. Each is the position or rank in
        the member's own shard, plus the number of entries in the other shards that precede the
        member. The same holds for the greatest possible ranks."""
        rows = self._rows(parts)
        positions: dict[bytes, int] = {}
        ranks: dict[bytes, int] = {}
        highs: dict[bytes, int] = {}
        nexts = [len(self.request.anchors) + sum(pivot is not None for pivot in self._pivots)]
        nexts *= len(parts)
        for member in self._located:
            located, i = rows[member]
            positions[member], ranks[member] = located.positions[i], located.ranks[i]
            highs[member] = (located.ranks if located.highs is None else located.highs)[i]
            for shard, part in enumerate(parts):
                if shard == self._homes[member]:
                    continue
                at = nexts[shard]
                nexts[shard] += 1 + self._shares_ranks
                if located.positions[i] >= 0:
                    positions[member] += part.positions[at]
                    ranks[member] += part.positions[at + self._shares_ranks]
                    most = part.positions if part.highs is None else part.highs
                    highs[member] += most[at + self._shares_ranks]
        members = [member.encode() for member in self.request.members]
        words = [array("q") for _ in range(self._located_width)]
        for member in members:
            located, i = rows[member]
            for place, column in enumerate(words):
                column.append(located.words[place][i])
        return Located(
            array("q", [positions.get(member, -1) for member in members]),
            array("q", [ranks.get(member, -1) for member in members]),
            words,
            array("q", [highs.get(member, -1) for member in members])
            if any(part.certain is not None for part in parts)
            else None,
        )

    def _data_of_members(self, parts: Sequence[ReadResult]) -> list[bytes | None]:
        """Return the data of the requested members."""
        rows = self._rows(parts)
        data = []
        for member in self.request.members:
            part = parts[self._homes[member.encode()]]
            assert part.data is not None
            data.append(part.data[-1][rows[member.encode()][1]])
        return data

    # Spans

    def _slices(
        self, parts: Sequence[ReadResult], positions: Sequence[int], whole: Coverage
    ) -> list[tuple[Slice, list[bytes | None]] | None]:
        """Return the entries of each span. For a span that was not read completely, set a pivot for
        the next round and return None in place of its entries."""
        slices: list[tuple[Slice, list[bytes | None]] | None] = []
        places: list[tuple[Anchor, int]] = [(Start(), 0)]
        anchors = (End(), *map(self._resolved, self.request.anchors))
        for place, position in zip(anchors, (whole.total, *positions), strict=True):
            if place is not None and whole.lists(position):
                places.append((place, position))
        read = 0
        for span, pivot in enumerate(self._pivots):
            low, high = extent(self.request.spans[span], positions, whole.listed)
            region = None
            if pivot is not None:
                at = len(positions) + read
                if whole.lists(sum(part.positions[at] for part in parts)):
                    region = Region(parts, at, read, self._width)
                read += 1
            if low >= high:
                slices.append((empty_slice(low, self._width), []))
                continue
            chosen = None if region is None else region.cut(low, high)
            if chosen is not None and region is not None:
                first = low if not self._shares_ranks else region.rank(chosen[0], self._columns)
                if first is not None:
                    slices.append(self._slice(low, chosen, first, parts, read - 1))
                    continue
            if pivot is not None and region is not None:
                places.insert(0, (pivot.place, region.position))
            self._set_pivot(span, low, high, places)
            slices.append(None)
        return slices

    def _set_pivot(
        self, span: int, low: int, high: int, places: Sequence[tuple[Anchor, int]]
    ) -> None:
        """Set the pivot of a span for the next round to the nearest place whose position is known.
        If that place is too far away, add the span to `far`."""

        def distance(at: int) -> int:
            return max(low - at, at - high, 0)

        place, position = min(places, key=lambda each: distance(each[1]))
        if distance(position) > NEAR:
            self.far[span] = low, high
        else:
            self._read_around(span, place, position, low, high)

    def _read_around(self, span: int, place: Anchor, position: int, low: int, high: int) -> None:
        last = self._pivots[span]
        slack = SLACK << min(self._round, 10)
        self._pivots[span] = Pivot(
            place,
            max(0, position - low) + slack,
            max(0, high - position) + slack,
            shared=last is None or last.place != place,
        )

    def _slice(
        self,
        low: int,
        rows: Sequence[RegionRow],
        first: int,
        parts: Sequence[ReadResult],
        read: int,
    ) -> tuple[Slice, list[bytes | None]]:
        ranks = array("q", range(low, low + len(rows)))
        if self._shares_ranks:
            ranks[0] = first
            for i in range(1, len(rows)):
                if rows[i].words[: self._columns] == rows[i - 1].words[: self._columns]:
                    ranks[i] = ranks[i - 1]
        words = [array("q", [row.words[i] for row in rows]) for i in range(self._width)]
        data_of_members: list[bytes | None] = []
        if self.request.data:
            for row in rows:
                data = parts[row.shard].data
                assert data is not None
                data_of_members.append(data[read][row.place])
        return Slice(low, [row.member.decode() for row in rows], ranks, words), data_of_members
