"""The initial load of a board for readers of changes: all current entries, ranking by ranking, and
then the changes since the load began. Pure.

A new reader, or one whose cursor has expired, begins here. Each cursor of the load also contains
the point at which the changes ended when the load began. Pages of entries are read while writes
continue. So an entry that moves meanwhile may be missed, or may be read in a newer state than at
that point. In both cases the change that moved the entry comes after that point, and is read after
the load. So a reader that applies everything in order, and never overwrites a newer entry by an
older one, ends with the store's state.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from laurels.core.board_queries import Scopes, StoredPeriods
from laurels.core.changes.answers import Change, ChangedRanking, ChangePage
from laurels.core.changes.current_entries import CurrentEntries, CurrentEntriesQuery
from laurels.core.changes.cursor import NOW, decode_cursor
from laurels.core.hiding import Hiding
from laurels.core.query import Query
from laurels.errors import CursorDiverged, InvalidCursor, PeriodExpired
from laurels.model.labels import LabelNames, label_pairs, labels_text
from laurels.model.rules import RankingSpec, Rules
from laurels.model.validation import quoted, safe_repr

PREFIX = "initial."
MAX_STEPS = 100
"""The maximum number of rankings without entries that one page skips."""


class InitialCursor(Struct, frozen=True, array_like=True):
    """The position of a reader in the initial load. `place` is the index, in
    `Rules.recorded`, of the ranking spec that is being read. `page` is the page cursor in the
    current scope and period. `changes` is the cursor from which the reader continues after the
    load."""

    changes: str
    place: int = 0
    scope: tuple[tuple[str, str], ...] | None = None
    period: str | None = None
    page: str | None = None

    def encode(self) -> str:
        packed = msgspec.msgpack.encode(self)
        return PREFIX + urlsafe_b64encode(packed).rstrip(b"=").decode()


_decoder = msgspec.msgpack.Decoder(InitialCursor)


def is_initial(after: str | None) -> bool:
    """Return whether a cursor belongs to the initial load rather than to changes."""
    return isinstance(after, str) and after.startswith(PREFIX)


def decode(text: str) -> InitialCursor:
    """Decode a cursor of the initial load. Raises InvalidCursor for any other text."""
    try:
        packed = text[len(PREFIX) :].encode("ascii")
        cursor = _decoder.decode(urlsafe_b64decode(packed + b"=" * (-len(packed) % 4)))
    except (binascii.Error, UnicodeError, msgspec.MsgspecError, ValueError) as error:
        raise InvalidCursor("expected the cursor of a page of changes") from error
    if cursor.place < 0:
        raise InvalidCursor(f"expected the cursor of a page of changes, got {safe_repr(text)}")
    return cursor


def uid_of(after: str | None) -> str | None:
    """Return the uid of the board that a cursor belongs to, be it a cursor of changes or of the
    initial load; None if it belongs to no board."""
    try:
        if after is None or after == NOW:
            return None
        text = decode(after).changes if is_initial(after) else after
        return decode_cursor(text).uid
    except InvalidCursor:
        return None


def ensure_same_board(board: str, uid: str, cursor: InitialCursor) -> None:
    """Raise CursorDiverged if a cursor of the initial load belongs to an earlier board than the one
    with this uid; InvalidCursor if it belongs to no board."""
    if decode_cursor(cursor.changes).uid != uid:
        raise CursorDiverged(
            f"the cursor was made for an earlier board than the current {quoted(board)}"
        )


Steps = Generator[Query[Any], Any, ChangePage]


def cursor_of(after: str | None, end_of_changes: Callable[[], str]) -> InitialCursor:
    """Decode the cursor from which a reader continues; for None return a cursor at the beginning of
    the load. Raises InvalidCursor for a cursor of changes."""
    if after is not None and is_initial(after):
        return decode(after)
    if after is not None:
        raise InvalidCursor(
            "expected no cursor or a cursor of current entries, got a cursor of changes"
        )
    return InitialCursor(end_of_changes())


def page(board: str, uid: str, rules: Rules, cursor: InitialCursor, limit: int) -> Steps:
    """Make a page of the initial load. This is a generator that yields queries, receives their
    answers, and returns the page.

    The last page has the change `initial_end` and the cursor of the changes that follow.
    """
    recorded = [rules.specs[index] for index in rules.recorded]
    for _ in range(MAX_STEPS):
        if cursor.place >= len(recorded):
            end = Change(f"{uid}/initial", board, "initial_end", 0)
            return ChangePage([end], cursor.changes, more=True)
        spec = recorded[cursor.place]
        if spec.labels and cursor.scope is None:
            cursor = yield from _next_scope(cursor, spec.labels)
            continue
        if cursor.period is None:
            cursor = yield from _next_period(cursor, spec)
            continue
        try:
            entries: CurrentEntries = yield CurrentEntriesQuery(
                window=spec.window,
                period=cursor.period or None,
                labels=cursor.scope or (),
                limit=limit,
                after=cursor.page,
            )
        except PeriodExpired:
            cursor = yield from _next_period(cursor, spec)
            continue
        changes = _changes_of(entries, board, uid)
        if entries.next is not None:
            cursor = replace(cursor, page=entries.next)
        else:
            cursor = yield from _next_period(cursor, spec)
        if changes:
            return ChangePage(changes, cursor.encode(), more=True)
    return ChangePage([], cursor.encode(), more=True)


def is_last(page: ChangePage) -> bool:
    """Return whether a page is the last one of the initial load."""
    return bool(page.changes) and page.changes[-1].kind == "initial_end"


def completed(
    page: ChangePage,
    positions: Mapping[str, str],
    hidden: Iterable[tuple[bytes, Hiding, bool]],
) -> ChangePage:
    """Return the last page of the initial load with more changes: before `initial_end` there is a
    change of the kind `hide` for each hidden member, and one of the kind `position` for each
    source."""
    end = page.changes[-1]
    hides = [
        replace(
            end,
            id=f"{end.id}/hidden/{member.decode()}",
            kind="hide",
            at_ms=hiding.since_ms,
            member=member.decode(),
            data=hiding.described(),
        )
        for member, hiding, _ in hidden
    ]
    noted = [
        replace(
            end,
            id=f"{end.id}/position/{source}",
            kind="position",
            data={"source": source, "position": position},
        )
        for source, position in sorted(positions.items())
    ]
    return replace(page, changes=[*hides, *noted, end])


def _changes_of(entries: CurrentEntries, board: str, uid: str) -> list[Change]:
    return [
        Change(
            "/".join(
                [uid, "initial", ranking.window, ranking.period or "", _text(ranking), member]
            ),
            board,
            "initial",
            entries.now_ms,
            member,
            rankings=[ranking],
            data=data,
        )
        for member, ranking, data in zip(
            entries.members, entries.rankings, entries.data, strict=True
        )
    ]


def _text(ranking: ChangedRanking) -> str:
    return labels_text(ranking.labels or {})


def _next_period(
    cursor: InitialCursor, spec: RankingSpec
) -> Generator[Query[Any], Any, InitialCursor]:
    """Return the cursor of the next older period of a window. After the oldest period, this is the
    cursor of the next scope or ranking."""
    periods = yield StoredPeriods(window=spec.window, labels=cursor.scope or ())
    labels = [period.label for period in periods if period.total]
    if cursor.period is None:
        older = labels
    else:
        older = labels[labels.index(cursor.period) + 1 :] if cursor.period in labels else []
    if older:
        return replace(cursor, period=older[0], page=None)
    if spec.labels:
        return (yield from _next_scope(cursor, spec.labels))
    return InitialCursor(cursor.changes, cursor.place + 1)


def _next_scope(
    cursor: InitialCursor, names: LabelNames
) -> Generator[Query[Any], Any, InitialCursor]:
    """Return the cursor of the next scope with the label names `names`. After the last scope, this
    is the cursor of the next ranking."""
    scopes = yield Scopes(labels=names, after=cursor.scope, limit=1)
    if not scopes:
        return InitialCursor(cursor.changes, cursor.place + 1)
    return InitialCursor(cursor.changes, cursor.place, label_pairs(scopes[0]))


def run(steps: Steps, ask: Callable[[Query[Any]], Any]) -> ChangePage:
    """Run the generator of a page: send it the answers of a store, and return the page."""
    try:
        query = next(steps)
        while True:
            try:
                answer = ask(query)
            except PeriodExpired as error:
                query = steps.throw(error)
            else:
                query = steps.send(answer)
    except StopIteration as end:
        made: ChangePage = end.value
        return made


async def run_async(steps: Steps, ask: Callable[[Query[Any]], Awaitable[Any]]) -> ChangePage:
    """Run the generator of a page: send it the answers of an asynchronous store, and return the
    page.
    """
    try:
        query = next(steps)
        while True:
            try:
                answer = await ask(query)
            except PeriodExpired as error:
                query = steps.throw(error)
            else:
                query = steps.send(answer)
    except StopIteration as end:
        made: ChangePage = end.value
        return made
