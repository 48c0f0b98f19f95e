"""Reads a stream and counts its messages on boards, each once.

The runner reads a batch of messages, divides it by board, and submits the events of each board
together with the position of the batch, in one commit. Messages at or before the position of a
board are skipped when they are read again, so it does not matter where a run ended or how batches
were divided.

Reading begins after the lowest position of all boards that the source may feed; for a board without
a position, at the beginning of the stream. The positions of boards that get few messages are moved
forward from time to time, so that they do not hold the others back.

A board in several shards may have counted a batch in part: the same batch is then sent again
(`PositionDiffers` names its end).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.receipt import Receipts
from laurels.errors import (
    BatchRefused,
    LaurelsError,
    PositionDiffers,
    TooLarge,
    UnknownBoard,
)
from laurels.errors.sources import SourceDiverged, SourceExpired
from laurels.flows.retries import FlowRetryPolicy, Sleep

from .arrivals import EndingWindows, alike, refused_from
from .commits import Commits
from .dedupe_room import DedupeRoom
from .figures import Figures
from .mapping import EventMapping, Foreign, MappedEvent, fields_of
from .plain_messages import EventParser
from .progress import Progress, StreamPlace
from .read_ahead import ReadAhead
from .reader import (
    ZERO,
    Message,
    StoredPosition,
    StreamPosition,
    StreamReader,
    StreamState,
    decode_position,
)
from .rejects import NoRejects, Rejects, refusal, reject
from .settings import SourceSettings
from .stopping import Stopped, StopSignal

T = TypeVar("T")

ADVANCE_EVERY = 100
"""The number of batches after which the positions of boards without events are moved forward."""
IDLE_READS = 60
"""The number of reads without messages, about a second each, after which they are moved as well."""
ADVANCED_AT_ONCE = 64
"""The number of boards whose positions are moved at the same time."""
BOARDS_AT_ONCE = 64
"""The number of boards to which events of a batch are submitted at the same time."""
ON_LOOP = 1_000
"""The most messages that are mapped on the event loop; more are mapped in a thread."""
_ASKED_SINGLY = 16
"""The most unknown boards that are looked up one by one."""


class Row(Struct, frozen=True, gc=False):
    """A message and its event."""

    message: Message
    event: MappedEvent
    arrived_ms: int | None
    """The time at which the stream took the message, never after now; None if the stream has no
    times."""


class SourceRunner:
    """One run of a source: `run` carries it out, `stop` ends it after the commit in progress."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        reader: StreamReader,
        mapping: EventMapping,
        settings: SourceSettings,
        *,
        rejects: Rejects,
        sleep: Sleep,
        now_ms: Callable[[], int],
        waiting: Callable[[LaurelsError, float], None] = lambda _error, _seconds: None,
        progress: Callable[[Figures], None] = lambda _figures: None,
    ) -> None:
        self.figures = Figures()
        self._lb = lb
        self._reader = reader
        self._mapping = mapping
        self._parser = EventParser(mapping)
        self._settings = settings
        self._rejects = rejects
        self._now_ms = now_ms
        self._show_progress = progress
        self._stopping = StopSignal()
        self._retries = FlowRetryPolicy(self._stopping.pausing(sleep), waiting)
        self._positions: dict[str, StreamPosition] = {}
        self._commits = Commits(lb, settings.key, self._retries)
        self._room = DedupeRoom(lb)
        self._windows = EndingWindows(lb, now_ms)
        self._progress = Progress(reader, now_ms)
        self._ahead = ReadAhead(reader, settings.batch)
        self._idle = 0
        self._stream = ""

    def stop(self) -> None:
        """End the run: immediately while it waits, otherwise after the commit in progress."""
        self._stopping.request()

    async def run(self) -> None:
        """Count messages until the source ends or is stopped."""
        try:
            await self._begin()
            is_last = False
            while not self._stopping.wanted:
                is_due = is_last or self._progress.is_note_due(len(self._positions))
                time_ms = await self._retries.call(self._reader.time_ms) if is_due else None
                messages = await self._next()
                if len(messages) == self._settings.batch and self._reader.resumes:
                    self._ahead.begin(messages[-1].position)
                await self._count(messages)
                if not messages:
                    self._move(self._progress.place_after(self._progress.at, time_ms))
                    if self._reader.ended or is_last:
                        break
                    is_last = self._settings.until_end
                if is_due:
                    await self._note_time()
            await self._note_time()
            await self._advance(most=len(self._positions))
        except Stopped:
            pass
        finally:
            await self._ahead.drop()

    # The beginning of a run

    async def _begin(self) -> None:
        state = await self._retries.call(self._reader.open)
        self._stream = state.identity
        boards = await self._retries.call(self._lb.boards)
        self._windows.know(boards)
        names = [board.name for board in boards if self._settings.takes(board.name)]
        for first in range(0, len(names), BOARDS_AT_ONCE):
            share = names[first : first + BOARDS_AT_ONCE]
            await _all(self._learn(board, state) for board in share)
        starts = self._positions.values()
        newest = state.newest if self._settings.begin == "now" else ZERO
        self._progress.at = min(starts, default=newest)
        self._move(self._progress.place)

    async def _learn(self, board: str, state: StreamState) -> None:
        self._positions[board] = await self._first_position(board, state)

    async def _first_position(self, board: str, state: StreamState) -> StreamPosition:
        """Return the position after which a board begins to count."""
        stored = await self._stored(board)
        begin = self._settings.begin
        why: LaurelsError | None = None
        if stored is not None and self._reader.resumes:
            if (misfit := self._reader.misfit(stored)) is not None:
                why = SourceDiverged(
                    f"{self._reader.name} is not the stream that {board!r} counted: {misfit}"
                )
            elif self._reader.is_expired(stored):
                why = SourceExpired(
                    f"{self._reader.name} no longer keeps all after {stored.at}, which {board!r} "
                    "counted last"
                )
            else:
                return stored.position
        if why is not None and begin is None:
            raise why
        if isinstance(why, SourceExpired) and begin == "start" and stored is not None:
            return stored.position
        first = state.newest if begin == "now" else ZERO
        if stored is not None or begin == "now":
            await self._reset(board, first)
        return first

    async def _stored(self, board: str) -> StoredPosition | None:
        text = await self._commits.learn(board)
        return None if text is None else decode_position(text)

    # Reading

    async def _next(self) -> Sequence[Message]:
        wait = not self._settings.until_end
        read = partial(self._ahead.read, self._progress.at, wait=wait)

        async def attempt() -> Sequence[Message]:
            return await self._stopping.unless(read())

        return await self._retries.call(attempt)

    async def _count(self, messages: Sequence[Message]) -> None:
        """Count a batch and move to its end."""
        if not messages:
            self._idle += 1
            if self._idle % IDLE_READS == 0:
                await self._advance(most=ADVANCED_AT_ONCE)
            return
        self.figures.read += len(messages)
        self.figures.batches += 1
        end = messages[-1].position
        if len(messages) > ON_LOOP:
            boards = await asyncio.to_thread(self._divided, messages)
        else:
            boards = self._divided(messages)
        await self._know(boards)
        known = [(board, rows) for board, rows in boards.items() if board in self._positions]
        place = self._progress.place_after(end, _latest(messages))
        for first in range(0, len(known), BOARDS_AT_ONCE):
            share = known[first : first + BOARDS_AT_ONCE]
            await _all(self._feed(board, rows, place) for board, rows in share)
        self._move(place)
        if self.figures.batches % ADVANCE_EVERY == 0:
            await self._advance(most=ADVANCED_AT_ONCE)
        self._show_progress(self.figures)

    def _divided(self, messages: Sequence[Message]) -> dict[str, list[Row]]:
        """Return the events of messages by their boards; reject and skip the others."""
        rows: dict[str, list[Row]] = {}
        positions: dict[str, StreamPosition | None] = {}
        now_ms = self._now_ms()
        malformed = []
        for message in messages:
            board: str | None = None
            try:
                plain = self._parser.plain(message)
                fields = fields_of(message) if plain is None else {}
                board = self._mapping.board_of(fields) if plain is None else plain.board
                if board not in positions:
                    takes = self._settings.takes(board)
                    positions[board] = self._positions.get(board, ZERO) if takes else None
                    rows[board] = []
                after = positions[board]
                if after is None:
                    self.figures.foreign += 1
                    continue
                if message.position <= after:
                    self.figures.repeated += 1
                    continue
                arrived_ms = message.at_ms
                if arrived_ms is not None and arrived_ms > now_ms:
                    arrived_ms = now_ms
                if plain is None:
                    event = self._mapping.event_of(fields, arrived_ms)
                else:
                    event = self._parser.event(plain, arrived_ms)
            except Foreign:
                self.figures.foreign += 1
            except LaurelsError as error:
                malformed.append((message, board, error))
            else:
                rows[board].append(Row(message, event, arrived_ms))
        self._reject(malformed)
        return {board: found for board, found in rows.items() if found}

    async def _know(self, boards: dict[str, list[Row]]) -> None:
        """Look up boards that are new to this run; skip and count the messages for boards that do
        not exist."""
        new = [board for board in boards if board not in self._positions]
        if not new:
            return
        if len(new) > _ASKED_SINGLY:
            there = {board.name for board in await self._retries.call(self._lb.boards)}
        else:
            there = {board for board in new if await self._is_there(board)}
        for board in new:
            if board in there:
                stored = await self._stored(board)
                fits = stored is not None and self._reader.misfit(stored) is None
                self._positions[board] = stored.position if stored is not None and fits else ZERO
                boards[board] = self._after(boards[board], self._positions[board])
            else:
                self.figures.skip_unknown(board, len(boards[board]))

    async def _is_there(self, board: str) -> bool:
        try:
            await self._retries.call(partial(self._lb.get, board))
        except LaurelsError as error:
            if error.status != UnknownBoard.status and error.status != 400:
                raise
            return False
        return True

    def _after(self, rows: list[Row], position: StreamPosition) -> list[Row]:
        """Return the rows after a position; count the others as repeated."""
        rest = [row for row in rows if row.message.position > position]
        self.figures.repeated += len(rows) - len(rest)
        return rest

    # Counting

    async def _feed(self, board: str, rows: list[Row], end: StreamPlace) -> None:
        """Submit the events of a board, with the end of the batch as its position; a commit has
        only events that every window judges in the same way."""
        try:
            windows = await self._retries.call(partial(self._windows.of, board))
        except UnknownBoard:
            windows = ()  # the commit detects that as well
        *firsts, last = alike(windows, rows) or [rows]
        for part in firsts:
            await self._feed_alike(board, list(part), _place_of(part[-1]))
        await self._feed_alike(board, list(last), end)

    async def _feed_alike(self, board: str, rows: list[Row], end: StreamPlace) -> None:
        """Submit events of a board that every window judges in the same way."""
        if rows and not await self._retries.call(partial(self._room.fits, board, rows)):
            for row in rows:
                await self._feed_one(board, row)
            return
        while rows:
            try:
                receipts = await self._submitted(board, rows, self._text(board, end))
            except TooLarge:
                if len(rows) == 1:
                    raise
                half = len(rows) // 2
                await self._feed_alike(board, rows[:half], _place_of(rows[half - 1]))
                rows = rows[half:]
            except PositionDiffers as error:
                rows = self._after(rows, await self._finish(board, error))
            except UnknownBoard:  # deleted meanwhile
                self._forget(board)
                self.figures.skip_unknown(board, len(rows))
                return
            else:
                self._positions[board] = end.position
                self._note(board, rows, receipts)
                return

    async def _feed_one(self, board: str, row: Row) -> None:
        """Submit one event to a board that may have no room for its id; if it is refused for that
        reason, submit it again until the board has forgotten other ids."""
        end = _place_of(row)

        async def attempt() -> None:
            try:
                receipts = await self._submitted(board, [row], self._text(board, end), whole=True)
            except BatchRefused as refused:
                error = refused.receipts.error(0) or refused
                if error.retryable:
                    raise error from refused
                self._reject([(row.message, board, error)])
                await self._commit_position(board, end)
            else:
                self._note(board, [row], receipts)
                self._positions[board] = end.position

        await self._retries.call(attempt)

    async def _submitted(
        self, board: str, rows: Sequence[Row], text: str, *, whole: bool = False
    ) -> Receipts | None:
        """Submit the events of rows that every window judges in the same way; see
        `Commits.submit`."""
        arrived_ms = rows[0].arrived_ms if rows else None
        events = [row.event for row in rows]
        return await self._commits.submit(board, events, text, arrived_ms=arrived_ms, whole=whole)

    def _forget(self, board: str) -> None:
        """Forget a board that was deleted."""
        self._positions.pop(board, None)
        self._commits.forget(board)
        self._windows.forget(board)

    async def _finish(self, board: str, error: PositionDiffers) -> StreamPosition:
        """Send a batch that some shards of a board have counted again, divided as before."""
        if error.ends_at is None:
            raise error
        await self._ahead.drop()
        end = decode_position(error.ends_at).position
        rows: list[Row] = []
        at = self._positions[board]
        while at < end:
            read = partial(self._reader.read, at, self._settings.batch, wait=False)
            messages = await self._retries.call(read)
            messages = [message for message in messages if message.position <= end]
            if not messages:
                break
            at = messages[-1].position
            rows += self._rows_of(board, messages)
        receipts = await self._submitted(board, rows, error.ends_at)
        self._positions[board] = end
        self._note(board, rows, receipts)
        return end

    def _rows_of(self, board: str, messages: Sequence[Message]) -> list[Row]:
        """Return the events of messages for one board."""
        figures, self.figures = self.figures, Figures()
        rejects, self._rejects = self._rejects, NoRejects()
        try:
            return self._divided(messages).get(board, [])
        finally:
            self.figures, self._rejects = figures, rejects

    def _note(self, board: str, rows: Sequence[Row], receipts: Receipts | None) -> None:
        """Count the outcomes of events; write those that the board refused to the rejects."""
        figures = self.figures
        if receipts is None:
            figures.repeated += len(rows)
            return
        figures.applied += receipts.applied
        figures.unchanged += receipts.unchanged
        figures.duplicates += receipts.duplicates
        figures.late.update(receipts.late)
        if receipts.refused:
            errors = [(row.message, board, receipts.error(i)) for i, row in enumerate(rows)]
            self._reject([(m, b, error) for m, b, error in errors if error is not None])

    def _reject(self, rejects: Sequence[tuple[Message, str | None, LaurelsError]]) -> None:
        lines = []
        for message, board, error in rejects:
            code, why = refusal(error)
            self.figures.reasons[code] += 1
            lines.append(reject(self._settings.name, self._stream, message, board, code, why))
        self._rejects.write(lines)

    # Moving positions

    async def _advance(self, *, most: int) -> None:
        """Move forward the positions of boards without events for a long time, at most `most` of
        them."""
        if not self._reader.resumes:
            return
        behind = sorted(
            (position, board)
            for board, position in self._positions.items()
            if position < self._progress.at
        )
        for _, board in behind[:most]:
            await self._commit_position(board, self._progress.place)

    def _move(self, place: StreamPlace) -> None:
        """Move forward to a place in the stream."""
        self._progress.move(place)
        self.figures.position, self.figures.passed_ms = str(place.position), place.passed_ms

    async def _note_time(self) -> None:
        """Report how far the stream was counted to boards whose periods or steps may become final
        by it."""
        self._progress.note()
        place = self._progress.place
        if not self._reader.resumes or place.passed_ms is None:
            return
        await self._retries.call(self._windows.refresh)
        until_ms = place.passed_ms
        due = [board for board in list(self._positions) if await self._waits_for(board, until_ms)]
        for first in range(0, len(due), BOARDS_AT_ONCE):
            share = due[first : first + BOARDS_AT_ONCE]
            await _all(self._commit_position(board, place) for board in share)

    async def _waits_for(self, board: str, until_ms: int) -> bool:
        """Return whether a window of a board may wait for the source to pass a time."""
        try:
            windows = await self._retries.call(partial(self._windows.of, board))
        except UnknownBoard:
            self._forget(board)
            return False
        passed_ms = self._commits.passed_ms(board)
        if passed_ms is None:
            return bool(windows)
        return refused_from(windows, passed_ms) <= until_ms

    async def _commit_position(self, board: str, end: StreamPlace) -> None:
        """Move the position of a board without counting anything."""
        try:
            await self._submitted(board, (), self._text(board, end))
        except UnknownBoard:
            self._forget(board)
        except PositionDiffers as error:
            await self._finish(board, error)
        else:
            self._positions[board] = end.position

    async def _reset(self, board: str, position: StreamPosition) -> None:
        """Move the position of a board to another stream; events of a last batch that some shards
        have counted remain counted."""
        text = self._text(board, StreamPlace(position, None))
        try:
            await self._submitted(board, (), text)
        except PositionDiffers as error:
            if error.ends_at is None:
                raise
            await self._submitted(board, (), error.ends_at)
            await self._submitted(board, (), text)

    def _text(self, board: str, end: StreamPlace) -> str:
        return self._progress.text(end, self._commits.passed_ms(board))


def _place_of(row: Row) -> StreamPlace:
    return StreamPlace(row.message.position, row.arrived_ms)


def _latest(messages: Sequence[Message]) -> int | None:
    """Return the time at which the last of some messages was taken, None if the stream has no
    times."""
    return max((each.at_ms for each in messages if each.at_ms is not None), default=None)


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all calls; then raise the first error, if any."""
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
