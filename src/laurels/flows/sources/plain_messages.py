"""Decode the JSON of most messages directly into the parts of an event.

If each part of a mapping is a top-level field, a type with just these fields is generated. A
message is decoded directly into this type, so no dict with all fields of the message is created.
The type accepts only simple values: text for names and ids, an integer for the value. All other
messages are left to `EventMapping`, which defines the rules and their errors; a test compares the
two.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from .batches import MessageBatch
from .mapping import SUBJECT, EventMapping, MappedEvent, instant
from .reader import MESSAGE_LIMIT, Message


class PlainMessage(Protocol):
    """The parts of an event, as decoded from a message."""

    board: str
    member: str
    value: int
    at: int | None
    id: str | None
    labels: dict[str, str] | None


PlainDecoder: TypeAlias = msgspec.json.Decoder[PlainMessage]


def plain_decoder(mapping: EventMapping) -> PlainDecoder | None:
    """Return a decoder for messages with simple parts; it raises MsgspecError for other messages.
    Return None if the mapping cannot be decoded in this way."""
    parts = {"board": mapping.board, "member": mapping.member, "at": mapping.at}
    parts |= {"id": mapping.id, "labels": mapping.labels}
    mapped = {name: each for name, each in parts.items() if each is not None}
    if mapping.label or len(mapping.values) != 1:
        return None
    mapped["value"] = mapping.values[0]
    names = {part: each.field_name for part, each in mapped.items()}
    if not all(names.values()) or SUBJECT in names.values():
        return None
    if len(set(names.values())) < len(names):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("board", str),
        ("member", str),
        ("value", int),
    ]
    unmapped: dict[str, None] = {}
    for part, kind in (("at", int), ("id", str), ("labels", dict[str, str])):
        if part not in mapped:
            unmapped[part] = None
        elif mapped[part].optional:
            fields.append((part, kind | None, None))
        else:
            fields.append((part, kind))
    message_type: Any = msgspec.defstruct(
        "PlainMessage", fields, rename=names, namespace=unmapped, gc=False
    )
    return msgspec.json.Decoder(message_type)


class EventParser:
    """Converts messages to events by a mapping, with the plain decoder wherever that is
    possible."""

    def __init__(self, mapping: EventMapping) -> None:
        self._mapping = mapping
        self._decoder = plain_decoder(mapping)
        self._unit = "" if mapping.at is None else mapping.at.modifier
        self._needs_id = mapping.id is not None and not mapping.id.optional

    def decode(self, messages: Sequence[Message]) -> Sequence[PlainMessage | None]:
        """Return the parts of each message, None for a message that the plain decoder does not
        accept."""
        if self._decoder is None:
            return [None] * len(messages)
        batch = MessageBatch.of(messages)
        if len(batch) > 1 and (decoded := self._decode_lines(self._decoder, batch)) is not None:
            return decoded
        return [self._decode_one(self._decoder, message) for message in messages]

    def _decode_lines(
        self, decoder: PlainDecoder, batch: MessageBatch
    ) -> Sequence[PlainMessage] | None:
        """Join the messages with line breaks, and decode all these lines in one call. Return the
        parts of the messages; None if the messages have to be decoded one by one.

        The decoder would also accept one object in several lines, or several objects in one line.
        But every line break here is between `}` and `{`, so no object extends over several lines.
        If there are also as many objects as lines, each line is one object."""
        if batch.have_fields or max(map(len, batch.raws)) > MESSAGE_LIMIT:
            return None
        lines, breaks = b"\n".join(batch.raws), len(batch) - 1
        if lines[:1] != b"{" or lines.count(b"}\n{") < breaks or lines.count(b"\n") > breaks:
            return None
        try:
            if not lines.isascii():
                lines.decode()
            decoded = decoder.decode_lines(lines)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return decoded if len(decoded) == len(batch) else None

    def _decode_one(self, decoder: PlainDecoder, message: Message) -> PlainMessage | None:
        raw = message.raw
        if message.fields is not None or len(raw) > MESSAGE_LIMIT:
            return None
        try:
            if not raw.isascii():
                raw.decode()
            return decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def event(self, message: PlainMessage, taken_ms: int | None) -> MappedEvent:
        """Return the event of a message that the stream took at `taken_ms`. Raises InvalidAt."""
        labels = message.labels
        if labels:
            labels = {name: text for name, text in labels.items() if text} or None
        at = taken_ms if message.at is None else instant(message.at, self._unit)
        id = message.id
        if not id and not self._needs_id:
            id = None
        return (message.member, message.value, at, id, labels or None)
