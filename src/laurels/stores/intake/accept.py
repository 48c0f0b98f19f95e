"""Turns a caller's arguments into a write, and validates what can be validated without the
store."""

import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any, TypedDict

import msgspec

from laurels.core.board_state import BoardState
from laurels.core.commands import SourcePosition
from laurels.core.named_windows import spec_named
from laurels.core.receipt import Receipts
from laurels.engine.batch.intake import Columns
from laurels.errors import (
    AllEventsRefused,
    BatchTooLarge,
    DataTooLarge,
    InvalidData,
    InvalidEvent,
    InvalidPosition,
    LaurelsError,
    NoAllWindow,
    SetWithTime,
)
from laurels.model.event import MAX_BATCH, id_bytes, member_of
from laurels.model.rules import RankingSpec
from laurels.model.validation import is_unicode, quoted, safe_repr

from .joined_submission import JoinedSubmission
from .submission import EventErrors, Submission
from .tickets import Ticket
from .writes import FoldedWrite

MAX_DATA_BYTES = 1_024
MAX_POSITION = 4_096


class SubmitOptions(TypedDict, total=False):
    """Options for how events are counted and answered."""

    ranks: bool
    absolute: bool
    atomic: bool
    key: str | None
    position: SourcePosition | None
    scope: Sequence[str] | None
    arrived_ms: int | None


def submission(
    state: BoardState,
    events: Iterable[Any],
    window: str | None,
    *,
    event_time: bool,
    ranks: bool = False,
    absolute: bool = False,
    atomic: bool = False,
    key: str | None = None,
    position: SourcePosition | None = None,
    scope: Sequence[str] | None = None,
    arrived_ms: int | None = None,
    watched: RankingSpec | None = None,
) -> Submission:
    """Accept events for a board: validate their form and turn them into columns. `watched` is the
    ranking of `window` and `scope`, if the caller has already looked it up."""
    event_list = batch_list(events)
    if position is not None or arrived_ms is not None:
        ensure_position(position, arrived_ms)
    columns = state.reader.gather(event_list)
    if absolute and not columns.errors and not state.rules.can_set:
        raise NoAllWindow(f"the board {quoted(state.board.name)} has no window `all`")
    if absolute and columns.ats is not None and not event_time and state.rules.has_sum:
        raise SetWithTime(
            f"expected no time for `set`, since the board {quoted(state.board.name)} has a sum "
            "column"
        )
    if key is not None:
        _assign_ids(columns, key)
    return Submission(
        state,
        columns,
        _errors(event_list, columns) if columns.errors else {},
        watched=watched or spec_named(state.rules, window, scope),
        ranks=ranks or len(event_list) == 1,
        event_time=event_time,
        absolute=absolute,
        atomic=atomic,
        position=None if position is None else position[:2],
        follows=None if position is None or len(position) == 2 else position[2] or "",
        behind=position is not None and len(position) == 4,
        arrived_ms=arrived_ms,
    )


def _errors(event_list: Sequence[Any], columns: Columns) -> EventErrors:
    """Return the members and the errors of the events whose form is invalid, by position."""
    return {
        i: (member_of(event_list[i]), error)
        for i, error in columns.errors
        if isinstance(error, LaurelsError)
    }


def batch_list(events: Iterable[Any]) -> list[Any]:
    """Return the events of a batch as a list. Raise an error if the events are not iterable, or if
    there are too many."""
    if type(events) is list and len(events) <= MAX_BATCH:
        return events.copy()
    if not isinstance(events, Iterable):
        raise InvalidEvent(f"expected a list of events, got {safe_repr(events)}")
    event_list = list(islice(events, MAX_BATCH + 1))
    if len(event_list) > MAX_BATCH:
        raise BatchTooLarge(f"expected at most {MAX_BATCH:,} events, got more")
    return event_list


def join_writes(tickets: Iterable[Ticket]) -> list[tuple[list[Ticket], FoldedWrite]]:
    """Return the writes of a commit, each with its tickets. Consecutive submissions of one kind
    become one write, since a batch costs little more than a single event."""
    groups: list[list[Ticket]] = []
    last = None
    for ticket in tickets:
        kind = ticket.write.kind
        if kind is not None and kind == last:
            groups[-1].append(ticket)
        else:
            groups.append([ticket])
        last = kind
    writes: list[tuple[list[Ticket], FoldedWrite]] = []
    for group in groups:
        is_single = len(group) == 1
        write = group[0].write if is_single else JoinedSubmission([each.write for each in group])
        writes.append((group, write))
    return writes


_PLAIN = frozenset({str, int, float, bool, Decimal, type(None)})


def is_plain(event: object) -> bool:
    """Return whether an event is immutable and runs no code of its own. Such an event may be
    accepted later, and by another thread."""
    if type(event) is not tuple:
        return False
    return _PLAIN.issuperset(map(type, event)) or all(map(_is_plain, event))


def _is_plain(part: object) -> bool:
    kind = type(part)
    if kind is dict:
        return isinstance(part, dict) and _PLAIN.issuperset(map(type, chain(part, part.values())))
    return kind in _PLAIN or (isinstance(part, tuple) and _PLAIN.issuperset(map(type, part)))


def warn_if_all_refused(receipts: Receipts) -> None:
    """Warn the caller of a verb if every event of a batch was refused."""
    if not receipts or receipts.error(0) is None or receipts.refused < len(receipts):
        return
    first = receipts[0]
    warnings.warn(
        f"every event of a batch of {len(receipts):,} was refused; the first one: "
        f"[{first.reason}] {first.message}",
        AllEventsRefused,
        stacklevel=3,
    )


def data_bytes(data: Any) -> bytes | None:
    """Return a member's data as JSON bytes; None if the data is None."""
    if data is None:
        return None
    try:
        encoded = msgspec.json.encode(data)
        if msgspec.json.decode(encoded) != data:
            raise InvalidData("the data changes when it is written as JSON and read back")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidData(f"the data cannot be written as JSON ({error})") from error
    if len(encoded) > MAX_DATA_BYTES:
        raise DataTooLarge(
            f"expected at most {MAX_DATA_BYTES:,} bytes of data, got {len(encoded):,}"
        )
    return encoded


def successive(tickets: Iterable[Ticket]) -> list[list[Ticket]]:
    """Divide tickets into groups that may be committed together. No two writes of a group change
    the position of the same source, since the second write is validated against the position that
    the first write commits."""
    groups: list[list[Ticket]] = [[]]
    moved = set[tuple[int, str]]()
    for ticket in tickets:
        moves = None if ticket.write is None else ticket.write.moves
        if moves in moved:
            groups.append([])
            moved = set()
        groups[-1].append(ticket)
        if moves is not None:
            moved.add(moves)
    return groups


def ensure_position(position: SourcePosition | None, arrived_ms: int | None = None) -> None:
    """Raise InvalidPosition unless a position is None, (source, text), (source, text, before) or
    (source, text, before, "behind"), with texts of up to 4,096 characters. `before` is the position
    that must be stored for the batch to be counted; None means that no position may be stored. For
    events with an arrival time, `before` is required, since it shows how far the stream has been
    counted. With "behind", shards that store another position skip the batch."""
    if position is None and arrived_ms is None:
        return
    if position is not None:
        _ensure_form(position)
    if arrived_ms is not None and (position is None or len(position) == 2):
        raise InvalidPosition(
            "expected (source, text, text before), since the events have an arrival time; got "
            f"{safe_repr(position)}"
        )


def _ensure_form(position: object) -> None:
    if isinstance(position, tuple) and len(position) == 4 and position[3] == "behind":
        position = position[:3]
    if not isinstance(position, tuple) or len(position) not in (2, 3):
        raise InvalidPosition(
            "expected a position as (source, text) or (source, text, text before), got "
            f"{safe_repr(position)}"
        )
    if len(position) == 3 and position[1] == (position[2] or ""):
        raise InvalidPosition(
            f"expected a text that differs from the text before, got {safe_repr(position[1])}"
        )
    for part in position if position[-1] is not None else position[:2]:
        if type(part) is not str or not is_unicode(part) or len(part) > MAX_POSITION:
            raise InvalidPosition(
                f"expected text of up to {MAX_POSITION:,} characters, got {safe_repr(part)}"
            )


def _assign_ids(columns: Columns, key: str) -> None:
    """Give every event without an id an id derived from the batch key."""
    id_bytes(key)
    origin = range(columns.n) if columns.kept is None else columns.kept
    own = columns.ids or [None] * columns.n
    columns.ids = [
        id if id is not None else id_bytes(f"{key}#{i}") for i, id in zip(origin, own, strict=True)
    ]
