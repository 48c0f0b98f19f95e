"""The messages of a batch with their events, divided by board."""

from collections.abc import Callable, Mapping, Sequence

from laurels.errors import LaurelsError

from .batches import EventRows, MessageBatch
from .mapping import EventMapping, Fields, ForeignMessage, MappedEvent, fields_of
from .metrics import SourceMetrics
from .outcomes import MessageOutcomes
from .plain_messages import EventParser, PlainMessage
from .reader import ZERO, Message, StreamPosition
from .rejects import NoRejects
from .settings import SourceSettings


class _BoardRows:
    """The rows of one board, while a batch is divided."""

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.events: list[MappedEvent] = []
        self.arrived_ms: list[int | None] = []

    def add(self, index: int, event: MappedEvent, arrived_ms: int | None) -> None:
        self.indexes.append(index)
        self.events.append(event)
        self.arrived_ms.append(arrived_ms)


class RowReader:
    """Converts messages to rows, by the mapping of a source."""

    def __init__(
        self, mapping: EventMapping, settings: SourceSettings, now_ms: Callable[[], int]
    ) -> None:
        self._mapping = mapping
        self._parser = EventParser(mapping)
        self._settings = settings
        self._now_ms = now_ms

    def rows_by_board(
        self,
        messages: Sequence[Message],
        positions: Mapping[str, StreamPosition],
        outcomes: MessageOutcomes,
    ) -> dict[str, EventRows]:
        """Return the messages with their events, grouped by board. Malformed messages are rejected.
        Two kinds of messages are left out: those at or before the position of their board are
        counted as repeated, and those for boards that the source does not feed as foreign."""
        batch = MessageBatch.of(messages)
        plains, arrived_ms = self._parser.decode(batch), self._arrived_ms(batch)
        rows = self._rows_of_one_board(batch, plains, arrived_ms, positions)
        return (
            self._divided(batch, plains, arrived_ms, positions, outcomes) if rows is None else rows
        )

    def _arrived_ms(self, batch: MessageBatch) -> Sequence[int | None]:
        """Return the times of arrival, none later than now."""
        now_ms = self._now_ms()
        if max([each for each in batch.times if each is not None], default=now_ms) <= now_ms:
            return batch.times
        return [each if each is None or each <= now_ms else now_ms for each in batch.times]

    def _rows_of_one_board(
        self,
        batch: MessageBatch,
        plains: Sequence[PlainMessage | None],
        arrived_ms: Sequence[int | None],
        positions: Mapping[str, StreamPosition],
    ) -> dict[str, EventRows] | None:
        """Return the rows if all messages are for one board, are after its position, and have only
        a member and a value; then no message has to be checked by itself. Otherwise return None."""
        first = plains[0] if plains else None
        last = plains[-1] if plains else None
        if first is None or last is None or last.board != first.board:
            return None
        board = first.board
        if not self._settings.feeds(board) or batch[0].position <= positions.get(board, ZERO):
            return None
        events: list[MappedEvent] = [
            (plain.member, plain.value, at_ms, None, None)
            for plain, at_ms in zip(plains, arrived_ms, strict=True)
            if plain is not None
            and plain.board == board
            and plain.at is None
            and plain.id is None
            and plain.labels is None
        ]
        if len(events) < len(batch):
            return None
        return {board: EventRows(batch, range(len(batch)), events, arrived_ms)}

    def _divided(
        self,
        batch: MessageBatch,
        plains: Sequence[PlainMessage | None],
        arrived_ms: Sequence[int | None],
        positions: Mapping[str, StreamPosition],
        outcomes: MessageOutcomes,
    ) -> dict[str, EventRows]:
        rows: dict[str, _BoardRows] = {}
        board_positions: dict[str, StreamPosition | None] = {}
        # Boards for which this batch already had a message after the board's position, with their
        # rows. All further messages for such a board are after its position, too, so a plain
        # message with only a member and a value is added without a check.
        past_position: dict[str, _BoardRows] = {}
        malformed = []
        for index, (plain, at_ms) in enumerate(zip(plains, arrived_ms, strict=True)):
            if (
                plain is not None
                and (board_rows := past_position.get(plain.board)) is not None
                and plain.at is None
                and plain.id is None
                and plain.labels is None
            ):
                board_rows.add(index, (plain.member, plain.value, at_ms, None, None), at_ms)
                continue
            message = batch[index]
            board: str | None = None
            fields: Fields = {}
            try:
                if plain is None:
                    fields = fields_of(message)
                    board = self._mapping.board_of(fields)
                else:
                    board = plain.board
                if board not in board_positions:
                    feeds = self._settings.feeds(board)
                    board_positions[board] = positions.get(board, ZERO) if feeds else None
                    rows[board] = _BoardRows()
                position = board_positions[board]
                if position is None:
                    outcomes.metrics.foreign += 1
                    continue
                if message.position <= position:
                    outcomes.metrics.repeated += 1
                    continue
                past_position[board] = rows[board]
                if plain is None:
                    event = self._mapping.event_of(fields, at_ms)
                else:
                    event = self._parser.event(plain, at_ms)
            except ForeignMessage:
                outcomes.metrics.foreign += 1
            except LaurelsError as error:
                malformed.append((message, board, error))
            else:
                rows[board].add(index, event, at_ms)
        outcomes.reject(malformed)
        return {
            board: EventRows(batch, each.indexes, each.events, each.arrived_ms)
            for board, each in rows.items()
            if each.events
        }

    def rows_of(
        self, board: str, messages: Sequence[Message], positions: Mapping[str, StreamPosition]
    ) -> EventRows:
        """Return the messages for one board after its position, with their events. Outcomes are not
        counted, since these messages were read before."""
        uncounted = MessageOutcomes(self._settings.name, SourceMetrics(), NoRejects())
        none = EventRows(MessageBatch.of(()), (), (), ())
        return self.rows_by_board(messages, positions, uncounted).get(board, none)
