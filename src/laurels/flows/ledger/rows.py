"""Turn changes of a board into rows of the ledger: the last row for each member and ranking.
Pure."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from laurels.core.changes.answers import Change, ChangedRanking
from laurels.core.hiding import Hiding
from laurels.model.score import Number
from laurels.sql.texts import (
    COLUMNS,
    RankingName,
    is_kept_source,
    may_be_shortened,
    scope_text,
)

GENERATION_BITS = 40
"""A version has the sequence number of a change in this many low bits, and the generation in the
bits above."""
_Ranking = tuple[RankingName, int | None]
"""The name of a ranking and the beginning of its period."""

Period = tuple[str, str]
"""Window and label of a period; the label is empty in the window `all`."""

_ABSENT = (None,) * COLUMNS


class ScoreRow(Struct, frozen=True, gc=False):
    """An entry of a ranking. `period_start` is None in the window `all`."""

    scores: tuple[Number | None, ...]
    reached_at: int | None
    last_at: int | None
    period_start: int | None
    version: int


class Flush(Struct):
    """The writes for some successive changes of a page, in this order: removed members, entries
    (None deletes an entry), data, positions of sources; then rows of older generations are deleted,
    if the changes include the end of the initial load."""

    clears: bool = False
    """Whether all rows and data of members are deleted first."""
    removed: dict[str, frozenset[Period]] = msgspec.field(default_factory=dict)
    """The periods that were closed when a member was removed: there its entries stay."""
    entries: dict[str, dict[RankingName, ScoreRow | None]] = msgspec.field(default_factory=dict)
    data: dict[str, tuple[str | None, int]] = msgspec.field(default_factory=dict)
    positions: dict[str, str] = msgspec.field(default_factory=dict)
    scopes: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """The labels of scopes whose text is shortened."""
    closed: dict[Period, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Closed periods, each with the time of its closing and the version of its row."""
    hidden: dict[str, tuple[Hiding | None, int]] = msgspec.field(default_factory=dict)
    """The hidings of members; None for a member that is shown again. With the version of the
    row."""
    confirmed: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)
    """Confirmed payouts by id, with the reference and the time."""
    defines: bool = False
    ends_initial: bool = False


def version_of(change: Change, generation: int) -> int:
    """Return the version of the rows that a change writes. These rows do not replace rows of a
    higher version."""
    parts = change.id.split("/", 3)
    sequence = 0 if parts[1] == "initial" else int(parts[2])
    return (generation << GENERATION_BITS) | min(sequence, (1 << GENERATION_BITS) - 1)


def flush_of(
    changes: Sequence[Change],
    generation: int,
    start_of: Callable[[str, str], int],
    closed: set[Period] | None = None,
) -> Flush:
    """Return the writes for successive changes. `start_of` returns the beginning of a period of a
    window. `closed` has the periods that were closed before; those that these changes close are
    added to it."""
    closed = set() if closed is None else closed
    flush = Flush()
    block, version = "", 0
    rankings: dict[tuple[str, str | None], _Ranking] = {}
    """The rankings without labels that have occurred, by window and period."""
    for change in changes:
        # All changes of a block have the same sequence number.
        if (change_block := change.id.rpartition("/")[0]) != block:
            block, version = change_block, version_of(change, generation)
        kind, member = change.kind, change.member
        if member is None:
            _add_board_change(flush, change)
            if kind == "close":
                period = change.data["window"], change.data["period"] or ""
                closed.add(period)
                flush.closed[period] = change.at_ms, version
        elif kind == "erase":
            _remove(flush, member, frozenset())
            flush.removed[member] = frozenset()
            flush.hidden[member] = None, version
        elif kind == "remove":
            _remove(flush, member, frozenset(closed))
        elif kind in ("hide", "show"):  # a hidden member is still counted, so its rows stay
            flush.hidden[member] = _hiding(change), version
        elif kind == "confirm":
            if change.data is not None:  # a key that does not administer gets no data
                payout, reference = change.data["payout"], change.data["reference"]
                flush.confirmed[payout] = reference, change.at_ms
        elif kind in ("disqualify", "payout"):
            continue  # `SeasonsOfBoard` reads these periods and payouts from the store
        elif kind == "data":
            flush.data[member] = _json(change.data), version
        else:
            if change.data is not None:  # an initial entry has the member's data
                flush.data[member] = _json(change.data), version
            if (entries := flush.entries.get(member)) is None:
                entries = flush.entries[member] = {}
            for entry in change.rankings:
                if entry.labels:
                    ranking = _ranking(flush, entry, start_of)
                elif (cached := rankings.get((entry.window, entry.period))) is not None:
                    ranking = cached
                else:
                    ranking = _ranking(flush, entry, start_of)
                    rankings[entry.window, entry.period] = ranking
                entries[ranking[0]] = _row(entry, ranking[1], version)
    return flush


def _add_board_change(flush: Flush, change: Change) -> None:
    """Add a change that concerns no single member: a new definition, the removal of all members, a
    new position of a source, or the end of the initial load."""
    if change.kind in ("create", "change", "undelete"):
        flush.defines = True
    elif change.kind == "clear":
        flush.clears = True
        for written in (flush.removed, flush.entries, flush.data):
            written.clear()
    elif change.kind == "initial_end":
        flush.ends_initial = True
    elif change.kind == "position" and is_kept_source(change.data["source"]):
        flush.positions[change.data["source"]] = change.data["position"]


def _ranking(flush: Flush, entry: ChangedRanking, start_of: Callable[[str, str], int]) -> _Ranking:
    """Return the name of an entry's ranking and the beginning of its period. If the text of the
    scope is shortened, add the scope's labels to `flush`."""
    period = entry.period or ""
    scope = scope_text(entry.labels)
    if may_be_shortened(scope):
        flush.scopes[scope] = entry.labels or {}
    start_ms = start_of(entry.window, period) if period else None
    return (entry.window, period, scope), start_ms


def _row(entry: ChangedRanking, start_ms: int | None, version: int) -> ScoreRow | None:
    """Return the row of an entry; None if the member is no longer ranked."""
    score = entry.score
    if score is None:
        return None
    scores = (*score, *_ABSENT[len(score) :]) if isinstance(score, tuple) else (score, *_ABSENT[1:])
    return ScoreRow(scores, entry.reached_ms, entry.last_ms, start_ms, version)


def _remove(flush: Flush, member: str, closed: frozenset[Period]) -> None:
    """Add the removal of a member from all rankings but those of closed periods."""
    entries = flush.entries.pop(member, {})
    if kept := {name: row for name, row in entries.items() if name[:2] in closed}:
        flush.entries[member] = kept
    flush.data.pop(member, None)
    flush.removed.setdefault(member, closed)


def _hiding(change: Change) -> Hiding | None:
    """Return the hiding of a member after a change; None if it is shown. A key that does not
    administer gets no reasons."""
    if change.kind == "show":
        return None
    if change.data is None:
        return Hiding("", change.at_ms)
    return msgspec.convert(change.data, _HidingData).hiding()


class _HidingData(Struct, frozen=True):
    reason: str
    since_ms: int
    until_ms: int | None = None

    def hiding(self) -> Hiding:
        return Hiding(self.reason, self.since_ms, self.until_ms)


def _json(data: object) -> str | None:
    return None if data is None else msgspec.json.encode(data).decode()
