"""Checks of copied boards that come over a network, before a store writes them. Pure.

A store restores pieces without validating them, at the speed of its index. Pieces from another
store of this machine are already valid. Pieces that come over a network are checked here. So no
request can bring an index into a state that events could not produce.
"""

from collections.abc import Iterable, Sequence

import msgspec

from laurels.engine.batch.packing import bounds
from laurels.errors import LaurelsError
from laurels.errors.copies import InvalidCopy
from laurels.model.board import Board
from laurels.model.event import MAX_ID_BYTES
from laurels.model.labels import is_by, labels_of, scope_named
from laurels.model.rules import Rules
from laurels.model.score import LIMIT, word_bounds
from laurels.model.validation import is_unicode, quoted, safe_repr
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MAX_MS, MIN_MS

from .closing import WindowClosing
from .contents import EventIds, MemberValues, Origin, OriginRest, Piece, RankingRows
from .hiding import Hiding
from .season_checks import ensure_closing, ensure_payout, ensure_share
from .season_pieces import PayoutRows, SealedShare

MAX_UID = 64
MAX_TEXT = 8_192
MAX_DATA_BYTES = 1_024
_MOST = 2**62
_MOST_SERIAL = 9 * 10**17
"""The numbers of payouts in cursors have up to 18 digits."""


def ensure_origin(origin: Origin, name: str) -> None:
    """Raise InvalidCopy for an origin that no board can have, or the error of its definition."""
    board = Board.from_json(origin.definition)
    rules = board.rules()
    _ensure(
        board.name == name, f"the definition of {quoted(name)}, got that of {quoted(board.name)}"
    )
    uid = origin.uid
    is_plain = uid.isascii() and uid.isprintable() and not {*"/~ "} & {*uid}
    _ensure(0 < len(uid) <= MAX_UID and is_plain, f"the uid of a board, got {safe_repr(uid)}")
    _ensure(1 <= origin.version < _MOST, "a version from 1")
    times = [origin.created_ms, origin.now_ms, *origin.floors.values()]
    times += [each.now_ms for each in origin.shown.values() if each.now_ms is not None]
    _ensure_times(times)
    _ensure(origin.floors.keys() <= rules.windows.keys(), "floors of windows of the board")
    _ensure(origin.shown.keys() <= rules.refreshed.keys(), "windows with refresh of the board")
    _ensure({*origin.running} <= {*rules.rolling}, "rolling windows of the board")
    _ensure(all(abs(step) < _MOST for step in origin.running.values()), "numbers of steps")
    for text in (*origin.positions, *origin.positions.values()):
        _ensure(len(text) <= MAX_TEXT and is_unicode(text), "sources and positions as short texts")
    _ensure(all(0 <= word < _MOST for end in origin.ends for word in end), "ends of changes")
    _ensure_hidden(origin.hidden)
    ensure_closing(origin.closing, rules)


def ensure_rest(rest: OriginRest, rules: Rules) -> None:
    """Raise InvalidCopy for a part of an origin that no board with these rules can have."""
    _ensure_hidden(rest.hidden)
    ensure_closing(
        {window: WindowClosing(sealed=each) for window, each in rest.sealed.items()}, rules
    )


def ensure_piece(piece: Piece, uid: str, rules: Rules) -> None:
    """Raise InvalidCopy for a piece that no board with this uid and these rules can have. O(its
    size)."""
    try:
        match piece:
            case RankingRows():
                _ensure_rows(piece, rules)
            case EventIds(groups):
                _ensure_times([accepted_ms for accepted_ms, _ in groups])
                _ensure_ids([key for _, keys in groups for key in keys])
            case MemberValues(items):
                _ensure_members([member for member, _ in items])
                for _, value in items:
                    _ensure(len(value) <= MAX_DATA_BYTES, "data of at most 1 KiB")
                    msgspec.json.decode(value)
            case SealedShare():
                ensure_share(piece, uid, rules)
            case PayoutRows(items):
                for each in items:
                    _ensure(0 < each.serial < _MOST_SERIAL, "the number of a payout from 1")
                    ensure_payout(each.row, uid, rules)
    # raised by the functions that decode the piece's bytes
    except (ValueError, LookupError) as error:
        raise InvalidCopy(f"a piece of the board is malformed ({error})") from error


def _ensure(is_right: bool, expected: str) -> None:
    if not is_right:
        raise InvalidCopy(f"expected {expected}")


def _ensure_hidden(hidden: Sequence[tuple[bytes, Hiding]]) -> None:
    try:
        _ensure_members([member for member, _ in hidden])
    except ValueError as error:
        raise InvalidCopy(f"a hidden member is malformed ({error})") from error
    for _, hiding in hidden:
        times = (hiding.since_ms, hiding.since_ms if hiding.until_ms is None else hiding.until_ms)
        _ensure_times(times)
        _ensure(len(hiding.reason) <= MAX_TEXT and is_unicode(hiding.reason), "short reasons")


def _ensure_times(times: Sequence[int]) -> None:
    _ensure(all(MIN_MS <= each <= MAX_MS for each in times), "times in milliseconds since 1970")


def _ensure_members(members: Sequence[bytes]) -> None:
    for member in members:
        _ensure(0 < len(member) <= MAX_ID_BYTES, "members of 1 to 128 bytes")
        member.decode()
    _ensure(len(set(members)) == len(members), "each member once")


def _ensure_ids(keys: Iterable[bytes]) -> None:
    for key in keys:
        size = key[0]
        _ensure(0 < size <= MAX_ID_BYTES, "event ids with their members")
        _ensure(0 < len(key) - 1 - size <= MAX_ID_BYTES, "event ids with their members")
        key[1 : 1 + size].decode()
        key[1 + size :].decode()


def _ensure_rows(rows: RankingRows, rules: Rules) -> None:
    _ensure(rows.window in rules.windows, f"a window of the board, got {safe_repr(rows.window)}")
    window = rules.windows[rows.window]
    _ensure_scope(rows.scope, rules)
    _ensure_instance(rows, window)
    _ensure_members(rows.names())
    has_steps = bool(window.steps) and not rows.is_tally and rows.window not in rules.refreshed
    ordered = rules.order_words(rows.window)
    width = ordered + rules.is_stamped + has_steps
    _ensure(len(rows.columns) == width, f"{width} columns, got {len(rows.columns)}")
    low, high = [-_MOST] * width, [_MOST] * width
    if window.weighing is None:
        scores = len(rules.columns)
        low[:scores], high[:scores] = word_bounds(rules)
        low[scores:], high[scores:] = [-LIMIT] * (width - scores), [LIMIT] * (width - scores)
    if has_steps and rows.running is not None:
        low[-1], high[-1] = rows.running - window.steps, rows.running
    for column, least, most in zip(rows.words(), low, high, strict=True):
        extremes = bounds(column) if rows.size else (0, 0)
        _ensure(
            least <= extremes[0] and extremes[1] <= most, "scores in the range of their columns"
        )


def _ensure_scope(scope: str, rules: Rules) -> None:
    try:
        labels, by = labels_of(scope), scope[1:] if is_by(scope) else None
        _ensure(scope_named(rules, labels, by) == scope, "the scope of a board")
    except LaurelsError as error:
        raise InvalidCopy(f"expected a scope of the board, got {safe_repr(scope)}") from error


def _ensure_instance(rows: RankingRows, window: Window) -> None:
    if not window.steps:
        _ensure(rows.running is None and not rows.is_tally, "no steps in this window")
        _ensure_times([rows.instance])
        period = window.period_of(rows.instance)
        _ensure(window.instance_of(period) == rows.instance, "the beginning of a period")
        return
    _ensure(rows.running is not None and abs(rows.running) < _MOST, "the running step")
    assert rows.running is not None
    oldest = rows.running - window.steps if rows.is_tally else rows.running
    _ensure(oldest <= rows.instance <= rows.running, "a step of the window")
