"""Encode a change as a message: the whole change, or the fields that a receiver expects. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from laurels.core.changes.answers import Change
from laurels.errors.sinks import InvalidMapping
from laurels.model.validation import safe_repr

FIELDS: dict[str, Callable[[Change], Any]] = {
    "id": lambda change: change.id,
    "board": lambda change: change.board,
    "kind": lambda change: change.kind,
    "member": lambda change: change.member,
    "at_ms": lambda change: change.at_ms,
    "event_id": lambda change: change.event_id,
    "delta": lambda change: change.delta,
    "score": lambda change: change.score,
    "labels": lambda change: change.labels,
    "rankings": lambda change: change.rankings,
    "data": lambda change: change.data,
}
"""The fields that a mapping can name, each with the function that reads it from a change."""
PAYOUT_FIELDS = (
    *("id", "board", "window", "period", "labels", "member", "prize", "position", "amount"),
    *("withdrawn", "corrects", "data", "state", "revision", "made_ms", "due_ms", "reference"),
    "confirmed_ms",
)
"""The fields of a payout that a mapping can name."""
_exact = msgspec.json.Encoder(decimal_format="number")


class FieldMapping:
    """Encodes a change as JSON: the whole change, or the fields of a mapping.

    A mapping is a text such as `KeyPrefix=board,UserId=member,DeltaScore=delta,Score=score`, with
    the names in the message on the left; `labels.room` on the right is the value of a label. With a
    mapping, only changes of the kinds `event`, `set` and `initial` are sent. Payouts have a
    mapping of their own, such as `UserId=member,Coins=amount`.
    """

    def __init__(self, text: str | None = None, payouts: str | None = None) -> None:
        self._fields = None if text is None else _parse(text, FIELDS)
        self._payout_fields = None
        if payouts is not None:
            self._payout_fields = _parse(
                payouts, {name: _of_payout(name) for name in PAYOUT_FIELDS}
            )

    def encode(self, change: Change) -> bytes | None:
        """Return a change as JSON, or None if the mapping leaves it out."""
        if change.kind == "payout":
            if self._payout_fields is None:
                return _exact.encode(change)
            return _exact.encode({name: read(change) for name, read in self._payout_fields.items()})
        if self._fields is None:
            return _exact.encode(change)
        if change.member is None or change.kind not in ("event", "set", "initial"):
            return None
        return _exact.encode({name: read(change) for name, read in self._fields.items()})


def _of_payout(name: str) -> Callable[[Change], Any]:
    return lambda change: change.data.get(name, False if name == "withdrawn" else None)


def _parse(
    text: str, known: Mapping[str, Callable[[Change], Any]]
) -> Mapping[str, Callable[[Change], Any]]:
    """Return, for each field of a message, the function that reads its value from a change. `known`
    has these functions by the names that may be on the right of `=`."""
    fields: dict[str, Callable[[Change], Any]] = {}
    for part in text.split(","):
        name, equals, source = (each.strip() for each in part.partition("="))
        if not name or not equals or name in fields:
            raise InvalidMapping(f"expected NAME=FIELD, with each name once, got {safe_repr(part)}")
        if source.startswith("labels.") and len(source) > len("labels."):
            fields[name] = _label(source.removeprefix("labels."))
        elif source in known:
            fields[name] = known[source]
        else:
            raise InvalidMapping(
                f"expected one of {', '.join(known)} or labels.NAME, got {safe_repr(source)}"
            )
    return fields


def _label(name: str) -> Callable[[Change], str | None]:
    return lambda change: change.labels.get(name)
