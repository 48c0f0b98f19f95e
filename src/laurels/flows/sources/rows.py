"""The messages of a batch with their events, divided by board."""

from collections.abc import Callable, Mapping, Sequence

from laurels.errors import LaurelsError

from .mapping import EventMapping, Fields, ForeignMessage, MappedEvent, fields_of
from .metrics import SourceMetrics
from .outcomes import MessageOutcomes, Row
from .plain_messages import EventParser
from .reader import ZERO, Message, StreamPosition
from .rejects import NoRejects
from .settings import SourceSettings


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
    ) -> dict[str, list[Row]]:
        """Return the messages with their events, grouped by board. Malformed messages are rejected;
        messages at or before the position of their board are left out and counted as repeated,
        those for boards that the source does not feed as foreign."""
        rows: dict[str, list[Row]] = {}
        board_positions: dict[str, StreamPosition | None] = {}
        # The rows of each board for which an earlier message of this batch was after the board's
        # position. All further messages for such a board are after this position, too, so a plain
        # message with only a member and a value is added without a check.
        past_position: dict[str, list[Row]] = {}
        now_ms = self._now_ms()
        malformed = []
        for message, plain in zip(messages, self._parser.decode(messages), strict=True):
            taken_ms = message.at_ms
            arrived_ms = taken_ms if taken_ms is None or taken_ms <= now_ms else now_ms
            if (
                plain is not None
                and (board_rows := past_position.get(plain.board)) is not None
                and plain.at is None
                and plain.id is None
                and plain.labels is None
            ):
                event: MappedEvent = (plain.member, plain.value, arrived_ms, None, None)
                board_rows.append(Row(message, event, arrived_ms))
                continue
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
                    rows[board] = []
                position = board_positions[board]
                if position is None:
                    outcomes.metrics.foreign += 1
                    continue
                if message.position <= position:
                    outcomes.metrics.repeated += 1
                    continue
                past_position[board] = rows[board]
                if plain is None:
                    event = self._mapping.event_of(fields, arrived_ms)
                else:
                    event = self._parser.event(plain, arrived_ms)
            except ForeignMessage:
                outcomes.metrics.foreign += 1
            except LaurelsError as error:
                malformed.append((message, board, error))
            else:
                rows[board].append(Row(message, event, arrived_ms))
        outcomes.reject(malformed)
        return {board: board_rows for board, board_rows in rows.items() if board_rows}

    def rows_of(
        self, board: str, messages: Sequence[Message], positions: Mapping[str, StreamPosition]
    ) -> list[Row]:
        """Return the messages for one board after its position, with their events. Outcomes are not
        counted, since these messages were read before."""
        uncounted = MessageOutcomes(self._settings.name, SourceMetrics(), NoRejects())
        return self.rows_by_board(messages, positions, uncounted).get(board, [])
