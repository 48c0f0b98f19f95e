"""Sizes of boards as text: 10k, 1M."""

_MULTIPLES = {"k": 1_000, "M": 1_000_000}


def size_of(word: str) -> int:
    """Return the number of a text such as `10k`. Raise ValueError for another form than digits and
    a k or M."""
    return int(word.rstrip("kM")) * _MULTIPLES.get(word[-1:], 1)


def size_name(members: int) -> str:
    """Return a number as text: 10,000 as `10k`."""
    for letter, multiple in reversed(_MULTIPLES.items()):
        if members % multiple == 0:
            return f"{members // multiple}{letter}"
    return str(members)
