"""Events as they are sent to a service.

What can be judged of an event alone is judged here, by the functions that judge it everywhere; the
rest is left to the service, which gets it digit for digit.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.model.event import at_ms, event_fields, id_bytes, member_bytes, member_of
from laurels.model.labels import ensure_label_form
from laurels.model.score import Number, any_number

SentValue = Number | str | list[Number | str]


class SubmittedEvent(Struct, omit_defaults=True):
    """An event in a body."""

    member: str
    value: SentValue
    at: int | None = None
    id: str | None = None
    labels: object = None


class EventBatch(Struct):
    """The events of a batch in their order, None for one refused here; why, and whose it is."""

    events: list[SubmittedEvent | None]
    refusals: dict[int, LaurelsError]
    members: dict[int, str | None]

    @property
    def repeats(self) -> bool:
        """Whether being sent twice counts once: every event has an id."""
        return all(event is None or event.id is not None for event in self.events)

    def parts(self, size: int) -> list[list[SubmittedEvent | None]]:
        """The events in bodies of at most that many; an empty batch is one, too."""
        firsts = range(0, max(1, len(self.events)), size)
        return [self.events[first : first + size] for first in firsts]


def batch(given: list[Any], key: str | None) -> EventBatch:
    """The events of a batch; those without an id get the one that the batch key stands for.

    Raises InvalidId, IdEmpty, IdTooLong, IdNotUtf8 for a key that makes no ids.
    """
    id_bytes(key)
    read = EventBatch([], {}, {})
    for i, each in enumerate(given):
        spare = None if key is None else f"{key}#{i}"
        id_bytes(spare)
        try:
            read.events.append(event(*event_fields(each), spare=spare))
        except LaurelsError as error:
            read.events.append(None)
            read.refusals[i], read.members[i] = error, member_of(each)
    return read


def event(
    member: object,
    value: object,
    at: object,
    id: object,
    labels: object = None,
    spare: str | None = None,
) -> SubmittedEvent:
    """One event; raises what refuses it whatever the board."""
    sent = SubmittedEvent(member_text(member), values(value), at_ms(at))
    named = id_bytes(id)
    sent.id = spare if named is None else named.decode()
    sent.labels = event_labels(labels)
    return sent


def event_labels(labels: object) -> object:
    """What an event carries as labels, as JSON has it: the server judges them, as it knows those of
    the board. InvalidLabel for what has no form there."""
    ensure_label_form(labels)
    if not isinstance(labels, Mapping):
        return labels
    return {str(label): value for label, value in labels.items()}


def member_text(member: object) -> str:
    """A member id; raises as `event.member_bytes`."""
    return member_bytes(member).decode()


def values(value: object) -> SentValue:
    """A score as JSON writes it. Raises InvalidValue, NotFinite, ValueOutOfRange."""
    return (
        [any_number(each) for each in value]
        if isinstance(value, (tuple, list))
        else any_number(value)
    )
