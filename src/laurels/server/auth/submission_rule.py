"""The rule by which a token submits for one member, and the check of an event against it."""

import hashlib
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from laurels.errors.service import Forbidden, InvalidKey
from laurels.model.event import MAX_ID_BYTES
from laurels.model.validation import safe_repr

MAX_LABELS = 16
MAX_TEXT = 256
DEFAULT_RATE = 10.0


class SubmissionRule(Struct, frozen=True):
    """A permission to submit events of one member.

    Every event gets the labels in `labels`. The labels with which an event is sent must be among
    these. Its value must be from `min` to `max`, which are decimals as texts; None means no bound.
    """

    member: str
    labels: dict[str, str] = {}
    min: str | None = None
    max: str | None = None

    def bound(self, event: Any, own_id: Callable[[str], str]) -> dict[str, Any]:
        """Return the event with the member and labels of the rule, and with its id made
        unique to the caller by `own_id`. Raise Forbidden if the event breaks the rule."""
        member, value, at, id, labels = event_fields(event)
        if member != self.member:
            raise Forbidden(
                f"the token submits for {safe_repr(self.member)}, not for {safe_repr(member)}"
            )
        if at is not None:
            raise Forbidden("the token submits events with the current time only: leave out `at`")
        if labels is not None and not _is_part(labels, self.labels):
            raise Forbidden(
                f"the token permits the labels {safe_repr(self.labels)}, got {safe_repr(labels)}"
            )
        for each in value if isinstance(value, (tuple, list)) else (value,):
            self._ensure_within(each)
        bound_event = {"member": member, "value": value}
        if id is not None:
            bound_event["id"] = _bound_id(id, own_id)
        if self.labels:
            bound_event["labels"] = dict(self.labels)
        return bound_event

    def _ensure_within(self, value: Any) -> None:
        number = _number(value)
        for text, is_beyond in (
            (self.min, number is None or (self.min is not None and number < Decimal(self.min))),
            (self.max, number is None or (self.max is not None and number > Decimal(self.max))),
        ):
            if text is not None and is_beyond:
                bounds = f"{self.min or 'any'} to {self.max or 'any'}"
                raise Forbidden(f"the token permits values from {bounds}, got {safe_repr(value)}")


def _bound_id(id: Any, own_id: Callable[[str], str]) -> Any:
    """Return the id of a token's event, made unique to the holder of the token. Otherwise the
    holder could use up the ids of events that others are about to send for the same member, and
    those events would not count. A long id is replaced by its hash. An invalid id is returned
    unchanged, and the board refuses it."""
    if not isinstance(id, str) or not id or len(id.encode(errors="replace")) > MAX_ID_BYTES:
        return id
    owned = own_id(id)
    if len(owned.encode(errors="replace")) <= MAX_ID_BYTES:
        return owned
    return own_id(hashlib.sha256(id.encode(errors="replace")).hexdigest())


def submission_rule(member: object, labels: object, least: object, most: object) -> SubmissionRule:
    """Return the rule for a token. Raise InvalidKey for invalid fields."""
    if not isinstance(member, str) or not 1 <= len(member) <= MAX_TEXT:
        raise InvalidKey(
            f"expected a member of 1 to {MAX_TEXT} characters, got {safe_repr(member)}"
        )
    required_labels = {} if labels is None else labels
    if not isinstance(required_labels, Mapping) or len(required_labels) > MAX_LABELS:
        raise InvalidKey(
            f"expected at most {MAX_LABELS} labels as an object, got {safe_repr(labels)}"
        )
    for name, text in required_labels.items():
        if not all(isinstance(each, str) and 1 <= len(each) <= MAX_TEXT for each in (name, text)):
            raise InvalidKey(
                f"expected labels of 1 to {MAX_TEXT} characters, got {safe_repr(text)}"
            )
    bounds = [None if each is None else _number(each) for each in (least, most)]
    for bound, number in zip((least, most), bounds, strict=True):
        if bound is not None and number is None:
            raise InvalidKey(f"expected a number as a bound, got {safe_repr(bound)}")
    low, high = bounds
    if low is not None and high is not None and low > high:
        raise InvalidKey(f"expected min to be at most max, got {low} and {high}")
    return SubmissionRule(
        member,
        dict(required_labels),
        None if low is None else str(low),
        None if high is None else str(high),
    )


def event_fields(event: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the member, value, `at`, id and labels of a decoded event. Raise Forbidden for an
    event of another form, since such an event cannot be checked."""
    if isinstance(event, tuple) and 2 <= len(event) <= 5:
        member, value, at, id, labels = (*event, None, None, None)[:5]
        return member, value, at, id, labels
    if isinstance(event, dict) and event.keys() <= {"member", "value", "at", "id", "labels"}:
        member, value, at, id, labels = map(event.get, ("member", "value", "at", "id", "labels"))
        return member, value, at, id, labels
    raise Forbidden('the token only permits one event of the form {"member": …, "value": …}')


def _is_part(labels: Any, whole: Mapping[str, str]) -> bool:
    return isinstance(labels, dict) and all(
        text is None or whole.get(name) == text for name, text in labels.items()
    )


def _number(value: Any) -> Decimal | None:
    """Return a finite number as a decimal, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return None
    try:
        number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() else None
