"""What can be asked of a ranking in one go, and what comes back.

A question of a user ("who is around ann?") becomes a `ReadRequest`: anchors are places between the
entries of a ranking, spans are runs of entries that begin and end so many entries from an anchor.
An index answers any number of asks from one state, wherever that state is kept, so that no answer
shows a list before a write and a total after it. Positions start at 0.

Asks and what is found are many at a time and never part of a cycle, so the garbage collector need
not look at them (`gc=False`).
"""

from collections.abc import Sequence

from msgspec import Struct

from .index import Index, Located, Slice
from .ranking_key import RankingKey


class Start(Struct, frozen=True, tag="start"):
    """Before the first entry: position 0."""


class End(Struct, frozen=True, tag="end"):
    """After the last entry: the position that is the size."""


class AtMember(Struct, frozen=True, tag="member"):
    """Before a member's entry: its position; -1 where it is not ranked."""

    member: bytes


class AtBound(Struct, frozen=True, tag="bound"):
    """Before the first entry whose leading words (then member) are not below these; `right`: are
    above them."""

    words: tuple[int, ...]
    member: bytes | None
    right: bool


Anchor = Start | End | AtMember | AtBound


class Span(Struct, frozen=True):
    """The entries at positions `anchor + low` to `anchor + high` (exclusive).

    They are cut to what the ranking has. Where the span would begin before `first`, it is moved as
    a whole to begin there; what lies behind `last` is cut off. With `fit` it is moved so that it
    keeps its length as far as the ranking has so many entries. `anchor`, `first` and `last` are
    places in the anchors of the ask. An anchor at a member that is not ranked has no entries.
    """

    anchor: int
    low: int
    high: int
    first: int | None = None
    last: int | None = None
    fit: bool = False


class Listing(Struct, frozen=True):
    """The next scopes of a board of some labels (`form`, as `Place.name`), behind one of them."""

    form: str
    after: str
    limit: int


class ReadRequest(Struct, frozen=True, gc=False):
    """What is asked of one ranking: where anchors are, which entries spans hold, where `members`
    stand, with `ranks` only their ranks; with `data` also what the members found carry. With
    `scopes` it is which scopes of the ranking's board hold anybody, and nothing else."""

    key: RankingKey
    anchors: tuple[Anchor, ...] = ()
    spans: tuple[Span, ...] = ()
    members: tuple[str, ...] = ()
    data: bool = False
    scopes: Listing | None = None
    ranks: bool = False


class ReadResult(Struct, frozen=True, gc=False):
    """What an index found: the size of the ranking, positions of the anchors, slices of the spans.

    `data` has for each slice, then for the members asked for, what each member carries; None where
    it was not asked for. Asked for `ranks`, an index may find nothing else.
    """

    total: int
    positions: list[int]
    slices: list[Slice]
    located: Located | None
    data: list[list[bytes | None]] | None
    scopes: list[str] = []


def extent(span: Span, positions: Sequence[int], total: int) -> tuple[int, int]:
    """The positions a span covers, first and end."""
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


def position_of(index: Index, key: RankingKey, anchor: Anchor, total: int) -> int:
    """Where an anchor is in a ranking of so many entries."""
    if isinstance(anchor, AtMember):
        return index.position(key, anchor.member)
    if isinstance(anchor, AtBound):
        return index.bound(key, anchor.words, anchor.member, right=anchor.right)
    return 0 if isinstance(anchor, Start) else total


def find(index: Index, ask: ReadRequest) -> ReadResult:
    """The answer to an ask by an index whose calls see one state."""
    key = ask.key
    if ask.ranks:
        ranks = index.ranks(key, ask.members)
        return ReadResult(0, [], [], Located(ranks, ranks, []), None)
    total = index.size(key)
    positions: list[int] = []
    for anchor in ask.anchors:
        positions.append(position_of(index, key, anchor, total))
    slices: list[Slice] = []
    for span in ask.spans:
        slices.append(index.slice(key, *extent(span, positions, total)))
    located = index.locate(key, ask.members) if ask.members else None
    data = None
    if ask.data:
        groups = [*(part.members for part in slices), ask.members]
        data = [index.data(key.board, group) for group in groups]
    scopes: list[str] = []
    if (listing := ask.scopes) is not None:
        scopes = index.scopes(key.board, listing.form, listing.after, listing.limit)
    return ReadResult(total, positions, slices, located, data, scopes)
