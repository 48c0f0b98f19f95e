"""The messages of a batch, and the events of one board among them, in columns.

Most messages are only decoded and counted. So the objects `Message` and `Row` are made only when
one is needed, for example for a reject.
"""

from collections.abc import Callable, Sequence
from typing import overload

from msgspec import Struct

from .mapping import MappedEvent
from .reader import Message


class MessageBatch(Sequence[Message]):
    """Messages of a stream in order. `raws` has the content of each, and `times` the time at which
    the stream took it. `message` makes a message from its index."""

    def __init__(
        self,
        raws: Sequence[bytes],
        times: Sequence[int | None],
        message: Callable[[int], Message],
        *,
        have_fields: bool = False,
    ) -> None:
        self.raws = raws
        self.times = times
        self.have_fields = have_fields
        """Whether any of the messages consists of fields, so that its `raw` is not the message."""
        self._message = message

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "MessageBatch":
        """Return a batch with these messages."""
        if isinstance(messages, MessageBatch):
            return messages
        return cls(
            [message.raw for message in messages],
            [message.at_ms for message in messages],
            messages.__getitem__,
            have_fields=any(message.fields is not None for message in messages),
        )

    def __len__(self) -> int:
        return len(self.raws)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        indexes = range(len(self.raws))[at]
        if isinstance(indexes, range):
            return [self._message(index) for index in indexes]
        return self._message(indexes)


class Row(Struct, frozen=True, gc=False):
    """A message and its event."""

    message: Message
    event: MappedEvent
    arrived_ms: int | None
    """The time at which the stream took the message, or the current time if that is earlier; None
    if the stream has no times."""


class EventRows(Sequence[Row]):
    """Events of one board with their messages, in the order of the stream. For each row, `events`
    has the event, `arrived_ms` its time of arrival, and `indexes` the index of its message in
    `batch`."""

    def __init__(
        self,
        batch: MessageBatch,
        indexes: Sequence[int],
        events: Sequence[MappedEvent],
        arrived_ms: Sequence[int | None],
    ) -> None:
        self.events = events
        self.arrived_ms = arrived_ms
        self._batch = batch
        self._indexes = indexes

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> "EventRows": ...
    def __getitem__(self, at: int | slice) -> "Row | EventRows":
        if isinstance(at, slice):
            return EventRows(self._batch, self._indexes[at], self.events[at], self.arrived_ms[at])
        return Row(self._batch[self._indexes[at]], self.events[at], self.arrived_ms[at])
