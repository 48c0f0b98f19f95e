"""JSON whose numbers are exact: ints and Decimals, never floats."""

from decimal import Decimal, InvalidOperation

import msgspec

from laurels.errors import InvalidJson, JsonTooDeep, ValueOutOfRange

MAX_DIGITS = 4_300
"""The longest number in characters, which is also the limit that msgspec has for integers."""


def exact(text: str) -> Decimal:
    """Return a JSON number that is not an integer. One whose exponent is too large for a Decimal
    becomes one that every check of a range refuses. Raise msgspec.ValidationError if it is longer
    than MAX_DIGITS: reading it takes time that grows with its length, during which no other thread
    runs."""
    if len(text) > MAX_DIGITS:
        raise msgspec.ValidationError("Number out of range")
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("1e999999")


_json = msgspec.json.Decoder(float_hook=exact)


def decode_json(raw: bytes) -> object:
    """Return one JSON document. Raises InvalidJson, JsonTooDeep, ValueOutOfRange."""
    try:
        return _json.decode(raw)
    except msgspec.ValidationError as error:
        raise ValueOutOfRange("a number has more digits than any score") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidJson(str(error)) from error
    except RecursionError as error:
        raise JsonTooDeep("the JSON is nested too deeply") from error
