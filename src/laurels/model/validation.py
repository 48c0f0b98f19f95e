"""Validation of the values that several kinds of definitions have in common."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import takewhile
from operator import index
from typing import Any, TypeGuard, TypeVar

from laurels.errors import BoardInvalid

T = TypeVar("T")

_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
"""Matches a Decimal as Python represents it. Messages to callers over HTTP show only the part
between the quotes, which is what the callers wrote.
"""
_KINDS = {
    "`int`": "an integer",
    "`float`": "a number",
    "`bool`": "true or false",
    "`str`": "text",
    "`array`": "a list",
}
"""The names in messages for the JSON types that msgspec reports."""
notation: ContextVar[Callable[[object], str]] = ContextVar("notation", default=repr)
"""The notation in which `safe_repr` and `quoted` write a value. By default it is Python's notation.
The service sets the notation of JSON for all its requests. The notation depends on the context in
which a message is made, so the tasks and threads of a service have to run in the service's context.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_name(value: object) -> TypeGuard[str]:
    """Return whether `value` may name a board, a column or a window."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def integer(value: Any) -> int | None:
    """Return the int of a value of an integer type, including numpy's; None for anything else,
    including a bool."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return index(value)
    except TypeError:  # for example, an array of several numbers is not an integer
        return None


def integer_within(value: object, low: int, high: int | None = None) -> int | None:
    """Return an integer as `integer` does, if it lies within the bounds, ends included; otherwise
    None."""
    count = integer(value)
    if count is None or count < low or (high is not None and count > high):
        return None
    return count


def is_unicode(text: str) -> bool:
    """Return whether text can be encoded as UTF-8. Text with a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_of(value: object, choices: Iterable[T], what: str) -> T:
    """Return the choice that `value` equals. Raise BoardInvalid if there is none."""
    choices = list(choices)
    for choice in choices:
        if value == choice:
            return choice
    listed = ", ".join(map(str, choices))
    raise BoardInvalid(f"expected one of {listed} for {what}, got {safe_repr(value)}")


def expectation(what: str, name: str, value: object) -> str:
    """Return the message for an invalid field, from msgspec's message such as "Expected `int`, got
    `str`"."""
    kind, _, _ = what.partition(", got ")
    if not kind.startswith("Expected "):
        return f"{name} is {safe_repr(value)}: {what[:1].lower()}{what[1:]}"
    kind = kind.removeprefix("Expected ").replace(" | null", "")
    for written, called in _KINDS.items():
        kind = kind.replace(written, called)
    return f"expected {kind} for {name}, got {safe_repr(value)}"


def safe_repr(value: object, most: int = 60) -> str:
    """Return the text of any value in the current `notation` (Python or JSON), short enough for a
    message. This takes O(most), even for a large list, mapping or text."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "an integer of more than 60 digits"
    try:
        text = notation.get()(_beginning(value, most))
    # The value may be nested too deeply, contain an int that is too long to print, or be an object
    # of the caller that cannot be printed.
    except Exception:
        text = f"an object of type {type(value).__name__}"
    if not isinstance(value, str):
        text = _DECIMAL.sub(r"\1", text)
    return shorten(text, most)


def _beginning(value: object, most: int, left: list[int] | None = None) -> object:
    """Return the beginning of a value, long enough that its text and the text of the whole value
    begin with the same `most` characters. An item takes at least one character in any notation, so
    at most `most` items are included. `left[0]` is the number of items that may still be
    included."""
    # Not an inner function: an inner function that calls itself would create a reference cycle in
    # each call.
    if left is None:
        left = [most]
    left[0] -= 1
    if isinstance(value, (str, bytes)):
        return value[:most] if len(value) > most else value
    if type(value) is list:
        return [_beginning(item, most, left) for item in _first(value, left)]
    if type(value) is tuple:
        return tuple([_beginning(item, most, left) for item in _first(value, left)])
    if type(value) is dict:
        return {
            _beginning(key, most, left): _beginning(value[key], most, left)
            for key in _first(value, left)
        }
    return value


def _first(items: Iterable[object], left: list[int]) -> Iterator[object]:
    """Yield items while `left` is above 0."""
    return takewhile(lambda _: left[0] > 0, items)


def quoted(name: str | None) -> str:
    """Return a name, an id or another text of limited length, uncut, in the current `notation`
    (Python or JSON)."""
    return notation.get()(name)


def names_in_short(names: Iterable[str], most: int = 200) -> str:
    """Return names, separated by commas, short enough for a message."""
    return shorten(", ".join(names), most)


def shorten(text: str, most: int) -> str:
    """Return a text, cut off with an ellipsis beyond `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
