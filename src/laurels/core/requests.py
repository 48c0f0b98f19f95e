"""Requests for reading a ranking, and their results.

A query ("who is around ann?") becomes a `ReadRequest` with anchors and spans. An anchor is a point
between two entries of a ranking, or at its start or end. A span is some consecutive entries, from
one distance to another as counted from an anchor. An index, local or remote, answers any number of
requests from one state. So no answer combines a list from before a write with a total from after
it. Positions start at 0.

Requests and results are numerous and never part of a reference cycle, so the garbage collector does
not track them (`gc=False`).
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from laurels.errors import InvalidCursor

from .excluding import WithoutMembers
from .hidden import Exclusion
from .index import Index, Located, RankingIndex, Slice
from .interval import WithoutInterval
from .ranking_key import RankingKey
from .sealed_contents import SealedPart, SealedPiece


class Start(Struct, frozen=True, tag="start"):
    """The anchor before the first entry: position 0."""


class End(Struct, frozen=True, tag="end"):
    """The anchor after the last entry: its position is the size of the ranking."""


class AtMember(Struct, frozen=True, tag="member"):
    """The anchor before a member's entry, at the member's position.

    The position is -1 if the member is not ranked.
    """

    member: bytes


class AtBound(Struct, frozen=True, tag="bound"):
    """The anchor at a key: some leading words and, if it is not None, a member. The anchor is
    before the entries that begin with the key, or with `right` after them."""

    words: tuple[int, ...]
    member: bytes | None
    right: bool


Anchor = Start | End | AtMember | AtBound


class Span(Struct, frozen=True):
    """The entries at positions `anchor + low` to `anchor + high` (exclusive).

    `anchor`, `first` and `last` are indexes into the anchors of the request. A span that would
    begin before the anchor `first` begins there instead, with the same length. Then it is cut off
    at the anchor `last`, and at the ends of the ranking. With `fit`, a span that would extend
    beyond an end of the ranking is moved instead, and keeps its length if the ranking has that many
    entries. The span of a member that is not ranked is empty.
    """

    anchor: int
    low: int
    high: int
    first: int | None = None
    last: int | None = None
    fit: bool = False


class Listing(Struct, frozen=True):
    """A request for the next scopes after a given one. `form` has the names of their labels
    (`RankingSpec.name`).
    """

    form: str
    after: str
    limit: int


class Zeros(Struct, frozen=True):
    """Where the entries whose score is 0 are in a ranking: between the anchors `first` and
    `past`."""

    first: AtBound
    past: AtBound


class Walk(Struct, frozen=True):
    """A request for up to `limit` members of a ranking in any order. `after` is the text `walked`
    of the previous result, or an empty text to begin the walk. The first `width` words of an entry
    decide its order. A member that is ranked during the whole walk is in at least one of the
    results.
    """

    after: str
    limit: int
    width: int


class ReadRequest(Struct, frozen=True, gc=False):
    """A request for one ranking: the positions of anchors, the entries of spans, and the positions
    and ranks of `members`.

    - `ranks`: only the ranks of `members` are needed.
    - `data`: the data of all members in the result is returned, too.
    - `tally`: only `members` are looked up, in the tally of the step that the key names; a member
      with a cell there has position 0.
    - `scopes`: the request only lists the scopes of the board that have members.
    - `whole`: the result has all stored words of the requested members, not only the words that
      decide the order.
    - `head`: spans end at this position, as if the ranking had no further entries.
    - `zeros`: the result is that of the ranking without the entries whose score is 0.
    - `hidden`: the result is that of the ranking without the hidden members.
    - `walk`: the request only reads members in any order, into a slice with all stored words.
    - `revision`: the revision of a sealed period to read; None for the newest one.
    - `sealed`: with a `revision`, the request only reads pieces of the sealed period, of all
      scopes.
    """

    key: RankingKey
    anchors: tuple[Anchor, ...] = ()
    spans: tuple[Span, ...] = ()
    members: tuple[str, ...] = ()
    data: bool = False
    scopes: Listing | None = None
    ranks: bool = False
    whole: bool = False
    tally: bool = False
    head: int = 0
    walk: Walk | None = None
    zeros: Zeros | None = None
    hidden: Exclusion | None = None
    revision: int | None = None
    sealed: SealedPart | None = None


class ReadResult(Struct, frozen=True, gc=False):
    """The result of a request: the size of the ranking, positions of anchors, slices of spans.

    If only `ranks` were requested, an index may leave everything else empty.

    - `data`: the members' data for each slice, then for the requested members. None if no data was
      requested.
    - `certain`: on a board with a head, an index that does not order all members knows only this
      many of the first positions, and spans end there. None if all positions are known. The
      returned position of an anchor beyond the certain positions is some number from `certain` to
      `total`.
    - `highs`: the greatest possible positions of the anchors; `positions` are then the least
      possible ones.
    - `grid_age`: the number of changes since the bounds of estimates were as narrow as possible.
      None if nothing is estimated.
    - `walked`: the text with which the next request continues a walk, empty at the end of the walk.
      Positions and ranks in the slice of a walk have no meaning.
    - `sealed`: the pieces of a sealed period.
    """

    total: int
    positions: list[int]
    slices: list[Slice]
    located: Located | None
    data: list[list[bytes | None]] | None
    scopes: list[str] = []
    certain: int | None = None
    grid_age: int | None = None
    highs: list[int] | None = None
    walked: str = ""
    sealed: Sequence[SealedPiece] = ()


def extent(span: Span, positions: Sequence[int], total: int) -> tuple[int, int]:
    """Return the first position and the end of a span in a ranking that lists `total` entries."""
    at = positions[span.anchor]
    if at < 0:
        return 0, 0
    low, high = at + span.low, at + span.high
    if span.fit:
        low = max(0, min(low, total - (high - low)))
        high = low + span.high - span.low
    if span.first is not None:
        low, high = max(low, positions[span.first]), high + max(0, positions[span.first] - low)
    if span.last is not None:
        low, high = min(low, positions[span.last]), min(high, positions[span.last])
    low = min(max(0, low), total)
    return low, max(low, min(high, total))


def position_of(index: RankingIndex, key: RankingKey, anchor: Anchor, total: int) -> int:
    """Return the position of an anchor in a ranking of `total` entries."""
    if isinstance(anchor, AtMember):
        return index.position(key, anchor.member)
    if isinstance(anchor, AtBound):
        return index.bound(key, anchor.words, anchor.member, right=anchor.right)
    return 0 if isinstance(anchor, Start) else total


def find(index: Index, ask: ReadRequest) -> ReadResult:
    """Answer a request from an index that does not change meanwhile."""
    if ask.tally:
        return ReadResult(0, [], [], index.cells(ask.key, ask.members), None)
    return find_in(index, ask)


def find_in(index: RankingIndex, ask: ReadRequest) -> ReadResult:
    """Answer a request for a ranking, or for scopes."""
    if ask.walk is not None:
        return _walk(index, ask, ask.walk)
    return _find(listed_by(index, ask), ask)


def listed_by(index: RankingIndex, ask: ReadRequest) -> RankingIndex:
    """Return an index that shows the ranking of a request without the entries that the request
    leaves out."""
    listed: RankingIndex = index
    if ask.hidden is not None:
        listed = WithoutMembers(index, ask.key, ask.hidden)
    return listed if ask.zeros is None else _without_zeros(listed, ask.key, ask.zeros)


def _without_zeros(index: RankingIndex, key: RankingKey, zeros: Zeros) -> RankingIndex:
    """Return an index that shows a ranking without the entries whose score is 0."""
    first, past = [
        index.bound(key, bound.words, bound.member, right=bound.right)
        for bound in (zeros.first, zeros.past)
    ]
    return index if first == past else WithoutInterval(index, key, first, past)


def _find(index: RankingIndex, ask: ReadRequest) -> ReadResult:
    """Answer a request for entries, or for scopes."""
    key = ask.key
    if ask.ranks:
        ranks = index.ranks(key, ask.members)
        return ReadResult(0, [], [], Located(ranks, ranks, []), None)
    total = index.size(key)
    positions: list[int] = []
    for anchor in ask.anchors:
        positions.append(position_of(index, key, anchor, total))
    listed = min(total, ask.head) if ask.head else total
    slices: list[Slice] = []
    for span in ask.spans:
        slices.append(index.slice(key, *extent(span, positions, listed)))
    located = index.locate(key, ask.members, whole=ask.whole) if ask.members else None
    data = None
    if ask.data:
        groups = [*(part.members for part in slices), ask.members]
        data = [index.data(key.board, group) for group in groups]
    scopes: list[str] = []
    if (listing := ask.scopes) is not None:
        scopes = index.scopes(key.board, listing.form, listing.after, listing.limit)
    return ReadResult(total, positions, slices, located, data, scopes)


_place = msgspec.json.Decoder(tuple[tuple[int, ...], str])


def _walk(index: RankingIndex, ask: ReadRequest, walk: Walk) -> ReadResult:
    """Answer a walk in the order of the ranking.

    The text with which the walk continues has the member of the last entry, and the words that
    decide the place of this entry.
    """
    key, start = ask.key, 0
    if walk.after:
        try:
            words, member = _place.decode(walk.after)
        except msgspec.MsgspecError as error:
            raise InvalidCursor("expected a cursor of this ranking") from error
        start = index.bound(key, words, member.encode(), right=True)
    total = index.size(key)
    part = index.slice(key, start, min(start + walk.limit, total))
    walked = ""
    if part.members and start + len(part.members) < total:
        last = [column[-1] for column in part.words[: walk.width]]
        walked = msgspec.json.encode((last, part.members[-1])).decode()
    data = [index.data(key.board, part.members), []] if ask.data else None
    return ReadResult(total, [], [part], None, data, walked=walked)
