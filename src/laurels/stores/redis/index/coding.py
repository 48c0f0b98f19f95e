"""Encodes boards and writes for the scripts, and decodes their answers. Reads are in
`read_coding.py`.

Numbers are sent unchanged. They are all below 2^53, so Lua represents them exactly.
"""

from array import array
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.index import Outcomes, Scores
from laurels.core.lifecycle import Due, RefreshState, RollingState, rolling_state
from laurels.core.ranking_key import RankingKey
from laurels.core.record import EntryRows, MendRanking
from laurels.engine.batch.packing import split_texts, unpack
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


def lifetimes(rules: Rules, *, sealed: bool = False) -> dict[str, int]:
    """Return the number of milliseconds from the start of a period to its expiry, by calendar
    window. In windows that close periods, a period expires only when it is sealed. So these windows
    are left out unless `sealed` is true."""
    windows = [
        window for window in rules.windows.values() if sealed or window.name not in rules.closing
    ]
    lives = {window.name: window.lives_ms for window in windows}
    return {name: ms + EXPIRY_MARGIN_MS for name, ms in lives.items() if ms is not None}


def gone_seconds(rules: Rules, *, unsealed: bool) -> int | None:
    """Return the time at which the keys of a board expire, in seconds since 1970; None if they do
    not expire. They expire after the removal of the board: a day later or, if the board's changes
    are kept for longer, with these. With `unsealed` the board may have periods that are not sealed,
    so its keys do not expire yet."""
    if rules.gone_ms == MAX_MS or unsealed:
        return None
    return -(-(rules.gone_ms + max(EXPIRY_MARGIN_MS, rules.changes_ms)) // 1_000)


def board_encoding(
    board: Opened, *, expires: bool = False, head_sizes: HeadSizes = HEAD_SIZES
) -> BoardEncoding:
    """Encode a board for scripts. With `expires`, also encode how long the keys of its periods, and
    of the board as a whole, are stored."""
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
        "gone": (expires and gone_seconds(rules, unsealed=board.closings is not None)) or False,
        "refreshed": dict.fromkeys(rules.refreshed, True) or False,
        "hide_zero": rules.hide_zero,
        "head": head_sizes.encode(rules.head) if rules.head else False,
        "closes": board.closings is not None,
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
    """Encode the data by which an operation finds the due work in scopes: the time, which scopes
    are stale, which periods are kept, and (as `windows`) the running steps of rolling windows. This
    item replaces the `windows` that `_operate` sends by default, which have no running steps."""
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
