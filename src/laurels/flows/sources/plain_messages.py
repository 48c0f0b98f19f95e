"""Decode the JSON of most messages directly into the parts of an event.

For a mapping whose parts are top-level fields, a type with these fields is generated, and the
decoder fills it without creating an object of the whole message. It accepts only simple values:
text for names and ids, an integer for the value. All other messages are left to the mapping, which
has the rules and their errors; a test compares the two.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

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


def plain_decoder(mapping: EventMapping) -> Callable[[bytes], PlainMessage] | None:
    """Return a decoder for messages with simple parts, None if the mapping needs more. The decoder
    raises MsgspecError for all other messages."""
    parts = {"board": mapping.board, "member": mapping.member, "at": mapping.at}
    parts |= {"id": mapping.id, "labels": mapping.labels}
    used = {name: each for name, each in parts.items() if each is not None}
    if mapping.label or len(mapping.values) != 1:
        return None
    used["value"] = mapping.values[0]
    names = {part: each.plain for part, each in used.items()}
    if not all(names.values()) or SUBJECT in names.values():
        return None
    if len(set(names.values())) < len(names):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("board", str),
        ("member", str),
        ("value", int),
    ]
    absent: dict[str, None] = {}
    for part, kind in (("at", int), ("id", str), ("labels", dict[str, str])):
        if part not in used:
            absent[part] = None
        elif used[part].optional:
            fields.append((part, kind | None, None))
        else:
            fields.append((part, kind))
    made: Any = msgspec.defstruct("PlainMessage", fields, rename=names, namespace=absent, gc=False)
    decoder: msgspec.json.Decoder[PlainMessage] = msgspec.json.Decoder(made)
    return decoder.decode


class EventParser:
    """Converts messages to events by a mapping: with its plain decoder if it has one, else with the
    mapping itself."""

    def __init__(self, mapping: EventMapping) -> None:
        self._mapping = mapping
        self._decode = plain_decoder(mapping)
        self._unit = "" if mapping.at is None else mapping.at.modifier
        self._needs_id = mapping.id is not None and not mapping.id.optional

    def plain(self, message: Message) -> PlainMessage | None:
        """Return the parts of a message; None if the mapping has to read it."""
        raw = message.raw
        if self._decode is None or message.fields is not None or len(raw) > MESSAGE_LIMIT:
            return None
        try:
            if not raw.isascii():
                raw.decode()
            return self._decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def event(self, message: PlainMessage, taken_ms: int | None) -> MappedEvent:
        """Return the event of a message that the stream took at `taken_ms`. Raises InvalidAt."""
        labels = message.labels
        if labels:
            labels = {name: text for name, text in labels.items() if text}
        return (
            message.member,
            message.value,
            taken_ms if message.at is None else instant(message.at, self._unit),
            message.id or (message.id if self._needs_id else None),
            labels or None,
        )
