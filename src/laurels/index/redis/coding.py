"""How boards, batches and asks are told to the scripts, and how what they found is read.

Numbers go as they are: they stay below 2^53, which Lua's numbers keep exactly.
"""

from array import array
from collections.abc import Sequence
from operator import neg
from typing import Any

from msgspec import Struct

from laurels.event import Batch
from laurels.index.asking import Anchor, Ask, AtBound, AtMember, Found, Span, Start
from laurels.index.base import Located, Outcomes, Scores, Slice
from laurels.index.remote import Applied, Opened
from laurels.plan import Plan, Roll, roll_of
from laurels.rules import Rules
from laurels.score import stamps_of, step_bounds
from laurels.windows import Rolling

from .layout import Layout, is_stamped, layout_of

_BIAS = 2**53


class Known(Struct, frozen=True):
    """What is worked out of a board once: its layout, and what scripts are told of it.

    `steps` are the bounds of a member's total within a step, by rolling window.
    """

    rules: Rules
    layout: Layout
    told: dict[str, Any]
    rolling: list[Rolling]
    steps: dict[str, tuple[list[int], list[int]]]


def known_of(board: Opened) -> Known:
    """What scripts have to know of a board."""
    rules = board.rules
    layout = layout_of(rules)
    least, most = _signed(rules, [(c.low, c.high) for c in rules.columns])
    rolling = [window for window in rules.windows.values() if isinstance(window, Rolling)]
    told = {
        "version": str(board.version),
        "columns": len(rules.columns),
        "sums": [column.op == "sum" for column in rules.columns],
        "tie": rules.tie,
        "stamped": is_stamped(rules),
        "best": rules.best,
        "dense": rules.rank == "dense",
        "rank": rules.rank,
        "least": least,
        "most": most,
        "scored": layout.scored,
        "lows": layout.lows,
        "units": layout.units,
        "fades": {n: True for n in rules.windows if rules.half_life_ms(n)} or False,
    }
    steps = {window.name: _step_bounds(rules, window.steps) for window in rolling}
    return Known(rules, layout, told, rolling, steps)


def _signed(rules: Rules, bounds: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Bounds of columns as bounds of words, least and greatest."""
    pairs = [
        sorted((c.sign * low, c.sign * high))
        for c, (low, high) in zip(rules.columns, bounds, strict=True)
    ]
    return [low for low, _ in pairs], [high for _, high in pairs]


def _step_bounds(rules: Rules, steps: int) -> tuple[list[int], list[int]]:
    bounds = [
        step_bounds(c.low, c.high, steps) if c.op == "sum" else (c.low, c.high)
        for c in rules.columns
    ]
    return _signed(rules, bounds)


# Writing


def rolls_told(known: Known, board: int, now_ms: int) -> list[dict[str, Any]]:
    """Where the rolling windows of a board stand at an instant."""
    rolls = [roll_of(board, window, now_ms) for window in known.rolling]
    return [roll_told(roll) for roll in rolls if roll is not None]


def roll_told(roll: Roll) -> dict[str, Any]:
    return {"name": roll.ranking.key.window, "steps": roll.steps, "running": roll.running}


def batch_told(known: Known, batch: Batch, plan: Plan) -> dict[str, Any]:
    """A batch and its plan, as `count` takes them; each member is told once."""
    rules = known.rules
    places = {name: i + 1 for i, name in enumerate(plan.windows)}
    ats = batch.now_ms if batch.ats is None else batch.ats
    stamps = stamps_of(ats, rules.resolution_ms)
    slots: dict[bytes, int] = {}
    who = [slots.setdefault(member, len(slots) + 1) for member in batch.member_list()]
    said: dict[str, Any] = {
        "now": batch.now_ms,
        "rolls": [roll_told(roll) for roll in plan.rolls if roll is not None],
        "windows": [_window(known, batch, plan, i) for i in range(len(plan.windows))],
        "targets": [[places[t.key.window], t.key.instance] for t in plan.targets],
        "routes": [
            route + 1 if isinstance(route, int) else [each + 1 for each in route]
            for route in plan.routes
        ],
        "members": [member.decode() for member in slots],
        "values": [
            list(column) if rule.sign > 0 else list(map(neg, column))
            for rule, column in zip(rules.columns, batch.values, strict=True)
        ],
        "ats": ats if isinstance(ats, int) else list(ats),
        "stamps": stamps if isinstance(stamps, int) else list(stamps),
        "late": [event + 1 for event in plan.late],
        "absolute": batch.absolute,
        "atomic": batch.atomic,
        "all": plan.all_window + 1,
        "forget": rules.dedupe_ms,
    }
    if len(slots) < batch.size:
        said["who"] = who
    if batch.ids is not None:
        said["ids"] = [False if id is None else id.decode() for id in batch.ids]
    if batch.position is not None:
        said["position"] = batch.position
    return said


def _window(known: Known, batch: Batch, plan: Plan, i: int) -> dict[str, Any]:
    roll = plan.rolls[i]
    if roll is None:
        said = {"name": plan.windows[i], "steps": 0}
        return said | _weights(batch, known.rules.half_life_ms(plan.windows[i]))
    lows, highs = known.steps[plan.windows[i]]
    return {**roll_told(roll), "lows": lows, "highs": highs}


def _weights(batch: Batch, half_life_ms: int) -> dict[str, Any]:
    """What the events weigh where scores fade."""
    if not half_life_ms:
        return {}
    weights = batch.weights_in(half_life_ms)
    told = {"exponents": weights.exponents, "mantissas": weights.mantissas}
    return {key: each if isinstance(each, int) else list(each) for key, each in told.items()}


def applied_of(answer: list[Any]) -> Applied:
    """What `count` answered."""
    _, seq, codes, before, after, ranks_before, ranks_after = answer
    return Applied(
        Outcomes(bytearray(codes), _scores(before), _scores(after)),
        None if ranks_before is False else array("q", ranks_before),
        None if ranks_after is False else array("q", ranks_after),
        seq,
    )


def _scores(columns: Any) -> Scores | None:
    """Columns of words, False where there was nobody; none where nothing was watched."""
    if not columns or not columns[0]:
        return None
    present = bytearray([word is not False for word in columns[0]])
    return Scores(present, [array("q", map(int, column)) for column in columns])


# Asking


def ask_told(known: Known, ask: Ask) -> dict[str, Any]:
    window, instance = ask.key.window, ask.key.instance
    return {
        "window": window,
        "instance": instance,
        "rolling": isinstance(known.rules.windows[window], Rolling),
        "anchors": [_anchor(known, anchor) for anchor in ask.anchors],
        "spans": [_span(span) for span in ask.spans],
        "members": ask.members,
        "data": ask.data,
    }


def _anchor(known: Known, anchor: Anchor) -> list[Any]:
    if isinstance(anchor, AtMember):
        return ["member", anchor.member.decode()]
    if not isinstance(anchor, AtBound):
        return ["start" if isinstance(anchor, Start) else "end"]
    member = None if anchor.member is None else anchor.member.decode()
    if not known.layout.scored:
        if member is not None:
            return ["within", anchor.words, False, member, anchor.right]
        return ["count", anchor.words, anchor.right]
    low, high = _forms(known.layout, anchor.words)
    if member is not None and low < high:
        return ["within", low, high, member, anchor.right]
    return ["count", high if anchor.right else low]


def _forms(layout: Layout, words: Sequence[int]) -> tuple[int, int]:
    """The least form that begins with these words, and the least of those that come after all that
    do; the same one where a word is out of range, so that none does."""
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


class Texts:
    """The entries of the prefixed layout, which come behind an answer one after another."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._place = 0

    def take(self, count: int) -> Sequence[bytes]:
        self._place += count
        return self._texts[self._place - count : self._place]


def found_of(known: Known, answer: list[Any], ask: Ask, texts: Texts) -> Found:
    """What was found for an ask."""
    total, positions, slices, located, data = answer
    width = known.rules.order_words(ask.key.window)
    columns = known.rules.score_words(ask.key.window)
    parts = [_slice(known, part, texts, columns, width) for part in slices]
    carried = None
    if ask.data:
        carried = [[_data(each) for each in part[4]] for part in slices]
        carried.append([_data(each) for each in data])
    where = _located(known, located, texts, width) if ask.members else None
    return Found(total, list(positions), parts, where, carried)


def _data(said: Any) -> bytes | None:
    return None if said is False else said.encode()


def _slice(known: Known, part: list[Any], texts: Texts, columns: int, width: int) -> Slice:
    start, count, rank, entries, _ = part
    if known.layout.scored:
        members = list(entries[::2])
        words = _unpacked(known.layout, list(map(int, entries[1::2])))
    else:
        rows = texts.take(count)
        prefix = 8 * width
        members = [row[prefix:].decode() for row in rows]
        words = _words(rows, width)
    return Slice(start, members, _ranks(known.rules, start, rank, words[:columns]), words)


def _ranks(rules: Rules, start: int, rank: int, words: Sequence["array[int]"]) -> "array[int]":
    """The ranks of entries side by side, by that of the first and the words of their scores."""
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


def _located(known: Known, found: list[Any], texts: Texts, width: int) -> Located:
    positions, ranks, forms = found
    if known.layout.scored:
        words = _unpacked(known.layout, [form or 0 for form in forms])
    else:
        empty = bytes(8 * width)
        words = _words([row or empty for row in texts.take(len(positions))], width)
    return Located(array("q", positions), array("q", ranks), words)


def _unpacked(layout: Layout, forms: list[int]) -> list["array[int]"]:
    """The words of forms, column by column."""
    if layout.name == "plain":
        return [array("q", forms)]
    found = []
    for low, unit in zip(layout.lows, layout.units, strict=True):
        found.append(array("q", [form // unit + low for form in forms]))
        forms = [form % unit for form in forms]
    return found


def _words(rows: Sequence[bytes], width: int) -> list["array[int]"]:
    return [array("q", [_word(row, 8 * place) for row in rows]) for place in range(width)]


def _word(row: bytes, at: int) -> int:
    word = int.from_bytes(row[at + 1 : at + 8], "big")
    return word if row[at] else word - _BIAS
