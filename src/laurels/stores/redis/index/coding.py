"""Encodes boards and reads for the scripts, and decodes their answers.

Numbers are sent unchanged. They are all below 2^53, so Lua represents them exactly.
"""

from array import array
from collections.abc import Iterable, Sequence
from struct import unpack as unpack_numbers
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.index import Located, Outcomes, Scores, Slice
from laurels.core.lifecycle import Due, RefreshState, RollingState, rolling_state
from laurels.core.ranking_key import RankingKey
from laurels.core.record import EntryRows, MendRanking
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
from laurels.engine.batch.packing import split_texts, unpack
from laurels.errors import InvalidCursor
from laurels.errors.index_server import IndexUnavailable
from laurels.model.labels import form_of
from laurels.model.rules import Rules
from laurels.model.score import word_bounds
from laurels.model.windows.kinds import Window
from laurels.stores.redis.remote import Applied, Opened, RefreshStates
from laurels.timeline.instants import MAX_MS

from .head import HEAD_SIZES, HeadSizes
from .layout import Layout, layout_of
from .names import scoped_name
from .sums import Sums

_ABOVE, _BIAS = 2**56, 2**53
_WALK_END = 2**32
"""The cursor of a walk at the end of all buckets."""


class BoardEncoding(Struct, frozen=True):
    """A board's layout, and the description of the board that is sent to scripts. It is computed
    once for each version of the board.

    `payload` is the description; it is sent with every call. `steps` has the bounds of a member's
    total within a step, by rolling window.
    """

    rules: Rules
    layout: Layout
    payload: msgspec.Raw
    rolling: list[Window]
    steps: dict[str, tuple[list[int], list[int]]]


EXPIRY_MARGIN_MS = 86_400_000
"""Periods are stored this many milliseconds longer than needed, since the clock of a promoted
replica, or of another cluster node, may differ from the clock that processes follow."""


def lifetimes(rules: Rules) -> dict[str, int]:
    """Return the number of milliseconds from the start of a period to its expiry, by calendar
    window."""
    windows = rules.windows.values()
    lives = {window.name: window.lives_ms for window in windows}
    return {name: ms + EXPIRY_MARGIN_MS for name, ms in lives.items() if ms is not None}


def gone_seconds(rules: Rules) -> int | None:
    """Return the time at which the keys of a board expire, in seconds since 1970; None if they do
    not expire. The changes are kept after the board was removed."""
    if rules.gone_ms == MAX_MS:
        return None
    return -(-(rules.gone_ms + max(EXPIRY_MARGIN_MS, rules.changes_ms)) // 1_000)


def board_encoding(
    board: Opened, *, expires: bool = False, head_sizes: HeadSizes = HEAD_SIZES
) -> BoardEncoding:
    """Encode a board for scripts. With `expires`, also encode how long the board's periods are
    stored."""
    rules = board.rules
    layout = layout_of(rules)
    least, most = word_bounds(rules)
    rolling = [window for window in rules.windows.values() if window.steps]
    payload = {
        "version": board.version_text,
        "columns": len(rules.columns),
        "sums": [column.adds_up for column in rules.columns],
        "tie": rules.tie,
        "stamped": rules.is_stamped,
        "best": rules.best,
        "dense": rules.rank == "dense",
        "rank": rules.rank,
        "least": least,
        "most": most,
        "scored": layout.scored,
        "lows": layout.lows,
        "units": layout.units,
        "lives": (expires and lifetimes(rules)) or False,
        "gone": (expires and gone_seconds(rules)) or False,
        "refreshed": dict.fromkeys(rules.refreshed, True) or False,
        "hide_zero": rules.hide_zero,
        "head": head_sizes.encode(rules.head) if rules.head else False,
        "decays": {n: True for n in rules.windows if rules.weighing(n)} or False,
    }
    steps = {window.name: word_bounds(rules, window.steps) for window in rolling}
    return BoardEncoding(
        rules, layout, msgspec.Raw(msgspec.msgpack.encode(payload)), rolling, steps
    )


def encode_mend(record: MendRanking) -> dict[str, Any]:
    """Encode the entries that replace those of a ranking."""
    size = len(record.lengths)

    def encode(rows: EntryRows) -> dict[str, Any]:
        columns = [unpack(column, size).tolist() for column in rows.words]
        return {"present": list(rows.present), "columns": columns}

    return {
        "window": record.window,
        "instance": record.instance,
        "scope": record.scope,
        "form": form_of(record.scope),
        "members": [member.decode() for member in split_texts(record.members, record.lengths)],
        "expected": None if record.expected is None else encode(record.expected),
        **encode(record.entries),
    }


def as_text(content: bytes) -> msgspec.Raw:
    """Return bytes encoded as a msgpack string, since the server's decoder does not know msgpack's
    type for bytes."""
    return msgspec.Raw(b"\xdb" + len(content).to_bytes(4, "big") + content)


# Writing


def encode_rolling(
    encoding: BoardEncoding, board: int, now_ms: int, keys: Iterable[RankingKey] = ()
) -> list[dict[str, Any]]:
    """Encode the running steps of a board's rolling windows at `now_ms`: one item for each window
    in the scope of all events, and one for each of `keys` that is in another scope."""
    encoded = [encode_rolling_state(roll) for roll in rolling_states(encoding, board, now_ms)]
    if encoding.rules.scoped and encoded:
        running = {each["name"]: each for each in encoded}
        for key in dict.fromkeys(keys):
            if key.scope and (roll := running.get(key.window)) is not None:
                encoded.append({**roll, "name": scoped_name(key), "scope": key.scope})
    return encoded


def rolling_states(encoding: BoardEncoding, board: int, now_ms: int) -> list[RollingState]:
    rolls = [rolling_state(board, window, now_ms) for window in encoding.rolling]
    return [roll for roll in rolls if roll is not None]


def encode_rolling_state(roll: RollingState) -> dict[str, Any]:
    key = roll.ranking.key
    return {"name": scoped_name(key), "steps": roll.steps, "running": roll.running}


def encode_due(due: Due) -> dict[str, Any]:
    """Encode what an operation needs to find the due work in scopes: the time, which scopes are
    stale, which periods are kept, and the running steps. The item `windows`, with these steps,
    replaces the one that `_operate` sends by default."""
    return {
        "now": due.now_ms,
        "before": due.since_ms,
        "oldest": due.oldest_ms,
        "windows": list(map(encode_rolling_state, due.rolling)),
    }


def decode_applied(board: Opened, answer: list[Any], sums: Sums | None) -> Applied:
    """Decode the answer of `count.lua`. It has an item for each event or, if the call had `sums`,
    for each member. A repeated call gets the answer to the first call, in the form of the first
    call."""
    form, seq, codes, before, after, ranks_before, ranks_after, refresh_states, *of_head = answer
    if form == "done":
        sums = None
        outcomes = Outcomes(bytearray(codes), _scores(before), _scores(after))
    elif sums is not None:
        outcomes = sums.outcomes(before[0] if before else [])
    else:
        raise IndexUnavailable(
            "the first answer to a repeated call cannot be decoded, since the board has changed",
            may_have_applied=True,
        )
    highs_before, highs_after, is_due = of_head
    highs = _decode_ranks(highs_before, sums), _decode_ranks(highs_after, sums)
    return Applied(
        outcomes,
        _decode_ranks(ranks_before, sums),
        _decode_ranks(ranks_after, sums),
        seq,
        refresh_states=decode_refresh_states(board, refresh_states),
        highs=None if highs[0] is None or highs[1] is None else (highs[0], highs[1]),
        passes_due=is_due,
    )


def _decode_ranks(payload: Any, sums: Sums | None) -> "array[int] | None":
    if payload is False:
        return None
    return array(
        "q", payload if sums is None else [payload[member] for member in sums.event_members]
    )


def decode_refresh_states(board: Opened, payload: Any) -> RefreshStates:
    """Decode the state of the refreshed windows."""
    if not payload:
        return {}
    return {
        board.shard: {
            window: RefreshState(
                offset=int(moved),
                now_ms=None if now is False else int(now),
                waiting=waiting,
                since_ms=None if since is False else int(since),
                seen=int(seen),
            )
            for window, (moved, now, waiting, since, seen) in payload.items()
        }
    }


def _scores(columns: Any) -> Scores | None:
    """Return scores as columns of words, with False for a member that was not ranked. Return None
    if no window was watched."""
    if not columns or not columns[0]:
        return None
    present = bytearray([word is not False for word in columns[0]])
    return Scores(present, [array("q", map(int, column)) for column in columns])


# Reading


def encode_read(encoding: BoardEncoding, request: ReadRequest) -> list[Any]:
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
    if request.zeros is not None:
        encoded.append(encode_zeros(encoding, request.zeros))
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
