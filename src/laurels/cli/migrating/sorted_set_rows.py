"""What a member of a sorted set becomes: an id with an exact score, or a reject with the reason.

A score is a double. It is read as the shortest decimal number that stands for it, as it is shown
everywhere, and is taken where the board keeps that number exactly: 0.1 at a scale of 1, and not
the 0.1000000000000000055… which the double is.
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
"""Bytes of refused data that are shown."""


class Ranked(NamedTuple):
    """A member whose score the board can keep. `line` counts the members read so far."""

    line: int
    member: str
    units: int
    raw: bytes


def ranked(line: int, member: bytes, score: float, totals: Totals) -> Ranked | Reject:
    """Check a member of a sorted set against the board's definition."""
    raw = b"%s,%s" % (member, repr(score).encode())
    try:
        name = _name(member)
        return Ranked(line, name, totals.units(_shortest(score)), raw)
    except LaurelsError as error:
        return rejected(line, error, raw)


def carried(line: int, member: str, text: bytes) -> Any | Reject:
    """Return the data of a member: JSON by its value, any other text as text, null as nothing.

    A reject where a board takes no such data.
    """
    try:
        data = _json_or_text(text)
        data_bytes(data)
    except LaurelsError as error:
        return rejected(line, error, b"%s: %s" % (member.encode(), text[:_DATA_TEXT]))
    return data


def same_data(one: Any, other: Any) -> bool:
    """Return whether two pieces of data are written alike: 1 is not true."""
    return json_bytes(one) == json_bytes(other)


def _shortest(score: float) -> Number:
    """Return the shortest number that stands for a double, an int where it is whole and exact."""
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
