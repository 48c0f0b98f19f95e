"""Format the values that messages of a service quote: as JSON, like the values that callers
send."""

import json
from math import isfinite

import msgspec

from laurels.model.validation import shorten

MAX_ESCAPED = 1_000
_encode = msgspec.json.Encoder(decimal_format="number").encode


def json_notation(value: object) -> str:
    """Return a value as JSON, with characters that cannot be printed escaped.

    A value that JSON cannot represent, such as NaN, or bytes from a body of msgpack, is written in
    Python's notation. If characters have to be escaped, the text is cut after MAX_ESCAPED
    characters, since escaping takes about a microsecond for each. Raises RecursionError if the
    value is nested too deeply.
    """
    if isinstance(value, bytes) or (isinstance(value, float) and not isfinite(value)):
        return repr(value)
    try:
        text = _encode(value).decode()
    except UnicodeEncodeError:  # the text has a lone surrogate
        text = json.dumps(value)
    except (TypeError, ValueError, OverflowError):
        return repr(value)
    if text.isprintable():
        return text
    cut = shorten(text, MAX_ESCAPED)
    return "".join([c if c.isprintable() else json.dumps(c)[1:-1] for c in cut])
