"""Encodes reads for the scripts, and decodes their answers."""

from array import array
from collections.abc import Iterable, Sequence
from struct import unpack as unpack_numbers
from typing import Any

from laurels.core.hidden import Exclusion
from laurels.core.index import Located, Slice
from laurels.core.requests import (
    Anchor,
    AtBound,
    AtMember,
    ReadRequest,
    ReadResult,
    Span,
    Start,
    Zeros,
)
from laurels.errors import InvalidCursor
from laurels.model.rules import Rules

from .coding import BoardEncoding
from .layout import Layout
from .names import scoped_name

_ABOVE = 2**56
_BIAS = 2**53
_WALK_END = 2**32
"""The cursor of a walk at the end of all buckets."""


def encode_read(
    encoding: BoardEncoding, request: ReadRequest, hidden: Sequence[Exclusion] = ()
) -> list[Any]:
    """Encode a request. `hidden` are the exclusions that are sent with the call."""
    if (listing := request.scopes) is not None:
        return [False, listing.form, listing.after, listing.limit]
    if request.tally:
        return [True, scoped_name(request.key), request.key.instance, request.members]
    if (walk := request.walk) is not None:
        name, instance = scoped_name(request.key), request.key.instance
        return [_walk_cursor(walk.after), name, instance, walk.limit, request.data]
    encoded: list[Any] = [
        scoped_name(request.key),
        request.key.instance,
        encoding.rules.windows[request.key.window].steps > 0,
        [_anchor(encoding, anchor) for anchor in request.anchors],
        [_span(span) for span in request.spans],
        request.members,
        request.data,
        request.whole,
    ]
    is_unlimited = encoding.rules.head > 0 and not request.head
    if request.zeros is not None or request.hidden is not None or is_unlimited:
        encoded.append(request.zeros is not None and encode_zeros(encoding, request.zeros))
    if request.hidden is not None or is_unlimited:
        encoded.append(request.hidden is not None and hidden.index(request.hidden) + 1)
    if is_unlimited:
        encoded.append(True)
    return encoded


def _walk_cursor(after: str) -> int:
    """Return the number in the cursor of a walk. Raises InvalidCursor for any other text."""
    if after and not (after.isascii() and after.isdecimal() and int(after) <= _WALK_END):
        raise InvalidCursor("expected a cursor of this ranking")
    return int(after or 0)


def encode_zeros(encoding: BoardEncoding, zeros: Zeros) -> list[Any]:
    """Encode the bounds of the entries whose score is 0."""
    return [_anchor(encoding, zeros.first), _anchor(encoding, zeros.past)]


def _anchor(encoding: BoardEncoding, anchor: Anchor) -> list[Any]:
    if isinstance(anchor, AtMember):
        return ["member", anchor.member.decode()]
    if not isinstance(anchor, AtBound):
        return ["start" if isinstance(anchor, Start) else "end"]
    member = None if anchor.member is None else anchor.member.decode()
    if not encoding.layout.scored:
        if member is not None:
            return ["within", anchor.words, False, member, anchor.right]
        return ["count", anchor.words, anchor.right]
    low, high = _forms(encoding.layout, anchor.words)
    if member is not None and low < high:
        return ["within", low, high, member, anchor.right]
    return ["count", high if anchor.right else low]


def _forms(layout: Layout, words: Sequence[int]) -> tuple[int, int]:
    """Return the bounds of the forms that begin with these words: the least of them, and the least
    form that is greater than all of them. If a word is out of range, there are no such forms, and
    both bounds are equal."""
    form = 0
    unit = 1
    for word, low, high, unit in zip(words, layout.lows, layout.highs, layout.units, strict=False):
        if layout.name == "packed" and word < low:
            return form, form
        if layout.name == "packed" and word > high:
            past = form + (high - low + 1) * unit
            return past, past
        form += (word - low) * unit
    return form, form + unit


def _span(span: Span) -> list[Any]:
    first = False if span.first is None else span.first
    last = False if span.last is None else span.last
    return [span.anchor, span.low, span.high, first, last, span.fit]


class AnswerReader:
    """Reads the parts of an answer of `read.lua` in order. In the prefixed layout, the entries are
    texts at the end of the answer."""

    def __init__(self, parts: Sequence[Any], texts: Sequence[bytes]) -> None:
        self.next = iter(parts).__next__
        self._texts = texts
        self._place = 0

    def texts(self, count: int) -> Sequence[bytes]:
        """Return the next `count` entries."""
        self._place += count
        return self._texts[self._place - count : self._place]


def decode_results(
    encoding: BoardEncoding,
    requests: Sequence[ReadRequest],
    reader: AnswerReader,
    has_heads: Sequence[bool],
) -> list[ReadResult]:
    """Decode the results of reads. `has_heads` has, for each request for entries, whether the
    ranking has the layout with a head. It is empty if no ranking has this layout."""
    heads = iter(has_heads)
    return [
        _decode_result(
            encoding,
            request,
            reader,
            has_head=request.scopes is None
            and request.walk is None
            and not request.tally
            and next(heads, False),
        )
        for request in requests
    ]


def _decode_result(
    encoding: BoardEncoding, request: ReadRequest, reader: AnswerReader, *, has_head: bool
) -> ReadResult:
    if request.scopes is not None:
        return ReadResult(0, [], [], None, None, list(reader.next()))
    width = encoding.rules.order_words(request.key.window)
    columns = encoding.rules.score_words(request.key.window)
    if request.tally:
        return ReadResult(0, [], [], _located(encoding, reader, width, has_head=False), None)
    if request.walk is not None:
        return _walked(encoding, request, reader, width + encoding.rules.is_stamped)
    total = reader.next()
    certain = grid_age = None
    if has_head:
        certain, changes = reader.next(), reader.next()
        grid_age = None if changes is False else int(changes)
    positions = [reader.next() for _ in request.anchors]
    highs = list(reader.next()) if has_head else None
    slices = [_slice(encoding, reader, columns, width) for _ in request.spans]
    stored = width + (request.whole and encoding.rules.is_stamped)
    located = None
    if request.members:
        located = _located(encoding, reader, stored, has_head=has_head)
    data = [_data(reader.next()) for _ in range(len(slices) + 1)] if request.data else None
    return ReadResult(
        total, positions, slices, located, data, certain=certain, grid_age=grid_age, highs=highs
    )


def _walked(
    encoding: BoardEncoding, request: ReadRequest, reader: AnswerReader, width: int
) -> ReadResult:
    """Decode the result of a walk. Its members have no ranks."""
    total, members, forms, past = (reader.next() for _ in range(4))
    if encoding.layout.scored:
        words = unpack_scores(encoding.layout, map(int, forms))
    else:
        words = unpack_rows(reader.texts(len(members)), width)
    part = Slice(0, members, array("q", bytes(8 * len(members))), words)
    data = [_data(reader.next()), []] if request.data else None
    return ReadResult(total, [], [part], None, data, walked=str(past) if past else "")


def _data(payload: list[Any]) -> list[bytes | None]:
    return [None if each is False else each.encode() for each in payload]


def _slice(encoding: BoardEncoding, reader: AnswerReader, columns: int, width: int) -> Slice:
    start, rank, entries = reader.next(), reader.next(), reader.next()
    if encoding.layout.scored:
        members = entries[::2]
        words = unpack_scores(encoding.layout, map(int, entries[1::2]))
    else:
        rows = reader.texts(entries)
        prefix = 8 * width
        members = [row[prefix:].decode() for row in rows]
        words = unpack_rows(rows, width)
    return Slice(start, members, _ranks(encoding.rules, start, rank, words[:columns]), words)


def _ranks(rules: Rules, start: int, rank: int, words: Sequence["array[int]"]) -> "array[int]":
    """Return the ranks of consecutive entries, computed from the rank of the first one and the
    scores."""
    size = len(words[0])
    if rules.rank == "ordinal":
        return array("q", range(start, start + size))
    ranks = array("q")
    before: tuple[int, ...] | None = None
    for i, score in enumerate(zip(*words, strict=True)):
        if before is not None and score != before:
            rank = start + i if rules.rank == "competition" else rank + 1
        ranks.append(rank)
        before = score
    return ranks


def _located(
    encoding: BoardEncoding, reader: AnswerReader, width: int, *, has_head: bool
) -> Located:
    positions, ranks, forms = reader.next(), reader.next(), reader.next()
    if encoding.layout.scored:
        words = unpack_scores(encoding.layout, [form or 0 for form in forms])
    else:
        empty = bytes(8 * width)
        words = unpack_rows([row or empty for row in reader.texts(len(positions))], width)
    highs = array("q", reader.next()) if has_head else None
    return Located(array("q", positions), array("q", ranks), words, highs)


def unpack_scores(layout: Layout, forms: Iterable[int]) -> list["array[int]"]:
    """Return the words of forms, column by column. Each form is a number."""
    if layout.name == "plain":
        return [array("q", forms)]
    columns = []
    left = list(forms)
    for low, unit in zip(layout.lows[:-1], layout.units[:-1], strict=True):
        columns.append(array("q", [form // unit + low for form in left]))
        left = [form % unit for form in left]
    low = layout.lows[-1]
    columns.append(array("q", [form + low for form in left]))
    return columns


def unpack_rows(rows: Sequence[bytes], width: int) -> list["array[int]"]:
    """Return the words at the beginning of rows, as columns. Each word has 8 bytes; the first byte
    is 0 for a negative number, else 1."""
    size = 8 * width
    numbers = unpack_numbers(f">{len(rows) * width}Q", b"".join([row[:size] for row in rows]))
    return [
        array("q", [each - (_ABOVE if each >= _ABOVE else _BIAS) for each in numbers[place::width]])
        for place in range(width)
    ]
