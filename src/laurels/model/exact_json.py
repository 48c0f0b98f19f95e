"""JSON whose numbers are exact: ints and Decimals, never floats."""

from decimal import Decimal, InvalidOperation

import msgspec

from laurels.errors import InvalidJson, JsonTooDeep, ValueOutOfRange

MAX_DIGITS = 4_300
"""The maximum length of a number in characters, which is also the limit of msgspec for integers."""


def exact(text: str) -> Decimal:
    """Parse a JSON number that is not an integer. If the exponent is too large for a Decimal, the
    result is a number that every check of a range refuses. Raise msgspec.ValidationError if the
    text is longer than MAX_DIGITS, since parsing it would take long, and no other thread could run
    meanwhile."""
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
