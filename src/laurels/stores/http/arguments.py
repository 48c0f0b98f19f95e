"""What a caller gave, as it is written to a server.

What can be judged of an argument alone is judged here, by the functions that judge it everywhere;
the rest is left to the server, which gets it digit for digit.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from laurels.core.between import Bound
from laurels.errors import (
    InvalidLabel,
    InvalidPercentile,
    InvalidRange,
    InvalidValue,
    LaurelsError,
    NotFinite,
    UnknownBoard,
    UnknownScope,
    UnknownWindow,
    ValueOutOfRange,
)
from laurels.errors.service import InvalidQuery
from laurels.model.event import at_ms, event_fields, id_bytes, member_bytes, member_of
from laurels.model.labels import label_texts, label_value, scope_labels
from laurels.model.score import LIMIT
from laurels.model.validation import integer, is_name, is_unicode, safe_repr
from laurels.wire.requests import scope_written

Number = int | Decimal | str
_DIGITS = len(str(LIMIT))
ALL_WINDOWS = "*"


class SubmittedEvent(Struct, omit_defaults=True):
    """An event in a body."""

    member: str
    value: Number | list[Number]
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
    sent.labels = event_labels(labels)
    named = id_bytes(id)
    sent.id = spare if named is None else named.decode()
    return sent


def event_labels(labels: object) -> object:
    """What an event carries as labels, as JSON has it: the server judges them, as it knows those of
    the board. InvalidLabel for what has no form there."""
    if not isinstance(labels, Mapping):
        return _said(labels)
    return {str(_said(label)): _said(value) for label, value in labels.items()}


def _said(part: object) -> object:
    if part is None or isinstance(part, int | float | list | tuple):
        return part
    if isinstance(part, str) and is_unicode(part):
        return part
    raise InvalidLabel(f"{safe_repr(part)} is no label: give names and values as text")


def member_text(member: object) -> str:
    """A member id; raises as `event.member_bytes`."""
    return member_bytes(member).decode()


def values(value: object) -> Number | list[Number]:
    """A score as JSON writes it. Raises InvalidValue, NotFinite, ValueOutOfRange."""
    return [number(each) for each in value] if isinstance(value, (tuple, list)) else number(value)


def number(value: object) -> Number:
    """An exact number; text is left as it is, for the column to judge."""
    if (count := integer(value)) is not None:
        if not -LIMIT <= count <= LIMIT:
            raise ValueOutOfRange(f"{safe_repr(value)} is outside the range of any column")
        return count
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise NotFinite(f"{safe_repr(value)} is no score")
        if value and value.adjusted() > _DIGITS:
            raise ValueOutOfRange(f"{safe_repr(value)} is outside the range of any column")
        return value
    if isinstance(value, str) and is_unicode(value):
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        raise NotFinite(f"{value} is no score")
    raise InvalidValue(f"{safe_repr(value)} is no exact number")


def bound(given: Bound | None) -> str | None:
    """An end of a range, as text. Raises InvalidRange, and as `number`."""
    if given is None:
        return None
    parts = given if isinstance(given, (tuple, list)) else (given,)
    if not parts:
        raise InvalidRange("() has no part")
    texts = [str(number(part)) for part in parts]
    if any("," in text for text in texts):
        raise InvalidValue(f"{safe_repr(given)} is no decimal number")
    return ",".join(texts)


def percent(given: object) -> str:
    """A percentile, as text. Raises InvalidPercentile."""
    if (count := integer(given)) is not None:
        return str(count)
    if isinstance(given, (float, Decimal, str)):
        return str(given)
    raise InvalidPercentile(f"{safe_repr(given)} is not within 0 to 100")


def window_name(window: str | None) -> str | None:
    """A window's name: the sign for all of them is none."""
    if window == ALL_WINDOWS:
        raise UnknownWindow(f"there is no window {window!r}")
    return window


def labels_text(labels: object) -> str | None:
    """The labels of a scope, as one parameter. Raises UnknownScope where no board can have such a
    label, InvalidLabel."""
    found = scope_labels(labels)
    for name in found:
        if not name.isidentifier():
            raise UnknownScope(f"no board has a label called {safe_repr(name)}")
    return scope_written({name: label_value(name, found[name]) for name in found}) or None


def by_text(label: object) -> str | None:
    """The label that a question ranks by, as text."""
    return None if label is None else str(label)


def scope_text(scope: object) -> str | None:
    """The labels of a scope by their names, as text. Raises UnknownScope for what is no list of
    them."""
    if scope is None:
        return None
    if isinstance(scope, Sequence) and not isinstance(scope, str):
        names = [str(name) for name in scope]
        if all(map(str.isidentifier, names)):
            return ",".join(names)
    raise UnknownScope(f"there is no scope {safe_repr(scope)}: give a list of the names of labels")


def scope_after(labels: Mapping[str, str] | None) -> str | None:
    """The labels of one scope, as text. Raises InvalidLabel, UnknownScope for what is none."""
    if labels is not None and not (isinstance(labels, Mapping) and labels):
        raise UnknownScope(f"{safe_repr(labels)} is no scope to go on after")
    said = label_texts(labels)
    return None if said is None else scope_written(said)


def target(path: str, /, **query: object) -> str:
    """A path with its query: None is left out. Raises InvalidQuery for what is not Unicode."""
    said = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }
    try:
        return f"{path}?{urlencode(said)}" if said else path
    except UnicodeEncodeError as error:
        raise InvalidQuery("a parameter is not valid Unicode") from error


def board_path(board: object, *rest: str) -> str:
    """The path of a board; what cannot be the name of one is not looked for."""
    if not is_name(board):
        raise UnknownBoard(f"there is no board {safe_repr(board)}")
    return "/".join(["/v1/boards", quote(board), *rest])
