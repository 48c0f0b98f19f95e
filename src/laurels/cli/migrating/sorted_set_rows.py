"""The result of reading a member of a sorted set: an id with an exact score, or a reject.

A score is a double. It is read as the shortest decimal number that stands for the double, as
programs display it, and is accepted if the board can store this number exactly. So 0.1 is accepted
at a scale of 1, although the exact value of the double is 0.1000000000000000055….
"""

from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from laurels.cli.importing.reading import Reject, rejected
from laurels.cli.show import json_bytes
from laurels.errors import InvalidData, LaurelsError, MemberNotUtf8
from laurels.model.event import member_bytes
from laurels.model.score import LIMIT, Number
from laurels.stores.intake.accept import data_bytes

from .totals import Totals

_DATA_TEXT = 256
"The maximum number of bytes of refused data that are written to the rejects file."


class Ranked(NamedTuple):
    """A member with a score that the board can store. `line` is its number among the members
    read."""

    line: int
    member: str
    units: int
    raw: bytes


def ranked(line: int, member: bytes, score: float, totals: Totals) -> Ranked | Reject:
    """Return a member of a sorted set with its score in the board's units, or a reject."""
    raw = b"%s,%s" % (member, repr(score).encode())
    try:
        name = _name(member)
        return Ranked(line, name, totals.units(_shortest(score)), raw)
    except LaurelsError as error:
        return rejected(line, error, raw)


def member_data(line: int, member: str, text: bytes) -> Any | Reject:
    """Return the data of a member in the form that the board stores: if `text` is JSON, its value
    (None for null), otherwise the text itself. Return a reject if the board does not accept the
    data."""
    try:
        data = _json_or_text(text)
        data_bytes(data)
    except LaurelsError as error:
        return rejected(line, error, b"%s: %s" % (member.encode(), text[:_DATA_TEXT]))
    return data


def same_data(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; 1 and true differ."""
    return json_bytes(one) == json_bytes(other)


def _shortest(score: float) -> Number:
    """Return the shortest decimal number that stands for a double, as an int if it is a whole
    number within ±LIMIT."""
    if score.is_integer() and abs(score) <= LIMIT:
        return int(score)
    return Decimal(repr(score))


def _name(member: bytes) -> str:
    try:
        name = member.decode()
    except UnicodeDecodeError as error:
        raise MemberNotUtf8(f"byte {error.start + 1} of the member is not UTF-8") from error
    member_bytes(name)
    return name


def _json_or_text(text: bytes) -> Any:
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        raise InvalidData(f"byte {error.start + 1} of the data is not UTF-8") from error
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return written
