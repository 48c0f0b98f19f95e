"""Random numbers that records and boards are known by."""

import secrets


def new_tag() -> int:
    """Return a random tag for the changes of a record, from 1."""
    return secrets.randbits(48) or 1


def new_uid() -> str:
    """Return a random name for a board that no other board has, wherever either is moved to."""
    return secrets.token_hex(8)
