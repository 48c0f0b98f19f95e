"""Turns events into the form in which they are sent to a service.

This module makes all checks of an event that do not depend on its board, by the functions that
every store uses. The service makes the other checks. Values are sent with all their digits.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.model.event import at_ms, event_fields, id_bytes, member_bytes, member_of
from laurels.model.labels import ensure_label_form
from laurels.model.measures import any_measures
from laurels.model.score import Number, any_number

SentValue = Number | str | list[Number | str] | dict[str, Number | str]


class SubmittedEvent(Struct, omit_defaults=True):
    """An event in the body of a request."""

    member: str
    value: SentValue
    at: int | None = None
    id: str | None = None
    labels: object = None


class EventBatch(Struct):
    """The events of a batch in order. An event that was refused here is None in `events`; `errors`
    and `members` have its error and its member, by position."""

    events: list[SubmittedEvent | None]
    errors: dict[int, LaurelsError]
    members: dict[int, str | None]

    @property
    def is_repeatable(self) -> bool:
        """Whether the batch counts once even if it is sent twice, since every event has an id."""
        return all(event is None or event.id is not None for event in self.events)

    def parts(self, size: int) -> list[list[SubmittedEvent | None]]:
        """Return the events in parts of at most `size`; an empty batch has one empty part."""
        starts = range(0, max(1, len(self.events)), size)
        return [self.events[first : first + size] for first in starts]


def batch(items: list[Any], key: str | None) -> EventBatch:
    """Return the events of a batch. An event without an id gets one that is derived from the batch
    key.

    Raises InvalidId, IdEmpty, IdTooLong, IdNotUtf8 for an invalid key.
    """
    id_bytes(key)
    read = EventBatch([], {}, {})
    for i, each in enumerate(items):
        default_id = None if key is None else f"{key}#{i}"
        id_bytes(default_id)
        try:
            read.events.append(event(*event_fields(each), default_id=default_id))
        except LaurelsError as error:
            read.events.append(None)
            read.errors[i], read.members[i] = error, member_of(each)
    return read


def event(
    member: object,
    value: object,
    at: object,
    id: object,
    labels: object = None,
    default_id: str | None = None,
) -> SubmittedEvent:
    """Return an event in the form that is sent. If it has no id, it gets the id `default_id`. Raise
    an error if every board would refuse the event."""
    sent = SubmittedEvent(member_text(member), values(value), at_ms(at))
    named = id_bytes(id)
    sent.id = default_id if named is None else named.decode()
    sent.labels = event_labels(labels)
    return sent


def event_labels(labels: object) -> object:
    """Return the labels of an event as a value for JSON. Raises InvalidLabel for labels that cannot
    be written as JSON. The service validates them further, since it knows the labels of the
    board."""
    ensure_label_form(labels)
    if not isinstance(labels, Mapping):
        return labels
    return {str(label): value for label, value in labels.items()}


def member_text(member: object) -> str:
    """Return a member's id as text. Raises the errors of `event.member_bytes`."""
    return member_bytes(member).decode()


def values(value: object) -> SentValue:
    """Return the value of an event as a value for JSON. Raises InvalidValue, NotFinite,
    ValueOutOfRange."""
    if isinstance(value, Mapping):
        return any_measures(value)
    return (
        [any_number(each) for each in value]
        if isinstance(value, (tuple, list))
        else any_number(value)
    )
