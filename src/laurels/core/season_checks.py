"""Checks of sealed periods and payouts that come over a network, before a store writes them. Pure.

When a whole period has arrived, its digest shows whether its standings are those that were sealed.
"""

from collections.abc import Mapping, Sequence

import msgspec

from laurels.errors import LaurelsError
from laurels.errors.copies import InvalidCopy
from laurels.model.event import MAX_ID_BYTES
from laurels.model.labels import is_by, labels_of, scope_named
from laurels.model.prizes import prizes_of
from laurels.model.rules import Rules
from laurels.model.validation import is_unicode, safe_repr
from laurels.timeline.instants import MAX_MS, MIN_MS

from .closing import SealedPeriod, WindowClosing
from .digest import HASH_BYTES, MAX_ENTRIES, SALT_BYTES
from .payouts import PayoutRow, payout_id
from .sealed_contents import SealedRanking, SealedRevision, SealedRows
from .season_pieces import SealedShare

_MOST = 2**62
_LEVELS = 4
_MOST_REVISIONS = 1_000_000
_LONGEST = 8_192
_STYLES = ("ordinal", "competition", "dense")


def ensure_closing(closing: Mapping[str, WindowClosing], rules: Rules) -> None:
    """Raise InvalidCopy for closed periods that no board with these rules can have."""
    for name, each in closing.items():
        _ensure(name in rules.windows, f"a window of the board, got {safe_repr(name)}")
        _ensure(abs(each.since_ms) < _MOST, "a time since which a window closes its periods")
        for instance in (*each.open, *each.sealed, *each.closed):
            _ensure_instance(name, instance, rules)
        for limit in (each.trimmed, each.floor):
            _ensure(limit is None or abs(limit) < _MOST, "the newest period that was removed")
        for sealed in each.sealed.values():
            _ensure_seal(sealed)
            try:
                if sealed.prizes:
                    prizes_of(sealed.prizes)
            except (LaurelsError, ValueError) as error:
                raise InvalidCopy(f"the prizes of a sealed period are malformed ({error})") from (
                    error
                )


def ensure_share(share: SealedShare, uid: str, rules: Rules) -> None:
    """Raise InvalidCopy for a share of a sealed period that no board with these rules has."""
    _ensure(share.window in rules.windows, f"a window, got {safe_repr(share.window)}")
    _ensure_instance(share.window, share.instance, rules)
    _ensure(0 <= share.revision < _MOST_REVISIONS, "a revision from 0")
    _ensure(0 <= share.number < _MOST, "the number of a share from 0")
    width = rules.order_words(share.window) + rules.is_stamped
    for at, piece in enumerate(share.pieces):
        match piece:
            case SealedRevision():
                place = piece.uid, piece.window, piece.instance, piece.revision
                own = uid, share.window, share.instance, share.revision
                _ensure(not at and not share.number and place == own, "a revision at the beginning")
                _ensure_seal(piece.seal)
            case SealedRanking():
                _ensure_ranking(piece, rules, width)
            case SealedRows():
                _ensure_members(piece.names())
                _ensure(0 < len(piece.columns) <= width, f"up to {width} columns")
                piece.words()


def ensure_payout(row: PayoutRow, uid: str, rules: Rules) -> None:
    """Raise InvalidCopy for a payout that no board with this uid and these rules has."""
    _ensure(row.uid == uid, "payouts of the board that is copied")
    _ensure(row.window in rules.windows, f"a window, got {safe_repr(row.window)}")
    _ensure_instance(row.window, row.instance, rules)
    texts = (row.id, row.board, row.period, row.scope, row.member, row.prize, row.corrects or "")
    for text in (*texts, row.reference or ""):
        _ensure(is_unicode(text) and len(text) <= _LONGEST, "payouts with short texts")
    parts = (row.uid, row.window, row.period, row.scope, row.member, row.prize, row.revision)
    _ensure(row.id == payout_id(*parts), f"the id of the payout, got {safe_repr(row.id)}")
    _ensure_scope(row.scope, rules)
    _ensure_members([row.member.encode()])
    for number in (row.position, row.revision, row.superseded or 0):
        _ensure(0 <= number < _MOST, "numbers from 0")
    _ensure(row.units is None or abs(row.units) < _MOST, "an amount that can be stored")
    _ensure(0 <= row.scale <= 18, "up to 18 decimal places")
    for at_ms in (row.made_ms, row.due_ms, row.confirmed_ms or 0):
        _ensure(MIN_MS <= at_ms <= MAX_MS, "times in milliseconds since 1970")
    _ensure((row.reference is None) == (row.confirmed_ms is None), "a time of the confirmation")
    msgspec.json.decode(row.data)


def _ensure_ranking(ranking: SealedRanking, rules: Rules, width: int) -> None:
    _ensure_scope(ranking.scope, rules)
    _ensure(ranking.style in _STYLES, "a rank style")
    _ensure(0 < ranking.total <= MAX_ENTRIES, "a ranking with entries")
    _ensure(0 < ranking.columns <= ranking.ordered <= width, f"up to {width} words in order")
    for level, number, secret in ranking.secrets:
        _ensure(0 <= level <= _LEVELS and 0 <= number < MAX_ENTRIES, "a node of the salts")
        _ensure(len(secret) == SALT_BYTES, f"secrets of {SALT_BYTES} bytes")
    positions = [each.position for each in ranking.erased]
    _ensure(positions == sorted({*positions}), "erased entries in the order of their positions")
    for each in ranking.erased:
        _ensure(
            0 <= each.position < ranking.total,
            f"a position below {ranking.total} of an erased entry",
        )
        _ensure(len(each.hash) == HASH_BYTES, f"hashes of {HASH_BYTES} bytes")
        _ensure(is_unicode(each.token), "a token for an erased member")


def _ensure_seal(sealed: SealedPeriod) -> None:
    _ensure(MIN_MS <= sealed.sealed_ms <= MAX_MS, "the time of a seal")
    _ensure(0 <= sealed.entries < _MOST, "a number of entries")
    _ensure(len(sealed.digest) == HASH_BYTES, f"a digest of {HASH_BYTES} bytes")
    _ensure(0 <= sealed.revision < _MOST_REVISIONS, "a revision from 0")
    _ensure(0 <= sealed.entry < _MOST, "the offset of an entry of the log")
    _ensure_members(sealed.hidden)


def _ensure_instance(name: str, instance: int, rules: Rules) -> None:
    window = rules.windows[name]
    try:
        if not window.steps:
            _ensure(MIN_MS <= instance <= MAX_MS, "the beginning of a period")
        period = window.period_of(instance)
        is_right = window.instance_of(period) == instance and period.end_ms >= MIN_MS
    except (LaurelsError, ValueError, OverflowError) as error:
        raise InvalidCopy(f"expected a period of {name!r} ({error})") from error
    _ensure(is_right, "the beginning of a period")


def _ensure_scope(scope: str, rules: Rules) -> None:
    try:
        labels, by = labels_of(scope), scope[1:] if is_by(scope) else None
        _ensure(scope_named(rules, labels, by) == scope, "the scope of a board")
    except LaurelsError as error:
        raise InvalidCopy(f"expected a scope of the board, got {safe_repr(scope)}") from error


def _ensure_members(members: Sequence[bytes]) -> None:
    for member in members:
        _ensure(0 < len(member) <= MAX_ID_BYTES, "members of 1 to 128 bytes")
        member.decode()


def _ensure(is_right: bool, expected: str) -> None:
    if not is_right:
        raise InvalidCopy(f"expected {expected}")
