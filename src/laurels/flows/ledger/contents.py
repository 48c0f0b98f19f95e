"""Read the boards of a ledger as whole boards, which can be copied into stores.

A ledger has the entries of windows that do not change with time, the data of members, and the
positions of sources. Rolling windows, windows with decay, rankings by a label and event ids are not
in a ledger, and are empty in a board that is created from it. Such a board keeps its uid. Its
changes begin after the last change in the ledger, with a new tag, so that cursors of the former
board are refused: the new board does not have the changes that they refer to.
"""

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate

import msgspec
from msgspec import Struct, field

from laurels.core.changes.beginning import decode, is_initial
from laurels.core.changes.cursor import ChangeCursor, decode_cursor
from laurels.core.closing import WindowClosing, final_ms_of
from laurels.core.contents import CopyClock, MemberValues, Origin, Piece, RankingRows
from laurels.core.lifecycle import oldest_stored, rolling_state
from laurels.engine.batch.packing import bounds, differences, pack
from laurels.errors import InvalidCursor
from laurels.errors.ledger import InvalidEntry, LedgerIncomplete
from laurels.flows.sinks.target import POSITION_PREFIX
from laurels.model.event import MAX_ID_BYTES, member_bytes
from laurels.model.labels import scope_named
from laurels.model.rules import Rules
from laurels.model.score import stamps_of, word_bounds
from laurels.sql.columns import LedgerEntries
from laurels.sql.texts import unescape
from laurels.stores.intake.accept import data_bytes
from laurels.stores.intake.tags import new_tag, new_uid
from laurels.timeline.instants import MAX_MS, MIN_MS

from .contents_seasons import SeasonCounts, sealed_of, season_pieces
from .reading import EntryReader, LedgerBoard, LedgerReader

DATA_AT_ONCE = 1_000


class BoardCounts(Struct):
    """The numbers of items that were read of a board: its `entries`, entries in periods that the
    board no longer keeps (`expired`), entries in scopes whose labels are not in the ledger
    (`left_out`), and members with `data`."""

    entries: int = 0
    expired: int = 0
    left_out: int = 0
    data: int = 0
    seasons: SeasonCounts = field(default_factory=SeasonCounts)


class LedgerContents:
    """Implementation of `BoardContents` for a ledger. `clock` returns the time of the store into
    which the boards are copied."""

    def __init__(self, ledger: LedgerReader, clock: Callable[[], CopyClock]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._boards: dict[str, _Board] = {}
        self.counts: dict[str, BoardCounts] = {}
        """The counts of each board, by name, from the last time its pieces were read."""

    def boards(self) -> list[str]:
        """Return the names of the boards, sorted."""
        return self._ledger.boards()

    def rules(self, board: str) -> Rules:
        """Return the rules of a board."""
        return self._board(board).rules

    def settle(self, board: str) -> None:
        """Do nothing: a ledger has no periods that are due."""

    def origin(self, board: str) -> Origin:
        """Return the state of a board, without its rankings. Raises NoLedger, LedgerIncomplete."""
        ledger_board = self._board(board)
        clock = self._clock()
        now_ms = ledger_board.time(clock)
        # Each call has to return the same time, since a copy compares origins.
        began_ms = now_ms if clock.event_time else ledger_board.created_ms
        rolling_states = [
            rolling_state(0, window, now_ms) for window in ledger_board.rules.windows.values()
        ]
        return Origin(
            definition=ledger_board.ledger.definition.to_json(),
            uid=ledger_board.uid,
            version=1,
            created_ms=ledger_board.created_ms,
            now_ms=now_ms,
            event_time=clock.event_time,
            floors={},
            positions=ledger_board.positions,
            running={state.ranking.key.window: state.running for state in rolling_states if state},
            shown={},
            ends=ledger_board.ends,
            hidden=[
                (member_bytes(member), hiding)
                for member, hiding in self._ledger.hidden(board)
                if not hiding.is_over(began_ms)
            ],
            closing=self._closing(board, ledger_board, began_ms),
        )

    def _closing(self, board: str, ledger_board: "_Board", now_ms: int) -> dict[str, WindowClosing]:
        """Return the closing of each window that closes periods, or has sealed periods from a time
        when it did. Periods that are final but not sealed in the ledger were closed in the store
        from which the ledger was written. They are not closed again, so that no payout is made
        twice. Periods that are not final yet will be closed."""
        rules = ledger_board.rules
        closing = {name: WindowClosing(now_ms) for name in rules.closing}
        for name, sealed in sealed_of(self._ledger, ledger_board.uid, rules).items():
            closing.setdefault(name, WindowClosing(now_ms)).sealed.update(sealed)
        for name, label in self._ledger.periods(board) if closing else ():
            if name not in rules.closing:
                continue
            window = rules.windows[name]
            period = window.period(label) if label else window.period_at(0)
            instance = window.instance_of(period)
            if final_ms_of(window, period) > now_ms and instance not in closing[name].sealed:
                closing[name].open.add(instance)
        return closing

    def pieces(self, board: str) -> Iterator[Piece]:
        """Yield the pieces of a board. Raises InvalidEntry for an entry that no ranking can
        have."""
        ledger_board = self._board(board)
        counts = self.counts[board] = BoardCounts()
        oldest_ms = oldest_stored(ledger_board.rules, {}, ledger_board.time(self._clock()))
        reader = self._ledger.reader(ledger_board.ledger)
        ranking = _Rankings(ledger_board.rules, reader)
        for page in self._ledger.entries(ledger_board.ledger):
            for entries in page:
                rows = ranking.rows(entries)
                if rows is None:
                    counts.left_out += len(entries.lengths)
                elif rows.instance < oldest_ms.get(rows.window, MIN_MS):
                    counts.expired += rows.size
                else:
                    counts.entries += rows.size
                    yield rows
        for values in self._ledger.data(board):
            for first in range(0, len(values), DATA_AT_ONCE):
                yield _member_values(values[first : first + DATA_AT_ONCE])
            counts.data += len(values)
        yield from season_pieces(self._ledger, ledger_board.uid, ledger_board.rules, counts.seasons)

    def missing(self, board: str) -> list[str]:
        """Return sentences about the parts of a board that a copy lacks because they are not in the
        ledger."""
        counts, windows = self.counts[board], windows_without_entries(self.rules(board))
        missing = ["event ids"]
        if windows:
            missing.append(f"the entries of {', '.join(windows)}")
        if counts.left_out:
            missing.append(f"{counts.left_out:,} entries of scopes whose labels were cut short")
        sentences = [f"not in the ledger: {', '.join(missing)}"]
        if counts.expired:
            sentences.append(f"{counts.expired:,} entries of periods that are no longer kept")
        return sentences

    def _board(self, name: str) -> "_Board":
        if name not in self._boards:
            self._boards[name] = self._read(name)
        return self._boards[name]

    def _read(self, name: str) -> "_Board":
        ledger = self._ledger.board(name)
        cursor = _change_cursor(ledger)
        positions = {
            source: text
            for source, text in self._ledger.positions(name).items()
            if not source.startswith(POSITION_PREFIX)
        }
        ends = [(place.sequence + 1, new_tag()) for place in cursor.places]
        now_ms = self._clock().now_ms
        return _Board(ledger, ledger.definition.rules(), cursor.uid, positions, ends, now_ms)


def windows_without_entries(rules: Rules) -> tuple[str, ...]:
    """Return the windows, and rankings by a label, that a ledger does not have."""
    recorded = {rules.specs[index].window for index in rules.recorded}
    windows = [name for name in rules.windows if name not in recorded]
    return (*windows, *[f"by {label}" for label in rules.rank_by])


class _Board(Struct, frozen=True):
    """A board of the ledger as it was when it was first read."""

    ledger: LedgerBoard
    rules: Rules
    uid: str
    positions: dict[str, str]
    ends: list[tuple[int, int]]
    created_ms: int

    def time(self, clock: CopyClock) -> int:
        """Return the time of the board: the time of the clock or, in event time, the time of the
        board's newest entry."""
        if not clock.event_time:
            return clock.now_ms
        return MIN_MS if self.ledger.newest_ms is None else self.ledger.newest_ms


def _change_cursor(board: LedgerBoard) -> ChangeCursor:
    """Return the position of the sink in the changes of a board. Raises LedgerIncomplete if the
    sink has not yet written all current entries."""
    position = board.position
    if position is None or (is_initial(position) and board.generation == 1):
        raise LedgerIncomplete(
            f"the sink {board.sink!r} has not written every current entry of the board "
            f"{board.definition.name!r}"
        )
    try:
        return decode_cursor(decode(position).changes if is_initial(position) else position)
    except InvalidCursor:  # no sink writes such a position
        return decode_cursor(f"{new_uid()}~0-0-e")


def _member_values(values: list[tuple[str, str]]) -> MemberValues:
    items = [(member_bytes(member), _json(text)) for member, text in values]
    return MemberValues([(member, data) for member, data in items if data is not None])


def _json(text: str) -> bytes | None:
    try:
        return data_bytes(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise InvalidEntry(f"expected the data of a member as JSON, got {text[:60]!r}") from error


class _Rankings:
    """Converts entries of the ledger into rows of rankings."""

    def __init__(self, rules: Rules, reader: EntryReader) -> None:
        self._rules = rules
        self._reader = reader
        self._bounds = word_bounds(rules)

    def rows(self, entries: LedgerEntries) -> RankingRows | None:
        """Return entries as rows; None if the ledger does not have the labels of their scope.
        Raises InvalidEntry, and the errors of windows, periods and labels."""
        name, period_label, scope_text = entries.name
        rules = self._rules
        window = rules.windows.get(name)
        if window is None or window.steps or window.weighing is not None:
            raise InvalidEntry(f"expected a window of the board, got {name!r}")
        labels = self._reader.labels(scope_text)
        if labels is None:
            return None
        period = window.period(period_label) if window.has_periods else window.period_at(0)
        members, lengths = _members(entries)
        return RankingRows(
            window=name,
            instance=window.instance_of(period),
            scope=scope_named(rules, labels),
            running=None,
            is_tally=False,
            members=members,
            lengths=lengths,
            columns=[pack(column) for column in self._words(entries)],
        )

    def _words(self, entries: LedgerEntries) -> Iterator["array[int]"]:
        rules = self._rules
        signed = zip(entries.scores, rules.columns, *self._bounds, strict=True)
        for units, column, low, high in signed:
            words = units if column.sign > 0 else differences(0, units)
            _ensure_within(words, low, high, "scores in the range of their columns")
            yield words
        if rules.tie:
            reached_ms = _ensure_times(entries.reached_ms, "reached_at")
            stamps = stamps_of(reached_ms, rules.resolution_ms)
            assert not isinstance(stamps, int)
            yield stamps if rules.tie > 0 else differences(0, stamps)
        if rules.is_stamped:
            yield _ensure_times(entries.last_ms, "last_at")


def _members(entries: LedgerEntries) -> tuple[bytes, bytes]:
    """Return the concatenated members and their lengths in the form of a store. Raises
    InvalidEntry."""
    members, lengths = entries.members, list(entries.lengths)
    if b"\\" in members:
        ends = list(accumulate(lengths))
        texts = [members[end - size : end] for end, size in zip(ends, lengths, strict=True)]
        originals = [unescape(text.decode()).encode() for text in texts]
        members, lengths = b"".join(originals), list(map(len, originals))
    if not 0 < min(lengths) <= max(lengths) <= MAX_ID_BYTES:
        raise InvalidEntry("expected members of 1 to 128 bytes")
    return members, bytes(lengths)


def _ensure_times(times: "array[int] | None", column: str) -> "array[int]":
    if times is None:
        raise InvalidEntry(f"expected a time in {column}, got NULL")
    _ensure_within(times, MIN_MS, MAX_MS, f"times in {column}")
    return times


def _ensure_within(words: "array[int]", low: int, high: int, expected: str) -> None:
    least, most = bounds(words)
    if least < low or most > high:
        raise InvalidEntry(f"expected {expected}, got {least if least < low else most}")
